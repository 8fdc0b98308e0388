#include "dist/group/group.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "dist/group/block_format.h"

namespace reigen {

const char* name_of(OpKind kind) {
  static constexpr std::array<const char*, kOpKinds> kNames = {
      "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast",
      "send",       "receive",        "barrier",    "sum"};
  return kNames[static_cast<size_t>(kind)];
}

struct Pending::State::Parts {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  CommStatus status;
  OpTimes times;
};

Pending::State::State() : parts_(std::make_unique<Parts>()) {
  parts_->times.started = CommClock::now();
  parts_->times.begin = parts_->times.started;
}
Pending::State::~State() = default;

void Pending::State::begin() {
  std::lock_guard lock(parts_->mutex);
  parts_->times.begin = CommClock::now();
}

void Pending::State::finish(CommStatus status) {
  {
    std::lock_guard lock(parts_->mutex);
    parts_->status = std::move(status);
    parts_->times.end = CommClock::now();
    parts_->done = true;
  }
  parts_->ended.notify_all();
}

CommStatus Pending::State::wait() {
  std::unique_lock lock(parts_->mutex);
  parts_->ended.wait(lock, [this] { return parts_->done; });
  return parts_->status;
}

bool Pending::State::done() {
  std::lock_guard lock(parts_->mutex);
  return parts_->done;
}

OpTimes Pending::State::times() {
  std::lock_guard lock(parts_->mutex);
  return parts_->times;
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

Pending Group::all_reduce(std::span<float> data, Wire wire, std::span<float> unsent) {
  return start({.kind = OpKind::kAllReduce, .wire = wire, .floats = data, .unsent = unsent});
}

Pending Group::reduce_scatter(std::span<float> data, Wire wire) {
  return start({.kind = OpKind::kReduceScatter, .wire = wire, .floats = data});
}

Pending Group::all_gather(std::span<float> data, Wire wire) {
  return start({.kind = OpKind::kAllGather, .wire = wire, .floats = data});
}

Pending Group::all_to_all(std::span<const float> to_send, std::vector<size_t> send_counts,
                          std::span<float> received, std::vector<size_t> receive_counts,
                          Wire wire) {
  return start({.kind = OpKind::kAllToAll,
                .wire = wire,
                .floats = received,
                .to_send = to_send,
                .send_counts = std::move(send_counts),
                .receive_counts = std::move(receive_counts)});
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
