#include "report/live/top_picture.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "base/format.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "report/job_workers.h"
#include "report/run_state.h"
#include "report/verdict/learning/wording.h"
#include "report/verdict/machine/wording.h"

namespace reigen {
namespace {

constexpr size_t kWide = 72;  // columns, for all figures of a rank in one line

std::string cut(const std::string& text, size_t width) {
  if (display_width(text) <= width) return text;
  size_t bytes = 0;
  for (size_t columns = 0; bytes < text.size(); ++bytes) {
    const bool begins = (text[bytes] & 0xC0) != 0x80;
    if (begins && columns++ == width) break;
  }
  return text.substr(0, bytes);
}

class Picture {
 public:
  explicit Picture(size_t width) : width_(std::max<size_t>(width, 1)) {}

  void line(const std::string& text) { lines_.push_back(cut(printable_line(text), width_)); }
  void gap() { lines_.emplace_back(); }

  // As many parts on a line as fit.
  void parts(const std::vector<std::string>& all) {
    std::string text;
    for (const std::string& part : all) {
      if (part.empty()) continue;
      if (!text.empty() && display_width(text) + 2 + display_width(part) > width_) {
        line(text);
        text.clear();
      }
      text += "  " + part;
    }
    if (!text.empty()) line(text);
  }

  // A sentence over as many lines as it needs.
  void sentence(const std::string& words) {
    std::istringstream in(words);
    std::string text = " ";
    for (std::string word; in >> word;) {
      if (text.size() > 1 && display_width(text) + 1 + display_width(word) > width_) {
        line(text);
        text = " ";
      }
      text += " " + word;
    }
    if (text.size() > 1) line(text);
  }

  void table(const Table& table) {
    std::istringstream in(table.text());
    for (std::string text; std::getline(in, text);) line(text);
  }

  // A name, a bar for the share, and text, which moves to the next line where it does not fit.
  void meter(const std::string& name, double share, const std::string& words) {
    const std::string text = format("    {:<8}{} ", name, bar(share));
    if (display_width(text) + display_width(words) <= width_) return line(text + words);
    line(text);
    line("      " + words);
  }

  std::string bar(double share) const {
    const size_t length = std::clamp<size_t>(width_ / 4, 5, 30);
    const double full = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0;
    const auto marks = static_cast<size_t>(std::lround(full * static_cast<double>(length)));
    return "[" + std::string(marks, '#') + std::string(length - marks, ' ') + "]";
  }

  size_t width() const { return width_; }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  size_t width_;
  std::vector<std::string> lines_;
};

void add_progress(Picture& picture, const RunSummary& run) {
  const StepRecord& last = *run.last_step;
  picture.parts({format("step {}", with_commas(last.step)), format("epoch {:.2f}", last.epoch),
                 format("loss {:.4f}", last.loss), format("rate {:.2e}", last.rate),
                 format("{} tokens/s", with_commas(static_cast<uint64_t>(
                                           run.steps.latest("target_tokens", "seconds")))),
                 format("{} per step", human_seconds(run.steps.latest("seconds", "steps")))});
  if (!run.evaluations.empty()) {
    const EvaluationRecord& e = run.evaluations.back();
    std::vector<std::string> parts = {format("evaluation at step {}:", with_commas(e.step)),
                                      format("loss {:.4f}", e.nll)};
    if (e.bleu) parts.push_back(format("BLEU {:.2f}", *e.bleu));
    picture.parts(parts);
  }
  const Bottleneck found = bottleneck(run);
  const VerdictText verdict = text_of(found);
  picture.parts({"bottleneck: " + verdict.verdict, verdict.since,
                 verdict.confidence.empty() ? "" : "(confidence " + verdict.confidence + ")"});
  if (!found.course->changes.empty()) picture.sentence(text_of(found.course->changes.back()));
}

void add_ranks(Picture& picture, const RunSummary& run) {
  const bool wide = picture.width() >= kWide;
  // Of an elastic job, the logs of lost workers are there, too.
  std::set<int> present;
  for (const PresentWorker& one : workers_of_job(run).present) {
    present.insert(static_cast<int>(one.worker));
  }
  const char* who = present.empty() ? "rank" : "worker";
  Table table;
  table.row(wide ? std::vector<std::string>{who, "ms/step", "working", "waiting", "MB sent/step",
                                            "working share"}
                 : std::vector<std::string>{who, "ms", "work", "wait"});
  if (wide) table.text_column(5);
  for (const auto& [rank, summary] : run.ranks) {
    if (summary.spans.rows().empty() || (!present.empty() && !present.contains(rank))) continue;
    const double step = 1000 * summary.spans.latest("seconds", "steps");
    const double wait = 1000 * summary.spans.latest("communication", "steps");
    std::vector<std::string> row = {std::to_string(rank), format("{:.1f}", step),
                                    format("{:.1f}", step - wait), format("{:.1f}", wait)};
    if (wide) {
      row.push_back(format("{:.2f}", summary.spans.latest("sent", "steps") / 1e6));
      row.push_back(picture.bar(step > 0 ? (step - wait) / step : 0));
    }
    table.row(std::move(row));
  }
  picture.table(table);
}

void add_machine(Picture& picture, int rank, const SampleRecord& s) {
  double busy = 0;
  for (double core : s.cores) busy += core / static_cast<double>(s.cores.size());
  picture.line(format("  {} (rank {})", s.host, rank));
  picture.meter("cores", busy / 100, format("{:3.0f}% of {}", busy, s.cores.size()));
  picture.meter(
      "memory",
      static_cast<double>(s.memory_used) / std::max(1.0, static_cast<double>(s.memory_total)),
      format("{} of {}", human_bytes(s.memory_used), human_bytes(s.memory_total)));
  for (const InterfaceSample& i : s.interfaces) {
    if (!i.used && (i.name == "lo" || i.in + i.out < 1)) continue;
    const double share = i.speed > 0 ? std::max(i.in, i.out) / static_cast<double>(i.speed) : 0;
    picture.meter(i.name, share,
                  format("{:.2f} MB/s in, {:.2f} out{}{}", i.in / 1e6, i.out / 1e6,
                         i.speed > 0 ? format(", nominal {} Mbit/s", i.speed / 125'000) : "",
                         i.used ? " (used by the job)" : ""));
  }
  for (size_t g = 0; g < s.gpus.size(); ++g) {
    const GpuSample& gpu = s.gpus[g];
    picture.meter(format("gpu {}", g), gpu.utilisation / 100,
                  format("{:3.0f}%  {} of {}  {:.0f} W  {:.0f} MHz", gpu.utilisation,
                         human_bytes(gpu.memory_used), human_bytes(gpu.memory_total), gpu.watts,
                         gpu.megahertz));
  }
}

}  // namespace

std::vector<std::string> top_picture(const std::string& name, const RunSummary& run, double now,
                                     size_t width) {
  Picture picture(width);
  const RunState state = state_of(run, now);
  picture.line(name);
  picture.parts({state.text, state.kind == RunStateKind::kRunning
                                 ? format("(last record {} ago)",
                                          human_seconds(std::max(0.0, now - last_news(run))))
                                 : ""});
  if (!run.last_step) {
    picture.line("  no step finished yet");
    return picture.take();
  }
  add_progress(picture, run);
  picture.gap();
  add_ranks(picture, run);
  picture.gap();
  for (const auto& [rank, summary] : run.ranks) {
    if (summary.last_sample) add_machine(picture, rank, *summary.last_sample);
  }
  return picture.take();
}

}  // namespace reigen
