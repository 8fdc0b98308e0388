// Reads the logs of a run, live or finished, without reading anything twice.
//
// RUN/measurements/rollup.json is the fold of what the logs held up to some byte of each. Reading
// goes on from there. It is only a shortcut: when it does not fit the logs (they were cut back to a
// checkpoint, or it is of another version) it is left aside and everything is read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "observe/run_fold.h"

namespace reigen {

class RunReader {
 public:
  explicit RunReader(std::string run_directory);  // reads nothing yet

  // Takes in what has been written since; whether that was anything. A log that became shorter (the
  // run was resumed from a checkpoint) is read anew. Lines that are no records are counted and left
  // out. Throws DataError when there is no log.
  bool refresh();
  const RunFold& run() const { return fold_; }
  uint64_t damaged_lines() const { return damaged_; }

  // Writes rollup.json; a failure is of no consequence and ignored.
  void save() const;

 private:
  struct Position {
    uint64_t bytes = 0;
    uint64_t hash = 0;  // of the last line before it
  };
  bool load();
  bool fits() const;
  bool read_log(int rank);

  std::string directory_;
  bool opened_ = false;
  std::map<int, Position> positions_;
  RunFold fold_;
  uint64_t damaged_ = 0;
};

// Ranks that have a log, rising.
std::vector<int> ranks_logged(const std::string& run_directory);

}  // namespace reigen
