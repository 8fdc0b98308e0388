#include "report/live/live_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "config/train_options.h"
#include "report/job_workers.h"
#include "report/live/live_charts.h"
#include "report/log_tail.h"
#include "report/verdict/learning/wording.h"
#include "report/verdict/machine/wording.h"

namespace reigen {
namespace {

constexpr size_t kPageLogLines = 40;
constexpr size_t kMostRanks = 256;
constexpr size_t kSingleGpus = 2;

std::string name_of_run(const std::string& directory) {
  std::filesystem::path path = std::filesystem::absolute(directory).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

std::optional<TrainOptions> options_of(const std::string& directory) {
  try {
    return read_recorded_options(directory);
  } catch (const std::exception&) {  // the live page does not check the configuration
    return std::nullopt;
  }
}

// The end of a decay that was begun and not cancelled, or the limit.
std::optional<uint64_t> last_step(const RunSummary& run,
                                  const std::optional<TrainOptions>& options) {
  const bool decays = !run.decays.empty() && run.decays.back().steps > 0;
  if (decays) return run.decays.back().step + run.decays.back().steps;
  const int64_t last = options ? last_step_of(run, *options) : 0;
  return last > 0 ? std::optional(static_cast<uint64_t>(last)) : std::nullopt;
}

class Facts {
 public:
  void add(const std::string& name, std::string value, std::string detail = "") {
    json_.push_back({{"name", name}, {"value", std::move(value)}, {"detail", std::move(detail)}});
  }
  Json take() { return std::move(json_); }

 private:
  Json json_ = Json::array();
};

Json facts_of(const RunSummary& run, const std::optional<TrainOptions>& options, bool running) {
  Facts facts;
  if (!run.last_step) return facts.take();
  const StepRecord& last = *run.last_step;
  const std::optional<uint64_t> limit = last_step(run, options);
  const double step_seconds = run.steps.latest("seconds", "steps");
  facts.add("step", with_commas(last.step),
            limit ? format("of {}", with_commas(*limit)) : "no limit");
  if (running && limit && *limit > last.step) {
    facts.add("time left", human_seconds(static_cast<double>(*limit - last.step) * step_seconds),
              "at the current speed, without evaluations");
  }
  facts.add("training loss", format("{:.4f}", last.loss), format("epoch {:.2f}", last.epoch));
  if (!run.evaluations.empty()) {
    const EvaluationRecord& e = run.evaluations.back();
    facts.add("validation loss", format("{:.4f}", e.nll),
              format("at step {}", with_commas(e.step)));
    if (e.bleu)
      facts.add("BLEU", format("{:.2f}", *e.bleu), format("at step {}", with_commas(e.step)));
    for (size_t d = 0; d < std::min(e.directions.size(), kMostDirections); ++d) {
      const DirectionScores& direction = e.directions[d];
      facts.add(direction.name,
                direction.bleu ? format("BLEU {:.2f}", *direction.bleu)
                               : format("loss {:.4f}", direction.nll),
                format("at step {}", with_commas(e.step)));
    }
    for (const auto& [name, value] : e.metrics) {
      facts.add(name, format("{:.4f}", value), format("at step {}", with_commas(e.step)));
    }
  }
  facts.add("learning rate", format("{:.3e}", last.rate));
  facts.add("target tokens per second",
            with_commas(static_cast<uint64_t>(run.steps.latest("target_tokens", "seconds"))));
  facts.add("time per step", human_seconds(step_seconds));
  return facts.take();
}

Json verdicts_of(const RunSummary& run, const LearningContext& learning) {
  Json all = Json::array();
  Bottleneck found = bottleneck(run);
  found.place = {learning.run, learning.options};
  for (const VerdictText& v :
       {text_of(found), text_of(trained(run, learning)), text_of(overfitting(run, learning)),
        text_of(data_health(run, learning))}) {
    all.push_back({{"about", v.about},
                   {"verdict", v.since.empty() ? v.verdict : v.verdict + " " + v.since},
                   {"confidence", v.confidence},
                   {"summary", v.summary},
                   {"because", v.because},
                   {"advice", v.advice},
                   {"rule", v.rule}});
  }
  return all;
}

// A bar for a share from 0 to 1, and its text.
Json meter(double share, std::string text) {
  return {{"share", std::clamp(share, 0.0, 1.0)}, {"text", std::move(text)}};
}

// One bar for each GPU, or one for all GPUs of the host with their range.
Json gpu_meters(const std::vector<GpuSample>& gpus) {
  Json meters = Json::array();
  if (gpus.size() <= kSingleGpus) {
    for (size_t g = 0; g < gpus.size(); ++g) {
      const GpuSample& gpu = gpus[g];
      meters.push_back(meter(gpu.utilisation / 100,
                             format("{}: {:.0f}%, {} of {}, {:.0f} W, {:.0f} MHz", g,
                                    gpu.utilisation, human_bytes(gpu.memory_used),
                                    human_bytes(gpu.memory_total), gpu.watts, gpu.megahertz)));
    }
    return meters;
  }
  double sum = 0;
  double low = INFINITY;
  double high = 0;
  double watts = 0;
  uint64_t memory = 0;
  for (const GpuSample& gpu : gpus) {
    sum += gpu.utilisation;
    low = std::min(low, gpu.utilisation);
    high = std::max(high, gpu.utilisation);
    watts += gpu.watts;
    memory = std::max(memory, gpu.memory_used);
  }
  const double mean = sum / static_cast<double>(gpus.size());
  meters.push_back(
      meter(mean / 100, format("{} GPUs: {:.0f}% ({:.0f} to {:.0f}), at most {} of {}, "
                               "{:.0f} W in total",
                               gpus.size(), mean, low, high, human_bytes(memory),
                               human_bytes(gpus[0].memory_total), watts)));
  return meters;
}

Json host_row(int rank, const SampleRecord& s) {
  double busy = 0;
  for (double core : s.cores) busy += core / static_cast<double>(s.cores.size());
  Json row = {{"host", s.host}, {"rank", rank}};
  row["cpu"] = meter(busy / 100, format("{:.0f}% of {} cores", busy, s.cores.size()));
  row["memory"] =
      meter(static_cast<double>(s.memory_used) / std::max(1.0, static_cast<double>(s.memory_total)),
            format("{} of {}", human_bytes(s.memory_used), human_bytes(s.memory_total)));
  row["network"] = Json::array();
  for (const InterfaceSample& i : s.interfaces) {
    if (!i.used && (i.name == "lo" || i.in + i.out < 1)) continue;
    const auto speed = static_cast<double>(i.speed);
    row["network"].push_back(
        meter(speed > 0 ? std::max(i.in, i.out) / speed : 0,
              format("{}{}: {:.2f} MB/s in, {:.2f} out{}", i.name,
                     i.used ? " (used by the job)" : "", i.in / 1e6, i.out / 1e6,
                     speed > 0 ? format(", nominal {:.0f} Mbit/s", speed / 125'000) : "")));
  }
  row["gpus"] = gpu_meters(s.gpus);
  return row;
}

Json hosts_of(const RunSummary& run) {
  Json rows = Json::array();
  for (const auto& [rank, summary] : run.ranks) {
    if (summary.last_sample) rows.push_back(host_row(rank, *summary.last_sample));
  }
  return rows;
}

// Times and bytes of the last steps; empty where there is none yet.
std::vector<std::string> costs_of(const RankSummary& rank) {
  if (rank.spans.rows().empty()) return {"", "", "", "", ""};
  const double step = 1000 * rank.spans.latest("seconds", "steps");
  const double wait = 1000 * rank.spans.latest("communication", "steps");
  return {format("{:.1f}", step), format("{:.1f}", step - wait), format("{:.1f}", wait),
          format("{:.2f}", rank.spans.latest("sent", "steps") / 1e6),
          format("{:.2f}", rank.spans.latest("inter_node_bytes", "steps") / 1e6)};
}

Json row_of(const std::vector<std::string>& first, const std::vector<std::string>& then) {
  Json row = first;
  for (const std::string& cell : then) row.push_back(cell);
  return row;
}

Json ranks_of(const RunSummary& run) {
  Json rows = Json::array();
  for (const auto& [rank, summary] : run.ranks) {
    if (summary.spans.rows().empty() || rows.size() == kMostRanks) continue;
    rows.push_back(row_of({std::to_string(rank)}, costs_of(summary)));
  }
  return rows;
}

// The logs of a job's ranks are named by the workers' numbers.
Json present_workers(const RunSummary& run, const JobWorkers& workers) {
  Json rows = Json::array();
  for (size_t rank = 0; rank < std::min(workers.present.size(), kMostRanks); ++rank) {
    const PresentWorker& one = workers.present[rank];
    const auto found = run.ranks.find(static_cast<int>(one.worker));
    rows.push_back(
        row_of({std::to_string(one.worker), rank == 0 ? "0 (writes the run)" : std::to_string(rank),
                one.host, with_commas(one.since + 1)},
               costs_of(found == run.ranks.end() ? RankSummary() : found->second)));
  }
  return rows;
}

// The last ones, the newest first.
Json worker_changes(const JobWorkers& workers) {
  constexpr size_t kMost = 50;
  Json rows = Json::array();
  for (size_t i = workers.changes.size(); i-- > 0 && rows.size() < kMost;) {
    const WorkerChange& change = workers.changes[i];
    rows.push_back({with_commas(change.step), std::to_string(change.worker), change.host,
                    name_of(change.what), change.why});
  }
  return rows;
}

// The last changes of the workers of an elastic job.
void note_memberships(const RunSummary& run, Json& notes) {
  constexpr size_t kMost = 5;
  const std::vector<MembershipChangeRecord>& changes = run.memberships;
  for (size_t i = changes.size() - std::min(changes.size(), kMost); i < changes.size(); ++i) {
    const MembershipChangeRecord& change = changes[i];
    std::string text = format("after step {}: ", with_commas(change.step));
    for (const LostWorkerEntry& lost : change.lost) {
      text += format("worker {} ({}) was lost, {}; ", lost.worker, lost.host, lost.why);
    }
    for (const ChangedWorkerEntry& left : change.left) {
      text += format("worker {} ({}) left; ", left.worker, left.host);
    }
    for (const ChangedWorkerEntry& joined : change.joined) {
      text += format("worker {} ({}) joined; ", joined.worker, joined.host);
    }
    text += format("{} since then, after {}", counted(change.workers, "worker"),
                   human_seconds(change.seconds));
    notes.push_back(std::move(text));
  }
}

Json notes_of(const RunReader& reader) {
  const RunSummary& run = reader.run();
  Json notes = Json::array();
  if (reader.damaged_lines() > 0) {
    notes.push_back(
        format("damaged lines in the log, left out: {}", with_commas(reader.damaged_lines())));
  }
  if (run.clock_jumps > 0) {
    notes.push_back(
        format("the system clock was set during the run (jumps: {}); durations are measured with a "
               "monotonic clock",
               with_commas(run.clock_jumps)));
  }
  if (run.repeated_steps > 0) {
    notes.push_back(
        format("two processes wrote this run at the same time; repeated steps in its log, counted "
               "once: {}; stop one of the processes",
               with_commas(run.repeated_steps)));
  }
  uint64_t lost = 0;
  for (const StartRecord& s : run.starts) {
    lost += s.lost_steps;
    if (s.restart > 0) {
      notes.push_back(format("the job started again by itself from step {}, with {}, after {}",
                             with_commas(s.step), counted(s.workers, "worker"), s.cause));
    }
  }
  if (lost > 0) notes.push_back(format("steps repeated after a resume: {}", with_commas(lost)));
  note_memberships(run, notes);
  for (const CheckpointRecord& c : run.checkpoints) {
    if (!c.error.empty()) {
      notes.push_back(format("the checkpoint of step {} could not be written: {}",
                             with_commas(c.step), c.error));
    }
  }
  const auto hidden = static_cast<int64_t>(run.ranks.size()) - static_cast<int64_t>(kMostRanks);
  if (hidden > 0) notes.push_back(format("ranks that are not in the table: {}", hidden));
  return notes;
}

}  // namespace

Json live_placeholder(const std::string& run_directory, const char* kind, const std::string& text) {
  Json json = {{"name", name_of_run(run_directory)}, {"state", {{"kind", kind}, {"text", text}}}};
  for (const char* part : {"facts", "verdicts", "charts", "hosts", "ranks", "workers",
                           "worker_changes", "samples", "notes"}) {
    json[part] = Json::array();
  }
  json["log"] = log_tail(run_directory + "/log.txt", kPageLogLines);
  return json;
}

Json live_data(const std::string& run_directory, const RunReader& reader, double now) {
  const RunSummary& run = reader.run();
  const RunState state = state_of(run, now);
  Json json = live_placeholder(run_directory, name_of(state.kind), state.text);
  const std::optional<TrainOptions> options = options_of(run_directory);
  json["facts"] = facts_of(run, options, state.kind == RunStateKind::kRunning);
  json["verdicts"] = verdicts_of(run, learning_context(run_directory, options));
  json["charts"] = live_charts(run);
  json["hosts"] = hosts_of(run);
  const JobWorkers workers = workers_of_job(run);
  if (workers.present.empty()) json["ranks"] = ranks_of(run);
  json["workers"] = present_workers(run, workers);
  json["worker_changes"] = worker_changes(workers);
  json["notes"] = notes_of(reader);
  if (run.evaluations.empty()) return json;
  for (const SampleTranslation& s : run.evaluations.back().samples) {
    json["samples"].push_back(
        {{"source", s.source}, {"reference", s.reference}, {"hypothesis", s.hypothesis}});
  }
  return json;
}

}  // namespace reigen
