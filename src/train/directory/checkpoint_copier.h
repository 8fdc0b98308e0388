// Copies each last checkpoint of a run to a second place, on a thread of its own.
//
// A copy that fails is reported and never stops training; the next checkpoint is a new try. If
// checkpoints come faster than copies, those between are left out.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "observe/record/records.h"
#include "train/directory/checkpoint_copy.h"
#include "train/directory/run_directory.h"

namespace reigen {

class CheckpointCopier {
 public:
  // `run` must outlive it. `name` of the place is for records.
  CheckpointCopier(const RunDirectory& run, CopyPlace place, std::string name);
  ~CheckpointCopier();  // gives up a copy under way
  CheckpointCopier(const CheckpointCopier&) = delete;
  CheckpointCopier& operator=(const CheckpointCopier&) = delete;

  // The checkpoint of this step is complete, and is the last one. Any thread.
  void copy(uint64_t step);
  // The checkpoints that must not be removed yet. Any thread.
  std::vector<uint64_t> needed();

  // The copy that succeeded or failed since the last call.
  std::optional<CopyRecord> finished();
  // Waits for those under way and to come, at most until `over` returns true, which is asked ten
  // times a second. Whether none is left.
  bool wait(const std::function<bool()>& over);

 private:
  void work();
  CopyRecord copy_now(uint64_t step);

  const RunDirectory& run_;
  CopyPlace place_;
  std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<uint64_t> next_;
  std::optional<uint64_t> present_;
  std::optional<CopyRecord> finished_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace reigen
