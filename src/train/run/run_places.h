// Where an elastic job finds its run when the writer is lost: the directories that its writers have
// written, and the second copy of the last checkpoint (--checkpoint.copy-to).
//
// Every worker knows all directories since the attempt began, by id (take_over.h) and path, and
// looks on its own host which of them it sees: ids decide, since a path may name anything there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dist/members/forming/succession.h"
#include "train/directory/run_directory.h"

namespace reigen {

struct WrittenRun {
  std::string id;
  std::string path;
  bool operator==(const WrittenRun&) const = default;
};

// All directories of a run, the oldest first: the last one is written now.
using RunPlaces = std::vector<WrittenRun>;
std::string to_text(const RunPlaces& places);
RunPlaces run_places_in(const std::string& text);

// The path at which this host has the directory that is written now; empty where it has not.
// `own`: the path that this worker would write to, which may be a different one.
std::string path_of_run(const RunPlaces& places, const std::string& own);

// What a host has of a run without its present directory.
struct FoundCopy {
  RunCopy copy;        // the steps; zeros: nothing
  std::string path;    // of the directory, or of the checkpoint at the place of copies
  WrittenRun earlier;  // the directory, if it is one that was written before
  bool is_run() const { return !earlier.id.empty(); }
};

// The newest of: earlier directories of the run, and the second copy at `copy_to`; that of any host
// is looked for here, because only this run's id counts and not the name of the host.
FoundCopy newest_copy(const RunPlaces& places, const std::string& own, const std::string& copy_to);

// The step of the copy at the place, by its link alone; 0 where there is none.
uint64_t step_of_copy(const std::string& copy_to);

// Makes a checkpoint at a place of copies the last one of `run`, by hard links to its files. False
// where that is not possible, such as on a different disk.
bool adopt_checkpoint(const RunDirectory& run, const std::string& checkpoint, uint64_t step);

}  // namespace reigen
