// Checkpoints written while training goes on: the trainer waits for a copy, not for the disk.
//
// One is under way at a time. A failure (a full disk) is reported and leaves every earlier
// checkpoint as it was.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "observe/record/records.h"
#include "optim/state.h"
#include "train/run/run_directory.h"

namespace reigen {

// Where parameters and moments are when they are not in the state: on a GPU.
class StateSource {
 public:
  virtual ~StateSource() = default;
  virtual void begin() = 0;                     // take a copy that later steps do not change
  virtual void complete(TrainState& into) = 0;  // bring it here; called on the writer's thread
};

class CheckpointWriter {
 public:
  // All must outlive it.
  CheckpointWriter(const RunDirectory& run, const ParameterLayout& layout,
                   const Vocabulary& vocabulary, size_t keep);
  ~CheckpointWriter();  // waits for the one under way
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Waits for the one before, copies the state, and returns; `facts` are written with it. `held`
  // runs since training stood still for it.
  void save(const TrainState& state, CheckpointFacts facts, StateSource* elsewhere = nullptr,
            const Stopwatch& held = {});

  // What has been written (or failed) since it was last asked, if anything.
  std::optional<CheckpointRecord> finished();
  std::optional<CheckpointRecord> wait();

 private:
  void work();
  void write_pending();

  const RunDirectory& run_;
  const ParameterLayout& layout_;
  const Vocabulary& vocabulary_;
  size_t keep_;
  TrainState copy_;
  CheckpointFacts facts_;
  StateSource* elsewhere_ = nullptr;
  CheckpointRecord record_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool pending_ = false;
  bool unread_ = false;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace reigen
