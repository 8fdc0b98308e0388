#include "train/directory/checkpoint_copier.h"

#include <unistd.h>

#include <exception>
#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/thread.h"

namespace reigen {

CheckpointCopier::CheckpointCopier(const RunDirectory& run, CopyPlace place, std::string name)
    : run_(run), place_(std::move(place)), name_(std::move(name)) {
  thread_ = thread_without_signals([this] { work(); });
}

CheckpointCopier::~CheckpointCopier() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CheckpointCopier::copy(uint64_t step) {
  std::lock_guard lock(mutex_);
  next_ = step;
  changed_.notify_all();
}

std::vector<uint64_t> CheckpointCopier::needed() {
  std::lock_guard lock(mutex_);
  std::vector<uint64_t> steps;
  for (const auto& step : {next_, present_}) {
    if (step) steps.push_back(*step);
  }
  return steps;
}

std::optional<CopyRecord> CheckpointCopier::finished() {
  std::lock_guard lock(mutex_);
  return std::exchange(finished_, std::nullopt);
}

bool CheckpointCopier::wait(const std::function<bool()>& over) {
  constexpr std::chrono::milliseconds kTick{100};
  std::unique_lock lock(mutex_);
  while (next_ || present_) {
    changed_.wait_for(lock, kTick);
    if (over()) return !next_ && !present_;
  }
  return true;
}

CopyRecord CheckpointCopier::copy_now(uint64_t step) {
  const Stopwatch watch;
  CopyRecord record;
  record.step = step;
  record.target = name_;
  const auto stop = [this] {
    std::lock_guard lock(mutex_);
    return ended_ || run_.taken_over();  // the one that took it over makes the copies
  };
  try {
    if (stop()) throw IoError("the run is written by a different worker now");
    // Children of this process follow its descriptors, also if the run is moved meanwhile.
    const std::string checkpoint = run_.lasting_path() + "/" + RunDirectory::path_of(step);
    for (const auto& file : std::filesystem::directory_iterator(checkpoint)) {
      record.bytes += file.file_size();
    }
    put_copy(place_, checkpoint, RunDirectory::name_of(step), stop);
  } catch (const std::exception& e) {
    record.error = e.what();
  }
  record.seconds = watch.seconds();
  record.time = unix_now();
  return record;
}

void CheckpointCopier::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return next_ || ended_; });
    if (ended_) return;
    present_ = std::exchange(next_, std::nullopt);
    lock.unlock();
    CopyRecord record = copy_now(*present_);
    lock.lock();
    present_.reset();
    if (!ended_) finished_ = std::move(record);
    changed_.notify_all();
  }
}

}  // namespace reigen
