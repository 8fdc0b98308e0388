#include "report/report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "config/yaml.h"
#include "observe/tensorboard/hparams.h"
#include "report/log_tail.h"
#include "report/report_maker.h"

namespace reigen {
namespace {

constexpr size_t kLogLines = 15;

}  // namespace

std::string whole(double value) {
  return with_commas(static_cast<uint64_t>(std::max(0.0, std::round(value))));
}

Points scaled(Points points, double factor) {
  for (auto& point : points) point.second *= factor;
  return points;
}

Points smoothed(const Points& points) {
  constexpr size_t kMost = 80;
  const size_t each = (points.size() + kMost - 1) / kMost;
  if (each < 2) return points;
  Points few;
  for (size_t i = 0; i < points.size(); i += each) {
    const size_t count = std::min(each, points.size() - i);
    double sum = 0;
    for (size_t j = i; j < i + count; ++j) sum += points[j].second;
    few.emplace_back(points[i + count - 1].first, sum / static_cast<double>(count));
  }
  return few;
}

Report ReportMaker::make() {
  report_.name = std::filesystem::path(directory_).lexically_normal().filename().string();
  if (report_.name.empty()) report_.name = directory_;
  read_config();
  report_.state = state_of(run_, unix_now());
  report_.bottleneck = bottleneck(run_);
  report_.bottleneck.place = {directory_, options_, limit_to_continue()};
  report_.shares = report_.bottleneck.whole.shares;
  time_ = report_.bottleneck.time;
  const LearningContext learning = learning_context(directory_, options_);
  report_.trained = trained(run_, learning);
  report_.overfitting = overfitting(run_, learning);
  report_.data = data_health(run_, learning);
  report_.verdicts = {text_of(report_.bottleneck), text_of(report_.trained),
                      text_of(report_.overfitting), text_of(report_.data)};
  how_long();
  is_trained();
  is_overfitting();
  is_busy();
  is_network();
  learning_rate();
  training_set();
  checkpoint_files();
  checkpoint_size();
  average_step();
  correlation();
  fine_tuning();
  environment();
  notes();
  if (!run_.evaluations.empty()) report_.samples = run_.evaluations.back().samples;
  read_log_tail();
  numbers();
  return std::move(report_);
}

// Half as many steps again, where the run has reached its limit.
uint64_t ReportMaker::limit_to_continue() const {
  if (!run_.ended || run_.ends.back().reason != "max-steps" || !run_.last_step) return 0;
  return run_.last_step->step + (run_.last_step->step + 1) / 2;
}

Answer& ReportMaker::add(const char* id, const char* question) {
  report_.answers.push_back({.id = id, .question = question});
  return report_.answers.back();
}

const RankSummary* ReportMaker::first() const {
  const auto found = run_.ranks.find(0);
  return found == run_.ranks.end() ? nullptr : &found->second;
}

bool ReportMaker::started() const { return run_.steps.total("steps") > 0; }

void ReportMaker::read_config() {
  const std::string path = directory_ + "/config.yaml";
  if (!path_exists(path)) return;
  report_.config = read_own_file(path, kMostConfigBytes);
  try {
    report_.settings = session_settings(parse_yaml(report_.config, path));
    options_ = read_recorded_options(directory_);
  } catch (const ConfigError&) {
    report_.notes.emplace_back("config.yaml", "cannot be read");
  }
}

void ReportMaker::read_log_tail() {
  report_.log_tail = log_tail(directory_ + "/log.txt", kLogLines);
}

void ReportMaker::environment() {
  if (run_.starts.empty()) return;
  const StartRecord& s = run_.starts.back();
  report_.environment = {{"version", s.version},
                         {"host", s.host},
                         {"device", s.device},
                         {"threads", with_commas(s.threads)},
                         {"workers", with_commas(s.workers)},
                         {"data", options_ ? options_->data : "?"}};
  if (!s.encryption.empty()) {
    report_.environment.emplace_back("encryption between workers", s.encryption);
  }
  if (s.insecure) {
    report_.environment.emplace_back("secret of the job",
                                     "none (--insecure): others could have joined it");
  }
  if (s.capacity > 0) {
    report_.environment.emplace_back("speed of large matrix products",
                                     format("{}, all workers together", human_flops(s.capacity)));
  }
  for (const auto& [rank, summary] : run_.ranks) {
    if (!summary.last_sample) continue;
    const SampleRecord& sample = *summary.last_sample;
    std::string machine = format("{}, {} of memory", counted(sample.cores.size(), "core"),
                                 human_bytes(sample.memory_total));
    for (const GpuSample& gpu : sample.gpus) machine += ", " + gpu.name;
    report_.environment.emplace_back(format("{} (rank {})", sample.host, rank), machine);
  }
}

void ReportMaker::notes() {
  if (report_.state.kind != RunStateKind::kEnded) {
    report_.notes.emplace_back("not ended", report_.state.text);
  }
  if (reader_.unfinished_lines() > 0 && report_.state.kind != RunStateKind::kRunning) {
    report_.notes.emplace_back("cut off",
                               format("the last line of {} is incomplete and was ignored",
                                      counted(reader_.unfinished_lines(), "log")));
  }
  if (run_.steps.total("skipped") > 0) {
    report_.notes.emplace_back("skipped steps", format("{} of {}: loss or gradient was not finite",
                                                       whole(run_.steps.total("skipped")),
                                                       whole(run_.steps.total("steps"))));
  }
  note_failed_checkpoints();
  if (reader_.damaged_lines() > 0) {
    report_.notes.emplace_back("damaged lines",
                               format("{} ignored", with_commas(reader_.damaged_lines())));
  }
  if (run_.clock_jumps > 0) {
    report_.notes.emplace_back(
        "clock",
        format("set {} during the run; durations come from a monotonic clock and are not affected",
               counted(run_.clock_jumps, "time")));
  }
  if (run_.repeated_steps > 0) {
    report_.notes.emplace_back(
        "two writers",
        format("two processes wrote the log at once; {} recorded twice, counted once",
               counted(run_.repeated_steps, "step")));
  }
  for (const EndRecord& e : run_.ends) {
    if (e.notice.empty()) continue;
    report_.notes.emplace_back(format("preemption after step {}", with_commas(e.step)), e.notice);
  }
  if (!run_.shares.empty()) {
    const SharesRecord& last = run_.shares.back();
    report_.notes.emplace_back(
        "shares of the batch",
        format("{}; since step {} {:.3f} by rank", counted(run_.shares.size(), "change"),
               with_commas(last.step), fmt::join(last.shares, ", ")));
  }
  note_restarts();
  note_memberships();
  for (const auto& [rank, use] : report_.bottleneck.uses) {
    if (use.lost_to_workers < kLostShare) continue;
    report_.notes.emplace_back("shared cores", sharing_text(use));
    break;
  }
  for (const NormRise& rise : report_.bottleneck.course->norm_rises) {
    report_.notes.emplace_back("gradient norm rose",
                               format("from {:.3g} to {:.3g} at about step {}", rise.before,
                                      rise.after, with_commas(static_cast<uint64_t>(rise.step))));
  }
  uint64_t lost = 0;
  for (const auto& s : run_.starts) lost += s.lost_steps;
  if (lost > 0) {
    report_.notes.emplace_back(
        "steps repeated after a resume",
        format("{}, in {}", with_commas(lost), human_seconds(time_.repeated)));
  }
}

void ReportMaker::note_restarts() {
  uint64_t restarts = 0;
  for (const StartRecord& s : run_.starts) {
    if (s.restart == 0) continue;
    ++restarts;
    report_.notes.emplace_back(format("attempt {}", s.attempt),
                               format("a restart from step {} with {}, after {}",
                                      with_commas(s.step), counted(s.workers, "worker"), s.cause));
  }
  report_.numbers["restarts"] = restarts;
}

void ReportMaker::note_failed_checkpoints() {
  uint64_t failures = 0;
  const CheckpointRecord* last = nullptr;
  for (const CheckpointRecord& c : run_.checkpoints) {
    if (c.error.empty()) continue;
    ++failures;
    last = &c;
  }
  if (last == nullptr) return;
  report_.notes.emplace_back(
      "checkpoints that could not be written",
      format("{} of {}, the last after step {}: {}", with_commas(failures),
             with_commas(run_.checkpoints.size()), with_commas(last->step), last->error));
  report_.numbers["failed_checkpoints"] = failures;
}

void ReportMaker::note_memberships() {
  const std::vector<MembershipChangeRecord>& changes = run_.memberships;
  if (changes.empty()) return;
  uint64_t lost = 0;
  uint64_t joined = 0;
  uint64_t left = 0;
  uint64_t repeated = 0;
  double seconds = 0;
  bool residuals = false;
  for (const MembershipChangeRecord& change : changes) {
    lost += change.lost.size();
    joined += change.joined.size();
    left += change.left.size();
    repeated += change.settled == "repeated" ? 1 : 0;
    seconds += change.seconds;
    residuals = residuals || change.lost_residuals;
  }
  std::vector<std::string> what;
  if (lost > 0) what.push_back("lost " + counted(lost, "worker"));
  if (left > 0) what.push_back(counted(left, "worker") + " left");
  if (joined > 0) what.push_back(counted(joined, "worker") + " joined");
  if (what.empty()) what.emplace_back("continued with the same workers");
  std::string text = format("{}, {} in all, ", fmt::join(what, ", "), human_seconds(seconds));
  // No worker had committed a step that was begun again.
  text +=
      repeated == 0 ? "no step repeated" : counted(repeated, "unfinished step") + " begun again";
  if (residuals) text += "; rounding errors that the lost workers had not sent yet are lost";
  for (const MembershipChangeRecord& change : changes) {
    if (change.earlier_run.empty()) continue;
    text += format("; the steps up to {} are in {} on host {}", with_commas(change.step),
                   change.earlier_run, change.earlier_host);
  }
  report_.notes.emplace_back("elastic", text);
}

void ReportMaker::numbers() {
  const TimeShares& s = report_.shares;
  Json& n = report_.numbers;
  n["seconds"] = time_.wall;
  n["start_up_seconds"] = time_.start_up;
  n["data_seconds"] = time_.data;
  n["steps"] = run_.steps.total("steps");
  const double step_seconds = run_.steps.total("seconds");
  if (step_seconds > 0) {
    n["target_tokens_per_second"] = run_.steps.total("target_tokens") / step_seconds;
  }
  if (!run_.starts.empty()) {
    const StartRecord& s = run_.starts.back();
    n["machine"] = {{"host", s.host},
                    {"device", s.device},
                    {"threads", s.threads},
                    {"workers", s.workers},
                    {"version", s.version}};
  }
  n["shares"] = {{"total", s.total},
                 {"input", s.input},
                 {"compute", s.compute},
                 {"compression", s.compression},
                 {"network", s.network},
                 {"straggler", s.straggler},
                 {"contended", s.contention},
                 {"interference", s.interference},
                 {"shared_cores", s.shared_cores},
                 {"late_in_turn", s.late_in_turn},
                 {"quota", s.quota},
                 {"stopped", s.stopped},
                 {"steal", s.steal},
                 {"memory", s.memory},
                 {"gpu_shared", s.gpu_shared},
                 {"gpu_slowed", s.gpu_slowed},
                 {"logging", s.logging},
                 {"evaluation", s.evaluation},
                 {"checkpoint", s.checkpoint},
                 {"between_steps", s.between},
                 {"other", s.other}};
  for (const auto& e : run_.evaluations) {
    Json row = {{"step", e.step}, {"nll", e.nll}};
    if (e.bleu) row["bleu"] = *e.bleu;
    n["evaluations"].push_back(std::move(row));
  }
  for (const auto& [rank, summary] : run_.ranks) {
    n["ranks"].push_back(
        {{"rank", rank},
         {"steps", summary.spans.total("steps")},
         {"own_seconds", summary.spans.total("seconds") - summary.spans.total("communication")},
         {"communication_seconds", summary.spans.total("communication")},
         {"bytes_sent", summary.spans.total("sent")},
         {"bytes_sent_away", summary.spans.total("inter_node_bytes")},
         {"bytes_out_of_interface", summary.machine.total("out")}});
  }
}

bool Report::live() const {
  return state.kind == RunStateKind::kStarting || state.kind == RunStateKind::kRunning;
}

Report make_report(const std::string& run_directory, const RunReader& reader,
                   const ReportSettings& settings) {
  return ReportMaker(run_directory, reader, settings).make();
}

}  // namespace reigen
