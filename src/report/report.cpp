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
#include "report/report_page.h"

namespace reigen {
namespace {

constexpr size_t kLogLines = 15;

void write_whole(const std::string& path, const std::string& text) {
  FileWriter writer(path + ".partial");
  writer.write(text);
  writer.close();
  std::filesystem::rename(path + ".partial", path);
}

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
  report_.config = read_own_file(path);
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
  uint64_t restarts = 0;
  for (const StartRecord& s : run_.starts) {
    if (s.restart == 0) continue;
    ++restarts;
    report_.notes.emplace_back(format("attempt {}", s.attempt),
                               format("a restart from step {} with {}, after {}",
                                      with_commas(s.step), counted(s.workers, "worker"), s.cause));
  }
  report_.numbers["restarts"] = restarts;
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
  uint64_t repeated = 0;
  double seconds = 0;
  bool residuals = false;
  for (const MembershipChangeRecord& change : changes) {
    lost += change.lost.size();
    repeated += change.settled == "repeated" ? 1 : 0;
    seconds += change.seconds;
    residuals = residuals || change.lost_residuals;
  }
  std::string text = "lost " + counted(lost, "worker");
  text += format(", {} in all, ", human_seconds(seconds));
  // No worker had committed a step that was begun again.
  text +=
      repeated == 0 ? "no step repeated" : counted(repeated, "unfinished step") + " begun again";
  if (residuals) text += "; rounding errors that the lost workers had not sent yet are lost";
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
                 {"steal", s.steal},
                 {"memory", s.memory},
                 {"gpu_shared", s.gpu_shared},
                 {"gpu_slowed", s.gpu_slowed},
                 {"logging", s.logging},
                 {"evaluation", s.evaluation},
                 {"checkpoint", s.checkpoint},
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

namespace {

Json json_of(const Judgement& j) {
  Json late = Json::array();
  for (const LateRank& rank : j.shares.late) {
    late.push_back({{"rank", rank.rank}, {"ratio", rank.ratio}, {"reason", id_of(rank.reason)}});
  }
  Json parts = Json::object();
  for (const CauseShare& part : j.parts) parts[id_of(part.cause)] = part.share;
  parts["compute"] = j.shares.all_compute() / std::max(1e-9, j.shares.total);
  return {{"cause", id_of(j.cause)},
          {"rank", j.rank},
          {"confidence", id_of(j.confidence)},
          {"late_ranks", std::move(late)},
          {"shares", std::move(parts)}};
}

// The bottleneck of the last stretch or of the run, that of the whole run, and the changes.
void add_bottleneck(const Bottleneck& b, Json& json) {
  json.update(json_of(b));
  json["of_last_stretch"] = b.of_last_stretch;
  json["whole_run"] = json_of(b.whole);
  json["changes"] = Json::array();
  if (!b.course) return;
  for (const Change& c : b.course->changes) {
    json["changes"].push_back({{"step", c.step},
                               {"seconds_after_start", c.begin >= 0 ? Json(c.begin) : Json()},
                               {"before", c.before},
                               {"after", c.after},
                               {"cause", id_of(c.cause)},
                               {"part_before", c.part_before},
                               {"part_after", c.part_after},
                               {"part_share", c.part_share},
                               {"rank", c.rank},
                               {"reason", id_of(c.reason)},
                               {"attempt", c.attempt},
                               {"text", text_of(c)}});
  }
  json["rank_changes"] = Json::array();
  for (const RankChange& c : b.course->rank_changes) {
    json["rank_changes"].push_back(
        {{"rank", c.rank}, {"step", c.step}, {"before", c.before}, {"after", c.after}});
  }
  json["norm_rises"] = Json::array();
  for (const NormRise& r : b.course->norm_rises) {
    json["norm_rises"].push_back({{"step", r.step}, {"before", r.before}, {"after", r.after}});
  }
}

}  // namespace

Json to_json(const Report& report) {
  Json json = {{"version", kReportVersion},
               {"run", report.name},
               {"live", report.live()},
               {"state", report.state.text},
               {"questions", Json::array()}};
  auto table = [](const Figures& figures) {
    Json object = Json::object();
    for (const auto& [name, value] : figures) object[name] = value;
    return object;
  };
  for (const Answer& a : report.answers) {
    json["questions"].push_back({{"id", a.id},
                                 {"question", a.question},
                                 {"answer", a.answer},
                                 {"figures", table(a.figures)}});
  }
  for (const VerdictText& v : report.verdicts) {
    json["verdicts"][v.about] = {{"verdict", v.verdict},       {"since", v.since},
                                 {"confidence", v.confidence}, {"summary", v.summary},
                                 {"because", v.because},       {"rule", v.rule},
                                 {"advice", v.advice}};
  }
  add_bottleneck(report.bottleneck, json["verdicts"]["bottleneck"]);
  json["verdicts"]["trained"]["answer"] = id_of(report.trained.answer);
  if (report.trained.answer == Trained::Answer::kDiverged) {
    json["verdicts"]["trained"]["diverged_step"] = report.trained.step;
  }
  json["verdicts"]["trained"]["level"] = id_of(report.trained.level.fault);
  json["verdicts"]["trained"]["validation_unlike_training"] = report.trained.level.unlike;
  for (const LossRise& rise : report.trained.rises) {
    json["verdicts"]["trained"]["rises"].push_back({{"step", rise.step},
                                                    {"end", rise.lasts() ? Json() : Json(rise.end)},
                                                    {"before", rise.before},
                                                    {"after", rise.after},
                                                    {"norm_before", rise.norm_before},
                                                    {"norm_after", rise.norm_after}});
  }
  json["verdicts"]["data"]["faults"] = Json::array();
  for (const DataHealth::Fault fault : report.data.faults) {
    json["verdicts"]["data"]["faults"].push_back(id_of(fault));
  }
  json["verdicts"]["overfitting"]["answer"] = id_of(report.overfitting.answer);
  json["verdicts"]["overfitting"]["dropout_too_high"] = report.overfitting.less_dropout > 0;
  json["verdicts"]["overfitting"]["best_step"] = report.overfitting.trend.best_step;
  if (!report.fine_tuning.empty()) json["fine_tuning"] = table(report.fine_tuning);
  json["environment"] = table(report.environment);
  json["settings"] = report.settings;
  json["notes"] = table(report.notes);
  json["numbers"] = report.numbers;
  return json;
}

// The order of importance: verdict, advice, then evidence.
std::string to_text(const Report& report) {
  std::string text = format("{} ({})\n\n", report.name, report.state.text);
  for (const VerdictText& v : report.verdicts) {
    text += format("  {}: {}\n", v.about, headline(v));
    if (!v.summary.empty()) text += format("      {}\n", v.summary);
    if (!v.advice.empty()) text += format("      advice: {}\n", v.advice);
    for (const std::string& clause : clauses_of(v.because)) text += format("      - {}\n", clause);
    text += "\n";
  }
  for (const auto& [name, value] : report.notes) text += format("  note: {}: {}\n", name, value);
  if (!report.notes.empty()) text += "\n";
  for (const Answer& a : report.answers) text += format("  {}\n      {}\n", a.question, a.answer);
  if (!report.fine_tuning.empty()) text += "  compared with the starting point\n";
  for (const auto& [name, value] : report.fine_tuning)
    text += format("      {}: {}\n", name, value);
  return text;
}

std::vector<std::string> write_report(const std::vector<Report>& reports,
                                      const std::string& directory,
                                      const std::vector<std::string>& comparison) {
  Json json = Json::array();
  for (const Report& report : reports) json.push_back(to_json(report));
  const std::string page = directory + "/report.html";
  const std::string data = directory + "/report.json";
  write_whole(page, report_page(reports, comparison));
  write_whole(data, pretty(reports.size() == 1 ? json[0] : json));
  return {page, data};
}

}  // namespace reigen
