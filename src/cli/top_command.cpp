// `reigen top`: a run in a plain terminal, drawn again every second.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/format.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "observe/identity.h"
#include "observe/run_reader.h"
#include "observe/verdicts.h"

namespace reigen {
namespace {

constexpr size_t kBar = 20;
constexpr size_t kMostRanks = 16;

std::string bar(double share) {
  const auto full = static_cast<size_t>(std::lround(std::clamp(share, 0.0, 1.0) * kBar));
  return "[" + std::string(full, '#') + std::string(kBar - full, ' ') + "]";
}

// Of the last row of a table: what it says about now.
double recent(const RolledTable& table, const char* name, const char* divisor) {
  const auto points = table.ratio(name, divisor);
  return points.empty() ? 0 : points.back().second;
}

std::string machine_lines(int rank, const SampleRecord& s) {
  double busy = 0;
  for (double core : s.cores) busy += core / static_cast<double>(s.cores.size());
  std::string out = format(
      "  {} (rank {})\n    cpu {} {:3.0f}% of {} cores   memory {} {} of {}\n", s.host, rank,
      bar(busy / 100), busy, s.cores.size(),
      bar(static_cast<double>(s.memory_used) / std::max(1.0, static_cast<double>(s.memory_total))),
      human_bytes(s.memory_used), human_bytes(s.memory_total));
  for (const InterfaceSample& i : s.interfaces) {
    if (!i.used && (i.name == "lo" || i.in + i.out < 1)) continue;
    const double share = i.speed > 0 ? std::max(i.in, i.out) / static_cast<double>(i.speed) : 0;
    out += format("    {}{} {} {:.2f} MB/s in, {:.2f} out{}\n", i.name, i.used ? " (job)" : "",
                  bar(share), i.in / 1e6, i.out / 1e6,
                  i.speed > 0 ? format(", claims {} Mbit/s", i.speed / 125'000) : "");
  }
  for (size_t g = 0; g < s.gpus.size(); ++g) {
    const GpuSample& gpu = s.gpus[g];
    out += format("    gpu {} {} {:3.0f}%  {} of {}  {:.0f} W  {:.0f} MHz\n", g,
                  bar(gpu.utilisation / 100), gpu.utilisation, human_bytes(gpu.memory_used),
                  human_bytes(gpu.memory_total), gpu.watts, gpu.megahertz);
  }
  return out;
}

std::string picture(const std::string& name, const RunFold& run) {
  std::string out = name;
  if (!run.last_step) return out + "\n  no step yet\n";
  const StepRecord& last = *run.last_step;
  const double age = unix_now() - last.time;
  const bool ended = run.ends.size() >= run.starts.size() && !run.ends.empty();
  out += ended ? format("  ended: {}\n", run.ends.back().reason)
               : format("  last step {} ago\n", human_seconds(std::max(0.0, age)));
  out += format("  step {}  epoch {:.2f}  loss {:.4f}  rate {:.2e}  {} tok/s  {} a step\n",
                with_commas(last.step), last.epoch, last.loss, last.rate,
                with_commas(static_cast<uint64_t>(recent(run.steps, "target_tokens", "seconds"))),
                human_seconds(recent(run.steps, "seconds", "steps")));
  if (!run.evaluations.empty()) {
    const EvaluationRecord& e = run.evaluations.back();
    out += format("  evaluation at step {}: loss {:.4f}{}\n", with_commas(e.step), e.nll,
                  e.bleu ? format("  BLEU {:.2f}", *e.bleu) : "");
  }
  const Verdict verdict = bottleneck(run, time_shares(run));
  out += format("  bottleneck: {}{}\n\n", verdict.verdict,
                verdict.confidence.empty() ? "" : " (confidence " + verdict.confidence + ")");
  Table table;
  table.row({"rank", "ms a step", "own work", "waiting", "sent MB/step"});
  size_t shown = 0;
  for (const auto& [rank, fold] : run.ranks) {
    if (fold.spans.rows().empty() || ++shown > kMostRanks) continue;
    const double step = 1000 * recent(fold.spans, "seconds", "steps");
    const double wait = 1000 * recent(fold.spans, "communication", "steps");
    table.row({std::to_string(rank), format("{:.1f}", step), format("{:.1f}", step - wait),
               format("{:.1f}", wait),
               format("{:.2f}", recent(fold.spans, "sent", "steps") / 1e6)});
  }
  out += table.text();
  if (shown > kMostRanks) out += format("  and {} more ranks\n", shown - kMostRanks);
  out += "\n";
  for (const auto& [rank, fold] : run.ranks) {
    if (fold.last_sample) out += machine_lines(rank, *fold.last_sample);
  }
  return out;
}

}  // namespace

void run_top(const TopOptions& options) {
  RunReader reader(options.run);
  const auto pause = std::chrono::duration<double>(options.every);
  while (!interrupt_requested()) {
    reader.refresh();
    const std::string text = picture(options.run, reader.run());
    if (options.once) return print(text);
    print("\x1b[H\x1b[2J" + text + "\n  Ctrl-C ends this picture, not the run\n");
    const auto until = std::chrono::steady_clock::now() + pause;
    while (!interrupt_requested() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
}

}  // namespace reigen
