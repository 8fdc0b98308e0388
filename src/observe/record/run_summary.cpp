#include "observe/record/run_summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>

#include "base/error.h"

namespace reigen {
namespace {

using namespace std::string_view_literals;

constexpr std::array kStepColumns = {"steps"sv,         "time^"sv,         "epoch^"sv,  "loss"sv,
                                     "nll"sv,           "finite"sv,        "rate"sv,    "norm"sv,
                                     "source_tokens"sv, "pairs"sv,         "seconds"sv, "skipped"sv,
                                     "scale"sv,         "target_tokens"sv, "slowest^"sv};
// Seconds by span; "other" is what no span covers.
constexpr std::array kSpanColumns = {
    "steps"sv,       "seconds"sv,       "input"sv,     "forward"sv, "loss"sv,  "backward"sv,
    "compression"sv, "communication"sv, "optimizer"sv, "observe"sv, "other"sv, "busy"sv,
    "hidden"sv,      "sent"sv,          "sent_away"sv, "held"sv,    "least"sv};
constexpr size_t kFirstSpan = 2;
constexpr size_t kOther = 10;
static_assert(kSpanColumns[kOther] == "other"sv);
constexpr std::array kMachineColumns = {
    "seconds"sv, "cpu"sv, "busiest^"sv,    "memory^"sv, "disk_read"sv, "disk_written"sv, "in"sv,
    "out"sv,     "gpu"sv, "gpu_memory^"sv, "watts"sv,   "megahertz"sv, "fastest^"sv};
constexpr size_t kMostStepRows = 1024;
constexpr size_t kMostRankRows = 256;
constexpr double kJump = 60;

size_t span_column(std::string_view name) {
  for (size_t i = kFirstSpan; i < kOther; ++i) {
    if (kSpanColumns[i] == name) return i;
  }
  return kOther;
}

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

template <class T>
Json list_of(const std::vector<T>& records) {
  Json list = Json::array();
  for (const T& record : records) list.push_back(to_json(Record(record)));
  return list;
}

template <class T>
std::vector<T> records_in(const Json& list) {
  std::vector<T> records;
  for (const Json& json : list) records.push_back(std::get<T>(record_from_json(json)));
  return records;
}

template <class T>
std::optional<T> record_in(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return std::get<T>(record_from_json(json));
}

template <class T>
Json json_of(const std::optional<T>& record) {
  return record ? to_json(Record(*record)) : Json();
}

}  // namespace

RankFold::RankFold()
    : spans(kSpanColumns, kMostRankRows), machine(kMachineColumns, kMostRankRows) {}

RunSummary::RunSummary() : steps(kStepColumns, kMostStepRows) {}

void RunSummary::note_time(const Record& record) {
  const double time = std::visit([](const auto& r) { return r.time; }, record);
  if (attempts.empty() || std::holds_alternative<StartRecord>(record)) {
    attempts.push_back({.first = time, .last = time});
  }
  if (const auto* start = std::get_if<StartRecord>(&record)) {
    attempts.back().first -= start->setup_seconds;
  }
  attempts.back().last = time;
  if (const auto* end = std::get_if<EndRecord>(&record)) attempts.back().seconds = end->seconds;
}

void RunSummary::add(int rank, const Record& record) {
  if (rank == 0) note_time(record);
  if (const auto* spans = std::get_if<SpansRecord>(&record)) return add_spans(rank, *spans);
  if (const auto* sample = std::get_if<SampleRecord>(&record)) return add_sample(rank, *sample);
  if (rank != 0) return;
  if (const auto* step = std::get_if<StepRecord>(&record)) return add_step(*step);
  if (const auto* start = std::get_if<StartRecord>(&record)) {
    starts.push_back(*start);
    ended = false;
    newest_ = start->step;
  }
  if (const auto* end = std::get_if<EndRecord>(&record)) {
    ends.push_back(*end);
    ended = true;
  }
  if (const auto* told = std::get_if<ForecastRecord>(&record)) forecasts.push_back(*told);
  if (const auto* saved = std::get_if<CheckpointRecord>(&record)) checkpoints.push_back(*saved);
  if (const auto* evaluation = std::get_if<EvaluationRecord>(&record)) {
    if (!evaluations.empty()) evaluations.back().samples.clear();
    evaluations.push_back(*evaluation);
  }
}

void RunSummary::add_step(const StepRecord& r) {
  if (r.step <= newest_) {
    ++repeated_steps;
    return;
  }
  newest_ = r.step;
  if (last_step && (starts.empty() || starts.back().step < last_step->step)) {
    const double passed = r.time - last_step->time;
    // Evaluations and checkpoints may lie between; going back is never right.
    const bool evaluated = !evaluations.empty() && evaluations.back().step == last_step->step;
    if (passed < -1 || (!evaluated && passed > r.seconds + kJump)) ++clock_jumps;
  }
  const bool finite = std::isfinite(r.loss) && !r.skipped;
  const std::array values = {1.0,
                             r.time,
                             r.epoch,
                             finite ? r.loss : 0,
                             finite ? r.nll : 0,
                             finite ? 1.0 : 0.0,
                             r.rate,
                             finite ? r.norm : 0,
                             static_cast<double>(r.source_tokens),
                             static_cast<double>(r.pairs),
                             r.seconds,
                             r.skipped ? 1.0 : 0.0,
                             r.loss_scale,
                             static_cast<double>(r.target_tokens),
                             r.seconds};
  static_assert(std::tuple_size_v<decltype(values)> == kStepColumns.size());
  steps.add(r.step, values);
  add_spans(0, {.step = r.step,
                .time = r.time,
                .steps = 1,
                .seconds = r.seconds,
                .held_seconds = r.held_seconds,
                .spans = r.spans,
                .communication = r.communication.value_or(CommunicationTimes{})});
  note_seconds(r);
  if (!first_step) first_step = r;
  last_step = r;
}

// Every second one is dropped whenever there are too many, so those kept are evenly spaced.
void RunSummary::note_seconds(const StepRecord& r) {
  if (r.step % step_stride != 0) return;
  step_seconds.push_back(r.seconds);
  if (step_seconds.size() < kMostStepRows) return;
  for (size_t i = 0; 2 * i < step_seconds.size(); ++i) step_seconds[i] = step_seconds[2 * i];
  step_seconds.resize((step_seconds.size() + 1) / 2);
  step_stride *= 2;
}

void RunSummary::add_spans(int rank, const SpansRecord& r) {
  std::array<double, kSpanColumns.size()> values = {};
  values[0] = static_cast<double>(r.steps);
  values[1] = r.seconds;
  double covered = 0;
  for (const auto& [name, seconds] : r.spans) {
    values[span_column(name)] += seconds;
    covered += seconds;
  }
  values[kOther] += std::max(0.0, r.seconds - covered);
  values[kOther + 1] = r.communication.busy;
  values[kOther + 2] = r.communication.hidden;
  values[kOther + 3] = static_cast<double>(r.communication.sent);
  values[kOther + 4] = static_cast<double>(r.communication.sent_away);
  values[kOther + 5] = r.held_seconds;
  values[kOther + 6] = r.communication.least;
  RankFold& fold = ranks[rank];
  fold.spans.add(r.step, values);
  fold.last_time = r.time;
}

// Sums are weighted with the seconds a sample stands for.
void RunSummary::add_sample(int rank, const SampleRecord& r) {
  double in = 0;
  double out = 0;
  double fastest = 0;
  const bool marked =
      std::any_of(r.interfaces.begin(), r.interfaces.end(), [](const auto& i) { return i.used; });
  for (const InterfaceSample& i : r.interfaces) {
    if (marked ? !i.used : i.name == "lo") continue;
    in += i.in;
    out += i.out;
    fastest = std::max({fastest, i.in, i.out});
  }
  double gpu = 0;
  double memory = 0;
  double watts = 0;
  double clock = 0;
  for (const GpuSample& g : r.gpus) {
    const auto count = static_cast<double>(r.gpus.size());
    gpu += g.utilisation / count;
    memory = std::max(memory, static_cast<double>(g.memory_used));
    watts += g.watts;
    clock += g.megahertz / count;
  }
  const double t = r.seconds;
  const double busiest = r.cores.empty() ? 0 : *std::max_element(r.cores.begin(), r.cores.end());
  const std::array values = {t,
                             t * mean(r.cores),
                             busiest,
                             static_cast<double>(r.memory_used),
                             t * r.disk_read,
                             t * r.disk_written,
                             t * in,
                             t * out,
                             t * gpu,
                             memory,
                             t * watts,
                             t * clock,
                             fastest};
  static_assert(std::tuple_size_v<decltype(values)> == kMachineColumns.size());
  RankFold& fold = ranks[rank];
  fold.machine.add(r.step, values);
  fold.last_sample = r;
}

Json RunSummary::to_json() const {
  Json json = {{"steps", steps.to_json()},
               {"starts", list_of(starts)},
               {"evaluations", list_of(evaluations)},
               {"checkpoints", list_of(checkpoints)},
               {"ends", list_of(ends)},
               {"ended", ended},
               {"forecasts", list_of(forecasts)},
               {"step_seconds", step_seconds},
               {"step_stride", step_stride},
               {"first_step", json_of(first_step)},
               {"last_step", json_of(last_step)},
               {"clock_jumps", clock_jumps},
               {"repeated_steps", repeated_steps},
               {"newest", newest_},
               {"attempts", Json::array()},
               {"ranks", Json::array()}};
  for (const AttemptTime& a : attempts) json["attempts"].push_back({a.first, a.last, a.seconds});
  for (const auto& [rank, fold] : ranks) {
    json["ranks"].push_back({{"rank", rank},
                             {"spans", fold.spans.to_json()},
                             {"machine", fold.machine.to_json()},
                             {"last_sample", json_of(fold.last_sample)},
                             {"last_time", fold.last_time}});
  }
  return json;
}

RunSummary RunSummary::from_json(const Json& json) {
  RunSummary run;
  try {
    run.steps.load(json.at("steps"));
    run.starts = records_in<StartRecord>(json.at("starts"));
    run.evaluations = records_in<EvaluationRecord>(json.at("evaluations"));
    run.checkpoints = records_in<CheckpointRecord>(json.at("checkpoints"));
    run.ends = records_in<EndRecord>(json.at("ends"));
    run.ended = json.at("ended").get<bool>();
    run.forecasts = records_in<ForecastRecord>(json.at("forecasts"));
    run.step_seconds = json.at("step_seconds").get<std::vector<double>>();
    run.step_stride = json.at("step_stride").get<uint64_t>();
    run.first_step = record_in<StepRecord>(json.at("first_step"));
    run.last_step = record_in<StepRecord>(json.at("last_step"));
    run.clock_jumps = json.at("clock_jumps").get<uint64_t>();
    run.repeated_steps = json.at("repeated_steps").get<uint64_t>();
    run.newest_ = json.at("newest").get<uint64_t>();
    for (const Json& entry : json.at("attempts")) {
      run.attempts.push_back(
          {entry.at(0).get<double>(), entry.at(1).get<double>(), entry.at(2).get<double>()});
    }
    for (const Json& entry : json.at("ranks")) {
      RankFold& fold = run.ranks[entry.at("rank").get<int>()];
      fold.spans.load(entry.at("spans"));
      fold.machine.load(entry.at("machine"));
      fold.last_sample = record_in<SampleRecord>(entry.at("last_sample"));
      fold.last_time = entry.at("last_time").get<double>();
    }
  } catch (const Json::exception& e) {
    throw DataError(std::string("not a rolled-up run: ") + e.what());
  } catch (const std::bad_variant_access&) {
    throw DataError("not a rolled-up run");
  }
  return run;
}

}  // namespace reigen
