#include "data/prefetch.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace reigen {

struct Prefetcher::State {
  const Dataset& dataset;
  BatchStream stream;
  uint64_t micro_tokens;
  uint32_t bos;
  size_t depth;
  StagePart stage;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<ReadyBatch> ready;
  std::exception_ptr error;
  bool ended = false;
  std::thread thread;

  ReadyBatch make() {
    ReadyBatch made{.batch = stream.next()};
    for (const auto& run : split_by_tokens(made.batch, micro_tokens)) {
      made.parts.push_back(pack(dataset, made.batch, run, bos));
    }
    if (stage) {
      for (const PackedBatch& part : made.parts) made.staged.push_back(stage(part));
    }
    return made;
  }

  void fill() {
    try {
      while (true) {
        ReadyBatch made = make();
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return ended || ready.size() < depth; });
        if (ended) return;
        ready.push_back(std::move(made));
        changed.notify_all();
      }
    } catch (...) {
      std::lock_guard lock(mutex);
      error = std::current_exception();
      changed.notify_all();
    }
  }
};

Prefetcher::Prefetcher(const Dataset& dataset, BatchStream stream, uint64_t micro_tokens,
                       uint32_t bos, size_t depth, StagePart stage)
    : state_(new State{dataset, std::move(stream), micro_tokens, bos, depth, std::move(stage)}) {
  state_->thread = std::thread([state = state_.get()] { state->fill(); });
}

Prefetcher::~Prefetcher() {
  {
    std::lock_guard lock(state_->mutex);
    state_->ended = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

ReadyBatch Prefetcher::next() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return !state_->ready.empty() || state_->error; });
  if (state_->ready.empty()) std::rethrow_exception(state_->error);
  ReadyBatch batch = std::move(state_->ready.front());
  state_->ready.pop_front();
  state_->changed.notify_all();
  return batch;
}

}  // namespace reigen
