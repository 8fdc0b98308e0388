#include "train/run/checkpoint_writer.h"

#include <exception>

#include "base/clock.h"
#include "base/thread.h"

namespace reigen {

CheckpointWriter::CheckpointWriter(const RunDirectory& run, const ParameterLayout& layout,
                                   const Vocabulary& vocabulary, size_t keep)
    : run_(run), layout_(layout), vocabulary_(vocabulary), keep_(keep) {
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
  record_.path = run_.checkpoint(state.counters.step);
  record_.stall_seconds = stall.seconds();
  pending_ = true;
  changed_.notify_all();
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

void CheckpointWriter::write_pending() {
  Stopwatch watch;
  try {
    if (source_ != nullptr) source_->complete(copy_);
    const Counters& counters = copy_.counters;
    const CheckpointFacts written =
        write_checkpoint(record_.path, facts_, layout_, copy_.parameters, moments_of(copy_),
                         vocabulary_, true, worker_tensors(copy_));
    for (const auto& file : written.files) record_.bytes += file.bytes;
    run_.link("last", counters.step);
    std::vector<uint64_t> needed;
    auto keep_best = [&](const char* name, const std::optional<Best>& best) {
      // A full disk may have prevented it at that step: then the link stays on the best before it.
      if (best && is_checkpoint(run_.checkpoint(best->step))) run_.link(name, best->step);
      if (const auto step = run_.linked(name)) needed.push_back(*step);
    };
    keep_best("best-loss", counters.best_loss);
    keep_best("best-bleu", counters.best_bleu);
    run_.prune(counters.step, keep_, needed);
  } catch (const std::exception& e) {
    record_.error = e.what();
  }
  record_.write_seconds = watch.seconds();
  record_.time = unix_now();
}

void CheckpointWriter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return pending_ || ended_; });
    if (!pending_) return;
    lock.unlock();  // only this thread uses the copy while a checkpoint is pending
    write_pending();
    lock.lock();
    pending_ = false;
    unread_ = true;
    changed_.notify_all();
  }
}

}  // namespace reigen
