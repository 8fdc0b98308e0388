// Checkpoints are written on a thread of their own: training waits for a copy of the state, not for
// the disk.
//
// One checkpoint is written at a time. A failure (a full disk) is reported and leaves all earlier
// checkpoints as they were; the copy stays in memory and is written again every minute, until it
// succeeds or a later state replaces it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "observe/record/records.h"
#include "optim/state.h"
#include "train/directory/checkpoint_copier.h"
#include "train/directory/run_directory.h"

namespace reigen {

// Parameters and moments that are not in the TrainState but on a GPU.
class StateSource {
 public:
  virtual ~StateSource() = default;
  virtual void begin() = 0;  // makes a copy that later steps do not change
  // Brings the copy to the host. Called on the writer's thread.
  virtual void complete(TrainState& into) = 0;
};

class CheckpointWriter {
 public:
  // All arguments must outlive it. `retry_after`: time between two attempts.
  CheckpointWriter(RunDirectory& run, const ParameterLayout& layout, const Vocabulary& vocabulary,
                   size_t keep, std::chrono::milliseconds retry_after = std::chrono::minutes(1));
  ~CheckpointWriter();  // waits for the checkpoint under way
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Each checkpoint is copied to a second place, too. Called before the first save(); `copier` must
  // outlive this.
  void use(CheckpointCopier* copier) { copier_ = copier; }

  // Waits for the previous checkpoint, copies the state, and returns. `facts` are written with it.
  // `stall` runs since training stopped for the checkpoint.
  void save(const TrainState& state, CheckpointFacts facts, StateSource* source = nullptr,
            const Stopwatch& stall = {});

  // The checkpoint that was written, or failed, since the last call; wait() waits for one under
  // way. A repeated failure is reported once, unless its reason changes.
  std::optional<CheckpointRecord> finished();
  std::optional<CheckpointRecord> wait();

  // Seconds since the last call in which a checkpoint was being written.
  double take_writing_seconds();

  // Whether the last state that was given is in memory only, because writing it failed.
  bool unsaved();
  // Tries once more to write that state, and waits for the end of it.
  void retry();

  // Bytes that an unsaved state needs at least on its disk, and those that are free there.
  struct Room {
    uint64_t needed = 0;
    uint64_t available = 0;
    bool enough() const { return available >= needed; }
  };
  Room room();

 private:
  void work();
  void write_pending();
  void write_copy();
  void check_owner() const;
  void use_present_place();
  Room room_of_copy() const;

  RunDirectory& run_;
  const ParameterLayout& layout_;
  const Vocabulary& vocabulary_;
  size_t keep_;
  CheckpointCopier* copier_ = nullptr;
  std::chrono::milliseconds retry_after_;
  TrainState copy_;
  CheckpointFacts facts_;
  StateSource* source_ = nullptr;
  CheckpointRecord record_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string failure_;    // of the last attempt; empty if it succeeded
  bool complete_ = false;  // the copy has all of its state
  bool unsaved_ = false;
  bool pending_ = false;
  Stopwatch since_pending_;     // while pending_
  double written_seconds_ = 0;  // of the checkpoints before
  double taken_seconds_ = 0;
  bool unread_ = false;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace reigen
