#include "observe/record/measurement_log.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/file/files.h"
#include "base/file/own_file.h"
#include "base/format.h"
#include "base/terminal.h"
#include "observe/record/log_reader.h"
#include "observe/record/record_parser.h"

namespace reigen {
namespace {

struct CutPlan {
  LogCut cut;
  uint64_t prefix_bytes = 0;  // complete lines before the first one to remove
  bool only_prefix = true;    // no line after those remains
};

double seconds_in(const Record& record) {
  if (const auto* step = std::get_if<StepRecord>(&record)) return step->seconds;
  if (const auto* evaluation = std::get_if<EvaluationRecord>(&record)) return evaluation->seconds;
  if (const auto* checkpoint = std::get_if<CheckpointRecord>(&record)) {
    return checkpoint->stall_seconds;
  }
  return 0;
}

std::optional<Record> try_parse(RecordParser& parser, std::string_view line,
                                const LogLineReader& reader, std::string& damage) {
  try {
    return parser.parse(line, reader.path(), reader.number());
  } catch (const DataError& e) {
    damage = e.what();
    return std::nullopt;
  }
}

// A crash can damage the end of a log, which is removed with the steps to repeat. Damage before a
// record that has to remain is an error that a person has to look at.
CutPlan plan_cut(const std::string& path, uint64_t after_step) {
  CutPlan plan;
  LogLineReader reader(path);
  RecordParser parser;
  std::string_view line;
  std::string damage;
  bool past = false;
  uint64_t steps_before = 0;
  while (reader.next(line)) {
    std::string damage_here;
    const std::optional<Record> record = try_parse(parser, line, reader, damage_here);
    if (!record) {
      if (!past && damage.empty()) damage = damage_here;
      continue;
    }
    if (const auto* start = std::get_if<StartRecord>(&*record)) {
      plan.cut.attempts = std::max(plan.cut.attempts, start->attempt);
    }
    const bool is_step = std::holds_alternative<StepRecord>(*record);
    if (step_of(*record) > after_step) {
      past = true;
      plan.cut.lost_steps += is_step ? 1 : 0;
      plan.cut.lost_seconds += seconds_in(*record);
      if (const auto* start =
              std::get_if<StartRecord>(&*record)) {  // it lost steps of earlier attempts
        plan.cut.lost_steps += start->lost_steps;
        plan.cut.lost_seconds += start->lost_seconds;
      }
      continue;
    }
    if (!damage.empty()) {
      throw DataError(damage + "; remove that line from the log, then resume again");
    }
    steps_before += is_step ? 1 : 0;
    // A checkpoint is recorded when it is complete, which may be some steps later.
    if (past) plan.only_prefix = false;
    if (!past) plan.prefix_bytes = reader.end();
  }
  plan.cut.missing_steps = after_step - std::min(after_step, steps_before);
  return plan;
}

[[noreturn]] void throw_cut_error(const std::string& path) {
  throw IoError(format(
      "{}: cannot remove the steps after the checkpoint: {}; check the permissions of the file",
      path, errno_text(errno)));
}

// Copied and renamed, so that a crash here leaves the old log or the new one.
void copy_remaining_lines(const std::string& path, uint64_t after_step, std::string_view first) {
  const std::string partial = path + ".partial";
  FileWriter writer(partial);
  LogLineReader reader(path);
  RecordParser parser;
  std::string_view line;
  std::string ignored;
  while (reader.next(line)) {
    const std::optional<Record> record = try_parse(parser, line, reader, ignored);
    if (!record || step_of(*record) > after_step) continue;
    writer.write(line);
    writer.write("\n");
  }
  writer.write(first);
  writer.close();
  if (rename(partial.c_str(), path.c_str()) != 0) throw_cut_error(path);
}

}  // namespace

std::string MeasurementLog::path_of(const std::string& run_directory, int rank) {
  return format("{}/measurements/rank-{}.jsonl", run_directory, rank);
}

MeasurementLog::MeasurementLog(const std::string& run_directory, int rank, uint64_t after_step)
    : path_(path_of(run_directory, rank)), after_step_(after_step) {
  cut_.missing_steps = after_step;
  if (path_exists(path_)) {
    const CutPlan plan = plan_cut(path_, after_step);
    cut_ = plan.cut;
    prefix_bytes_ = plan.prefix_bytes;
    only_prefix_ = plan.only_prefix;
  }
  if (cut_.missing_steps > 0 && rank == 0) {  // other ranks log sums of steps
    log_warning(format("{}: the log lacks {} of the {} before the checkpoint", path_,
                       with_commas(cut_.missing_steps), counted(after_step, "step")));
  }
  if (cut_.lost_steps == 0) begin();
}

bool MeasurementLog::begin(std::string_view first) {
  if (file_) return false;
  bool written = false;
  if (path_exists(path_) && only_prefix_) {
    written = replace_end_of_own_file(path_, prefix_bytes_, first);
  } else if (path_exists(path_)) {
    copy_remaining_lines(path_, after_step_, first);
    written = true;
  }
  file_.emplace(path_);
  return written;
}

void MeasurementLog::append(const Record& record) { append_lines(log_line(record)); }

void MeasurementLog::append_lines(std::string_view lines) {
  if (!begin(lines)) file_->append(lines);
}

bool MeasurementLog::flush() { return !file_ || file_->flush(); }

}  // namespace reigen
