// Reads the logs of a run, live or finished, and no byte twice.
//
// RUN/measurements/rollup.json holds the summary of the logs up to a byte of each; reading
// continues from there. It is only a shortcut: when it does not match the logs (they were cut back
// to a checkpoint) or has a different version, it is ignored and the logs are read from the
// beginning.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "observe/record/run_summary.h"

namespace reigen {

class RunReader {
 public:
  explicit RunReader(std::string run_directory);  // reads nothing yet

  // Reads the records written since the last call; true when there were any. A log that became
  // shorter (the run was resumed from a checkpoint) is read from the beginning. Lines that are no
  // records are counted and left out. Throws DataError when there is no log.
  bool refresh();
  const RunSummary& run() const { return summary_; }
  uint64_t damaged_lines() const { return damaged_; }
  // Logs that end within a line: it is being written, or its writer was killed.
  uint64_t unfinished_lines() const { return unfinished_; }

  // Progress of a refresh in another thread, from 0 to 1, and its bytes.
  double progress() const;
  uint64_t bytes_to_read() const { return to_read_; }
  // From another thread: the current refresh throws Interrupted soon, and so do all later ones.
  void cancel() { cancelled_ = true; }

  // Writes rollup.json; a failure is ignored, because the logs have everything.
  void save() const;

 private:
  struct Position {
    uint64_t bytes = 0;
    uint64_t hash = 0;  // of the last bytes before
  };
  bool load();
  bool matches_logs() const;
  void read_log(int rank);
  void read_logs(const std::vector<int>& ranks);

  std::string directory_;
  bool opened_ = false;
  uint64_t unfinished_ = 0;
  std::map<int, Position> positions_;
  RunSummary summary_;
  std::atomic<uint64_t> damaged_ = 0;
  std::atomic<uint64_t> to_read_ = 0;
  std::atomic<uint64_t> have_read_ = 0;
  std::atomic<bool> cancelled_ = false;
};

// Ranks that have a log, in ascending order.
std::vector<int> ranks_logged(const std::string& run_directory);

}  // namespace reigen
