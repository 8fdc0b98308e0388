// Reads the logs of a run, live or finished, without reading anything twice.
//
// RUN/measurements/rollup.json is the fold of what the logs held up to some byte of each. Reading
// goes on from there. It is only a shortcut: when it does not fit the logs (they were cut back to a
// checkpoint, or it is of another version) it is left aside and everything is read.
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

  // Takes in what has been written since; whether that was anything. A log that became shorter (the
  // run was resumed from a checkpoint) is read anew. Lines that are no records are counted and left
  // out. Throws DataError when there is no log.
  bool refresh();
  const RunSummary& run() const { return fold_; }
  uint64_t damaged_lines() const { return damaged_; }
  // Logs that end within a line: it is on its way, or what wrote it was stopped.
  uint64_t unfinished_lines() const { return unfinished_; }

  // How far a refresh is that goes on in another thread, from 0 to 1, and of how many bytes.
  double progress() const;
  uint64_t bytes_to_read() const { return to_read_; }
  // From another thread: a refresh that is going on throws Interrupted soon, as do all after it.
  void cancel() { cancelled_ = true; }

  // Writes rollup.json; a failure is of no consequence and ignored.
  void save() const;

 private:
  struct Position {
    uint64_t bytes = 0;
    uint64_t hash = 0;  // of the last line before it
  };
  bool load();
  bool fits() const;
  void read_log(int rank);
  void read_logs(const std::vector<int>& ranks);

  std::string directory_;
  bool opened_ = false;
  uint64_t unfinished_ = 0;
  std::map<int, Position> positions_;
  RunSummary fold_;
  std::atomic<uint64_t> damaged_ = 0;
  std::atomic<uint64_t> to_read_ = 0;
  std::atomic<uint64_t> have_read_ = 0;
  std::atomic<bool> cancelled_ = false;
};

// Ranks that have a log, rising.
std::vector<int> ranks_logged(const std::string& run_directory);

}  // namespace reigen
