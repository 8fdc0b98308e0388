#include "observe/record/run_summary.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/json/json_view.h"

namespace reigen {
namespace {

constexpr size_t kMaxStepRows = 1024;
constexpr size_t kMaxRankRows = 256;
constexpr double kClockJump = 60;  // seconds

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

RankSummary::RankSummary()
    : spans(columns_of<SpansRecord>(), kMaxRankRows),
      machine(columns_of<SampleRecord>(), kMaxRankRows),
      process(columns_of<ProcessRecord>(), kMaxRankRows) {}

RunSummary::RunSummary() : steps(columns_of<StepRecord>(), kMaxStepRows) {}

void RunSummary::note_time(const Record& record) {
  const double time = std::visit([](const auto& r) { return r.time; }, record);
  if (attempts.empty() || std::holds_alternative<StartRecord>(record)) {
    attempts.push_back({.first = time, .last = time});
  }
  if (const auto* start = std::get_if<StartRecord>(&record)) {
    attempts.back().first -= start->setup_seconds;
  }
  // A checkpoint is recorded when it is complete: beside steps, which a resume may have removed.
  if (!std::holds_alternative<CheckpointRecord>(record)) attempts.back().last = time;
  if (const auto* end = std::get_if<EndRecord>(&record)) attempts.back().seconds = end->seconds;
}

void RunSummary::add(int rank, const Record& record) {
  if (rank == 0) note_time(record);
  if (const auto* spans = std::get_if<SpansRecord>(&record)) return add_spans(rank, *spans);
  if (const auto* sample = std::get_if<SampleRecord>(&record)) return add_sample(rank, *sample);
  if (const auto* process = std::get_if<ProcessRecord>(&record)) {
    return add_process(rank, *process);
  }
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
  if (const auto* prediction = std::get_if<PredictionRecord>(&record)) {
    predictions.push_back(*prediction);
  }
  if (const auto* decay = std::get_if<DecayRecord>(&record)) {
    // Repeated after a crash before the checkpoint of its step.
    if (!decays.empty() && decays.back().step == decay->step) decays.pop_back();
    decays.push_back(*decay);
  }
  if (const auto* point = std::get_if<StartingPointRecord>(&record)) starting_point = *point;
  if (const auto* change = std::get_if<MembershipChangeRecord>(&record)) {
    memberships.push_back(*change);
  }
  if (const auto* saved = std::get_if<CheckpointRecord>(&record)) checkpoints.push_back(*saved);
  if (const auto* changed = std::get_if<SharesRecord>(&record)) shares.push_back(*changed);
  if (const auto* copy = std::get_if<CopyRecord>(&record)) {
    if (copy->error.empty()) copies.clear();
    copies.push_back(*copy);
  }
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
    // Evaluations and checkpoints may lie between two steps; a step back in time is always a jump.
    const bool evaluated = !evaluations.empty() && evaluations.back().step == last_step->step;
    if (passed < -1 || (!evaluated && passed > r.seconds + kClockJump)) ++clock_jumps;
  }
  steps.add(r.step, row_of(r));
  SpansRecord own;
  add_step_to(own, r);
  add_spans(0, own);
  note_seconds(r);
  if (!first_step) first_step = r;
  last_step = r;
}

// Every second entry is dropped whenever there are too many, so the rest are evenly spaced.
void RunSummary::note_seconds(const StepRecord& r) {
  if (r.step % step_stride != 0) return;
  step_seconds.push_back(r.seconds);
  if (step_seconds.size() < kMaxStepRows) return;
  for (size_t i = 0; 2 * i < step_seconds.size(); ++i) step_seconds[i] = step_seconds[2 * i];
  step_seconds.resize((step_seconds.size() + 1) / 2);
  step_stride *= 2;
}

void RunSummary::add_spans(int rank, const SpansRecord& r) {
  RankSummary& summary = ranks[rank];
  summary.spans.add(r.step, row_of(r));
  summary.last_time = r.time;
}

void RunSummary::add_sample(int rank, const SampleRecord& r) {
  RankSummary& summary = ranks[rank];
  summary.machine.add(r.step, row_of(r));
  summary.last_sample = r;
}

void RunSummary::add_process(int rank, const ProcessRecord& r) {
  RankSummary& summary = ranks[rank];
  summary.process.add(r.step, row_of(r));
  summary.last_process = r;
}

Json RunSummary::to_json() const {
  Json json = {{"steps", steps.to_json()},
               {"starts", list_of(starts)},
               {"evaluations", list_of(evaluations)},
               {"checkpoints", list_of(checkpoints)},
               {"copies", list_of(copies)},
               {"shares", list_of(shares)},
               {"ends", list_of(ends)},
               {"ended", ended},
               {"forecasts", list_of(predictions)},
               {"decays", list_of(decays)},
               {"starting_point", json_of(starting_point)},
               {"memberships", list_of(memberships)},
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
  for (const auto& [rank, summary] : ranks) {
    json["ranks"].push_back({{"rank", rank},
                             {"spans", summary.spans.to_json()},
                             {"machine", summary.machine.to_json()},
                             {"process", summary.process.to_json()},
                             {"last_sample", json_of(summary.last_sample)},
                             {"last_process", json_of(summary.last_process)},
                             {"last_time", summary.last_time}});
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
    run.copies = records_in<CopyRecord>(json.at("copies"));
    run.shares = records_in<SharesRecord>(json.at("shares"));
    run.ends = records_in<EndRecord>(json.at("ends"));
    run.ended = json.at("ended").get<bool>();
    run.predictions = records_in<PredictionRecord>(json.at("forecasts"));
    run.decays = records_in<DecayRecord>(json.at("decays"));
    if (json.contains("starting_point")) {  // since 0.2
      run.starting_point = record_in<StartingPointRecord>(json.at("starting_point"));
    }
    run.memberships = records_in<MembershipChangeRecord>(json.value("memberships", Json::array()));
    run.step_seconds = json.at("step_seconds").get<std::vector<double>>();
    run.step_stride = JsonView(json).at("step_stride");
    // note_seconds divides by it and doubles it.
    const bool good_stride = std::has_single_bit(run.step_stride) && run.step_stride >> 48 == 0;
    if (!good_stride || run.step_seconds.size() >= kMaxStepRows) {
      throw DataError("not the rollup of a run");
    }
    run.first_step = record_in<StepRecord>(json.at("first_step"));
    run.last_step = record_in<StepRecord>(json.at("last_step"));
    run.clock_jumps = JsonView(json).at("clock_jumps");
    run.repeated_steps = JsonView(json).at("repeated_steps");
    run.newest_ = JsonView(json).at("newest");
    for (const Json& entry : json.at("attempts")) {
      run.attempts.push_back(
          {entry.at(0).get<double>(), entry.at(1).get<double>(), entry.at(2).get<double>()});
    }
    for (const Json& entry : json.at("ranks")) {
      RankSummary& summary = run.ranks[JsonView(entry).at("rank")];
      summary.spans.load(entry.at("spans"));
      summary.machine.load(entry.at("machine"));
      summary.process.load(entry.at("process"));
      summary.last_sample = record_in<SampleRecord>(entry.at("last_sample"));
      summary.last_process = record_in<ProcessRecord>(entry.at("last_process"));
      summary.last_time = entry.at("last_time").get<double>();
    }
  } catch (const Json::exception& e) {
    throw DataError(std::string("not the rollup of a run: ") + e.what());
  } catch (const std::bad_variant_access&) {
    throw DataError("not the rollup of a run");
  }
  return run;
}

}  // namespace reigen
