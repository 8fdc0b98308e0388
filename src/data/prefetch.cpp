#include "data/prefetch.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "base/thread.h"

namespace reigen {

struct Prefetcher::State {
  const Dataset& dataset;
  BatchStream stream;
  PrefetchOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<ReadyBatch> ready;
  std::exception_ptr error;
  bool ended = false;
  std::thread thread;

  // The pairs of each micro-batch of this worker, as indices into the batch; its share of the cost.
  std::vector<std::vector<uint32_t>> micro_batches(const GlobalBatch& batch, double& share) const {
    if (options.workers == 1) return split_by_tokens(batch, options.micro_tokens);
    const std::vector<double> equal(static_cast<size_t>(options.workers), 1.0);
    const auto shares = share_out(batch, options.shares.empty() ? equal : options.shares);
    const std::vector<uint32_t>& own = shares[static_cast<size_t>(options.rank)];
    share = cost_share(batch, own);
    return split_by_tokens(batch, own, options.micro_tokens);
  }

  ReadyBatch make() {
    ReadyBatch made{.batch = stream.next()};
    for (const auto& pairs : micro_batches(made.batch, made.share)) {
      made.micro_batches.push_back(pack(dataset, made.batch, pairs, options.bos));
    }
    if (options.stage) {
      for (const PackedBatch& micro : made.micro_batches)
        made.staged.push_back(options.stage(micro));
    }
    return made;
  }

  void fill() {
    try {
      while (true) {
        ReadyBatch made = make();
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return ended || ready.size() < options.depth; });
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

Prefetcher::Prefetcher(const Dataset& dataset, BatchStream stream, PrefetchOptions options)
    : state_(new State{dataset, std::move(stream), std::move(options)}) {
  const PrefetchOptions& given = state_->options;
  if (!given.shares.empty() && given.shares.size() != static_cast<size_t>(given.workers)) {
    throw std::logic_error("the shares of a batch are those of other workers");
  }
  state_->thread = thread_without_signals([state = state_.get()] { state->fill(); });
  pthread_setname_np(state_->thread.native_handle(), kInputThread);
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
