// The measurement log: RUN/measurements/rank-N.jsonl, one record per line, over all attempts of a
// run.
//
// An attempt that resumes after step N removes the records of later steps, because those steps are
// repeated: each step of a run is in the log once. Records of step N itself remain. Lost steps are
// removed when the attempt writes its first record, which counts them: an attempt that fails before
// leaves them for the next one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file/append_file.h"
#include "observe/record/records.h"

namespace reigen {

// Result of removing the steps after the checkpoint.
struct LogCut {
  uint64_t attempts = 0;    // attempts so far, including those whose records were removed
  uint64_t lost_steps = 0;  // removed steps, and those that removed start records counted
  double lost_seconds = 0;  // time of those steps, their evaluations and checkpoint stalls
  // Steps up to N that are not in the log: the disk was full when the process was killed.
  uint64_t missing_steps = 0;
};

class MeasurementLog {
 public:
  // `after_step` is the step of the checkpoint that the attempt resumes from, 0 for none. Throws
  // DataError with file and line when a part that has to remain is damaged, IoError when the file
  // cannot be written.
  MeasurementLog(const std::string& run_directory, int rank, uint64_t after_step);

  const LogCut& cut() const { return cut_; }

  // Removes the lost steps and opens the file. The first append does so, too; without lost steps,
  // the constructor. The first lines take the place of the lost steps at once: they count them, and
  // a process that is killed between would leave them uncounted.
  void begin() { begin({}); }

  void append(const Record& record);          // a full disk only delays it (AppendFile)
  void append_lines(std::string_view lines);  // records of any rank
  bool flush();                               // before a checkpoint: its steps are not repeated
  const std::string& path() const { return path_; }

  static std::string path_of(const std::string& run_directory, int rank);

 private:
  bool begin(std::string_view first);  // whether the lines are in the file now

  std::string path_;
  uint64_t after_step_;
  LogCut cut_;
  uint64_t prefix_bytes_ = 0;       // complete lines before the first one to remove
  bool only_prefix_ = true;         // no line after those remains
  std::optional<AppendFile> file_;  // once the lost steps are removed
};

}  // namespace reigen
