#include "dist/group/group.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "dist/group/block_format.h"

namespace reigen {

const char* name_of(OpKind kind) {
  static constexpr std::array<const char*, kOpKinds> kNames = {
      "all_reduce", "all_gather", "broadcast", "send", "receive", "barrier", "sum"};
  return kNames[static_cast<size_t>(kind)];
}

struct Pending::State::Impl {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  CommStatus status;
  OpTimes times;
};

Pending::State::State() : impl_(std::make_unique<Impl>()) {
  impl_->times.queued = CommClock::now();
  impl_->times.begin = impl_->times.queued;
}
Pending::State::~State() = default;

void Pending::State::begin() {
  std::lock_guard lock(impl_->mutex);
  impl_->times.begin = CommClock::now();
}

void Pending::State::finish(CommStatus status) {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->status = std::move(status);
    impl_->times.end = CommClock::now();
    impl_->done = true;
  }
  impl_->ended.notify_all();
}

CommStatus Pending::State::wait() {
  std::unique_lock lock(impl_->mutex);
  impl_->ended.wait(lock, [this] { return impl_->done; });
  return impl_->status;
}

bool Pending::State::done() {
  std::lock_guard lock(impl_->mutex);
  return impl_->done;
}

OpTimes Pending::State::times() {
  std::lock_guard lock(impl_->mutex);
  return impl_->times;
}

CommStatus Pending::wait() const { return state_ ? state_->wait() : CommStatus{}; }
bool Pending::done() const { return !state_ || state_->done(); }
OpTimes Pending::times() const { return state_ ? state_->times() : OpTimes{}; }

ChunkRange chunk_of(size_t count, int rank, int size) {
  const auto ranks = static_cast<size_t>(size);
  const size_t even = (count + ranks - 1) / ranks;
  const size_t chunk = (even + kBlockValues - 1) / kBlockValues * kBlockValues;
  const size_t begin = std::min(count, static_cast<size_t>(rank) * chunk);
  return {begin, std::min(count, begin + chunk)};
}

Pending Group::all_reduce(std::span<float> data, Wire wire, ErrorFeedback feedback) {
  return start({.kind = OpKind::kAllReduce, .wire = wire, .floats = data, .feedback = feedback});
}

Pending Group::all_gather(std::span<float> data, Wire wire) {
  return start({.kind = OpKind::kAllGather, .wire = wire, .floats = data});
}

Pending Group::broadcast(std::span<std::byte> data, int root) {
  return start({.kind = OpKind::kBroadcast, .bytes = data, .peer = root});
}

Pending Group::send(std::span<const std::byte> data, int to) {
  return start({.kind = OpKind::kSend, .bytes_to_send = data, .peer = to});
}

Pending Group::receive(std::span<std::byte> data, int from) {
  return start({.kind = OpKind::kReceive, .bytes = data, .peer = from});
}

Pending Group::barrier() { return start({.kind = OpKind::kBarrier}); }

Pending Group::sum(std::span<double> values) {
  return start({.kind = OpKind::kSumDoubles, .doubles = values});
}

}  // namespace reigen
