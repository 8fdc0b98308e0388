// The measurement log: RUN/measurements/rank-N.jsonl, one record a line, over all attempts at a
// run.
//
// Opening it for a run that continues after step N takes out what came after N, because those steps
// are done again: each step of a run is in the log once. Records at N itself stay.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/append_file.h"
#include "observe/record/records.h"

namespace reigen {

// What opening the log found and took out of it.
struct LogCut {
  uint64_t attempts = 0;       // so far, those whose records were taken out included
  uint64_t lost_steps = 0;     // steps taken out
  double lost_seconds = 0;     // in them, in evaluations after them, and held by checkpoints
  uint64_t missing_steps = 0;  // of the N before: waited for a full disk when the machine stopped
};

class MeasurementLog {
 public:
  // `after_step` is the step of the checkpoint the attempt starts from, 0 for none. Throws
  // DataError naming file and line when a part that has to stay is damaged, IoError when it cannot
  // write.
  MeasurementLog(const std::string& run_directory, int rank, uint64_t after_step);

  const LogCut& cut() const { return cut_; }

  void append(const Record& record);  // see AppendFile: a full disk only delays it
  void append_lines(std::string_view lines) { file_.append(lines); }  // records another rank made
  bool flush() { return file_.flush(); }  // before a checkpoint that counts on it
  const std::string& path() const { return file_.path(); }

  static std::string path_of(const std::string& run_directory, int rank);

 private:
  LogCut cut_;
  AppendFile file_;
};

}  // namespace reigen
