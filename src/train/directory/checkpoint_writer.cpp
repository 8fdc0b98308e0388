#include "train/directory/checkpoint_writer.h"

#include <sys/statvfs.h>

#include <exception>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/thread.h"

namespace reigen {

CheckpointWriter::CheckpointWriter(RunDirectory& run, const ParameterLayout& layout,
                                   const Vocabulary& vocabulary, size_t keep,
                                   std::chrono::milliseconds retry_after)
    : run_(run), layout_(layout), vocabulary_(vocabulary), keep_(keep), retry_after_(retry_after) {
  thread_ = thread_without_signals([this] { work(); });
}

CheckpointWriter::~CheckpointWriter() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CheckpointWriter::save(const TrainState& state, CheckpointFacts facts, StateSource* source,
                            const Stopwatch& stall) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !pending_; });
  source_ = source;
  if (source_ != nullptr) {
    source_->begin();
    copy_.counters = state.counters;
    copy_.choices = state.choices;
  } else {
    copy_ = state;  // into the buffers of the previous checkpoint
  }
  facts_ = std::move(facts);
  record_ = {};
  record_.step = state.counters.step;
  use_present_place();
  record_.stall_seconds = stall.seconds();
  failure_.clear();
  complete_ = unsaved_ = false;
  pending_ = true;
  since_pending_ = {};
  changed_.notify_all();
}

// The writer's thread is idle.
void CheckpointWriter::use_present_place() {
  run_.follow();
  record_.path = run_.checkpoint(record_.step);
}

double CheckpointWriter::take_writing_seconds() {
  std::lock_guard lock(mutex_);
  const double all = written_seconds_ + (pending_ ? since_pending_.seconds() : 0);
  return all - std::exchange(taken_seconds_, all);
}

bool CheckpointWriter::unsaved() {
  std::lock_guard lock(mutex_);
  return unsaved_;
}

void CheckpointWriter::retry() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !pending_; });
  if (!unsaved_) return;
  use_present_place();
  record_.stall_seconds = 0;  // counted by the attempt that failed
  pending_ = true;
  since_pending_ = {};
  changed_.notify_all();
  changed_.wait(lock, [this] { return !pending_; });
}

CheckpointWriter::Room CheckpointWriter::room() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !pending_; });
  return room_of_copy();
}

CheckpointWriter::Room CheckpointWriter::room_of_copy() const {
  Room room;
  // Parameters and moments: all but some kilobytes of manifest, headers and vocabulary.
  room.needed = sizeof(float) * layout_.parameters() * (copy_.average.empty() ? 1 : 2);
  for (const NamedBuffer& moment : moments_of(copy_)) {
    room.needed += moment.values.empty() ? 0 : sizeof(float) * layout_.parameters();
  }
  for (const SafeTensorSource& tensor : worker_tensors(copy_)) {
    room.needed += tensor.values.size_bytes();
  }
  struct statvfs disk = {};
  room.available = statvfs(run_.path().c_str(), &disk) == 0
                       ? uint64_t{disk.f_bavail} * disk.f_frsize
                       : room.needed;
  return room;
}

std::optional<CheckpointRecord> CheckpointWriter::finished() {
  std::lock_guard lock(mutex_);
  if (pending_ || !unread_) return std::nullopt;
  unread_ = false;
  return record_;
}

std::optional<CheckpointRecord> CheckpointWriter::wait() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !pending_; });
  }
  return finished();
}

// A stopped writer that wakes changes no link and no copy of the one that took the run over.
void CheckpointWriter::check_owner() const {
  const uint64_t step = copy_.counters.step;
  const std::optional<uint64_t> last = run_.linked("last");
  const bool newer = last && *last > step && run_.has_checkpoint(*last);
  if (!newer && !run_.taken_over()) return;
  throw IoError(format("the run {} is written by a different worker now{}", run_.path(),
                       newer ? format(", which has saved step {}", with_commas(*last)) : ""));
}

void CheckpointWriter::write_copy() {
  if (const std::optional<std::string> place = run_.moved_to()) {
    throw IoError(format("the run directory {} was {}", run_.path(),
                         place->empty() ? "removed" : format("moved to {}", *place)));
  }
  check_owner();
  const Counters& counters = copy_.counters;
  const std::string lasting = run_.lasting_path();
  CheckpointFacts written;
  try {
    written = write_checkpoint(lasting + record_.path.substr(run_.path().size()), facts_, layout_,
                               copy_.parameters, moments_of(copy_), vocabulary_, true,
                               worker_tensors(copy_), OutputName::kOwn, copy_.average);
  } catch (const Error& e) {  // with the path that a user knows
    std::string text = e.what();
    const size_t at = text.find(lasting);
    if (at != std::string::npos) text.replace(at, lasting.size(), run_.path());
    throw Error(e.code(), text);
  }
  record_.bytes = 0;
  for (const auto& file : written.files) record_.bytes += file.bytes;
  check_owner();  // this process may have been stopped meanwhile
  run_.link("last", counters.step);
  std::vector<uint64_t> needed;
  if (copier_ != nullptr) {
    copier_->copy(counters.step);
    needed = copier_->needed();
  }
  auto keep_best = [&](const std::string& name, const std::optional<Best>& best) {
    // A full disk may have prevented it at that step: then the link stays on the best before it.
    if (best && run_.has_checkpoint(best->step)) run_.link(name, best->step);
    if (const auto step = run_.linked(name)) needed.push_back(*step);
  };
  keep_best("best-loss", counters.best_loss);
  keep_best("best-bleu", counters.best_bleu);
  for (const auto& [name, best] : counters.best_metrics) keep_best("best-" + name, best);
  run_.prune(counters.step, keep_, needed);
}

void CheckpointWriter::write_pending() {
  Stopwatch watch;
  record_.error.clear();
  try {
    if (!complete_ && source_ != nullptr) source_->complete(copy_);
    source_ = nullptr;  // a second attempt has the copy
    complete_ = true;
    write_copy();
  } catch (const std::exception& e) {
    record_.error = e.what();
  }
  record_.write_seconds = watch.seconds();
  record_.time = unix_now();
}

// While a checkpoint is pending, only this thread uses the copy.
void CheckpointWriter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    auto called = [this] { return pending_ || ended_; };
    if (!unsaved_) {
      changed_.wait(lock, called);
    } else if (!changed_.wait_for(lock, retry_after_, called)) {
      // A write that cannot succeed would take the last free bytes from the logs for a moment.
      if (!room_of_copy().enough()) continue;
      pending_ = true;
      since_pending_ = {};
    }
    if (!pending_) return;
    lock.unlock();
    write_pending();
    const bool failed = !record_.error.empty();
    const std::string failure = record_.error;
    if (const Room room = room_of_copy(); failed && !room.enough()) {
      record_.error += format("; the checkpoint needs {} and {} are free: free at least {}",
                              human_bytes(room.needed), human_bytes(room.available),
                              human_bytes(room.needed - room.available));
    }
    lock.lock();
    pending_ = false;
    written_seconds_ += since_pending_.seconds();
    unsaved_ = failed && complete_;
    unread_ = unread_ || !failed || failure != failure_;
    failure_ = failure;
    changed_.notify_all();
  }
}

}  // namespace reigen
