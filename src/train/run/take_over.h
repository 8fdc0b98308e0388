// A worker of an elastic job becomes the writer of the run, because the one before was lost.
//
// The old writer may only be stopped, with its files open: logs are replaced by copies, so that it
// writes into files that are not read any more. Checkpoints need no such fence
// (docs/design/elastic.md); links to them, and the copy of the last one, are left alone by a worker
// that has lost the lock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "train/directory/run_directory.h"

namespace reigen {

// RUN/run-id names the run, so that a worker knows whether it sees the same directory as the
// writer. The writer makes it where there is none.
std::string make_run_id(const RunDirectory& run);
std::string run_id_of(const std::string& path);  // empty where there is none
// The same id in the manifest of its checkpoints (`training`), which may be copied elsewhere.
inline constexpr const char* kRunIdInCheckpoint = "run_id";
bool sees_run(const std::string& path, const std::string& id);

// The directory of a run whose writer was lost, with the logs replaced.
std::unique_ptr<RunDirectory> take_over_run(const std::string& path);

// The last step in the measurement log; 0 without one.
uint64_t last_logged_step(const std::string& run);

}  // namespace reigen
