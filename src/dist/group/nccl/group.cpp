// dist/group/nccl_group.h on NCCL: every call is polled, and the communicator is aborted if a
// worker is lost.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "device/cuda/runtime.h"
#include "dist/group/block_format.h"
#include "dist/group/nccl/library.h"
#include "dist/group/nccl/wire_kernels.h"
#include "dist/group/nccl_group.h"
#include "dist/group/queued_group.h"
#include "dist/group/wire_format.h"

namespace reigen {
namespace nccl {
namespace {

using cuda::DeviceMemory;
using cuda::Event;
using cuda::Stream;

constexpr std::chrono::milliseconds kLeaveWithin{10'000};

// Selects the calling thread's GPU.
struct UseGpu {
  explicit UseGpu(int gpu) { cuda::check(cudaSetDevice(gpu), "use the GPU"); }
};

class NcclGroup : public QueuedGroup {
 public:
  NcclGroup(const NcclOptions& options, int64_t epoch)
      : QueuedGroup(options.rank, options.size, epoch), options_(options), gpu_(options.gpu) {
    ncclUniqueId id;
    if (options.id.size() != sizeof(id)) throw CommError("NCCL: the group id has the wrong length");
    std::memcpy(&id, options.id.data(), sizeof(id));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    deadline_ = CommClock::now() + options.start_within;
    try {
      settle(library_.init(&comm_, size(), id, rank(), &config));
      connect();
      deadline_.reset();
    } catch (const CommFailure& failure) {
      give_up();
      throw CommError(describe(failure.status));
    } catch (...) {
      give_up();
      throw;
    }
  }

  ~NcclGroup() override {
    closing_ = true;
    stop_queue();
    abort();  // no effect after leave()
  }

  void close(CommStatus why) override {
    end(why);
    closing_ = true;
  }

  CommStatus leave() override {
    drain();
    if (CommStatus before = status(); !before.ok()) return before;
    CommStatus left;
    deadline_ = CommClock::now() + kLeaveWithin;
    try {
      settle(library_.finalize(comm_));
      library_.destroy(comm_);
      comm_ = nullptr;
    } catch (const CommFailure& failure) {
      left = failure.status;
    }
    close(CommStatus::closed("left"));
    return left;
  }

 protected:
  void carry_out(const Operation& o, CommCounter& counter) override {
    try {
      const UseGpu here(options_.gpu);
      counter_ = &counter;
      if (options_.timeout.count() > 0) deadline_ = CommClock::now() + options_.timeout;
      enqueue(o);
      done_.record(stream_.get());
      poll_until([this](ncclResult_t) { return done_.done(); });
      deadline_.reset();
      if (o.kind == OpKind::kSumDoubles) take_doubles(o.doubles);
    } catch (const CommFailure&) {
      abort();
      throw;
    } catch (const Error& e) {
      abort();
      throw CommFailure{CommStatus::lost(-1, "", e.what())};
    }
  }

 private:
  // Polls until `finished`; throws CommFailure if NCCL fails, the group is closed or
  // NcclOptions::outside reports a failure.
  template <class F>
  void poll_until(F finished) {
    for (int round = 0;; ++round) {
      ncclResult_t state = ncclSuccess;
      library_.async_error(comm_, &state);
      if (state != ncclSuccess && state != ncclInProgress) fail(state);
      if (finished(state)) return;
      if (closing_) throw CommFailure{CommStatus::closed("")};
      if (deadline_ && CommClock::now() > *deadline_) {
        throw CommFailure{CommStatus::timeout(-1, "", "NCCL: not all GPUs answered in time")};
      }
      constexpr int kSpins = 200;
      constexpr int kBetweenChecks = 64;
      if (round < kSpins) continue;
      if (round % kBetweenChecks == 0) {
        if (CommStatus outside = options_.outside(); !outside.ok()) throw CommFailure{outside};
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  // Waits for a non-blocking call to complete.
  void settle(ncclResult_t result) {
    if (result != ncclSuccess && result != ncclInProgress) fail(result);
    if (result == ncclSuccess) return;
    poll_until([](ncclResult_t state) { return state == ncclSuccess; });
  }

  [[noreturn]] void fail(ncclResult_t result) const {
    const char* more = library_.last_error(comm_);
    throw CommFailure{CommStatus::lost(
        -1, "",
        format("NCCL: {}{}{}", library_.error_text(result),
               more != nullptr && *more != '\0' ? ": " : "", more != nullptr ? more : ""))};
  }

  // Called before memory is freed: freeing waits for kernels, which wait for other ranks.
  void give_up() {
    abort();
    stop_queue();
  }

  void abort() {
    if (comm_ != nullptr) library_.abort(comm_);
    comm_ = nullptr;
  }

  void connect();
  void enqueue(const Operation& o);
  void reduce_scatter(std::span<float> data, Wire wire);
  void all_gather(std::span<float> data, Wire wire);
  void take_doubles(std::span<double> values);

  // Between group_start and group_end: `bytes` to or from another rank.
  void send(const void* data, size_t bytes, int to) {
    if (bytes == 0) return;
    count(bytes, to);
    started(library_.send(data, bytes, ncclInt8, to, comm_, stream_.get()));
  }
  void receive(void* data, size_t bytes, int from) {
    if (bytes == 0) return;
    counter_->bytes_received += bytes;
    started(library_.receive(data, bytes, ncclInt8, from, comm_, stream_.get()));
  }
  void started(ncclResult_t result) const {
    if (result != ncclSuccess && result != ncclInProgress) fail(result);
  }
  bool inter_node(int other) const {
    if (options_.machines.size() != static_cast<size_t>(size())) return false;
    return options_.machines[static_cast<size_t>(other)] !=
           options_.machines[static_cast<size_t>(rank())];
  }
  void count(size_t bytes, int to) {
    counter_->bytes_sent += bytes;
    if (inter_node(to)) counter_->inter_node_bytes += bytes;
  }
  // NCCL chooses its own routes; counted as a ring, in which each rank sends to the next.
  void count_ring(size_t bytes) {
    const double share = 2.0 * (size() - 1) / size();
    count(static_cast<size_t>(share * static_cast<double>(bytes)), (rank() + 1) % size());
  }
  std::byte* room(DeviceMemory& memory, size_t bytes) {
    if (memory.size() < bytes) memory = DeviceMemory(bytes, "encoded gradients");
    return memory.as<std::byte>();
  }
  void copy(void* to, const void* from, size_t bytes) const {
    cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_.get()), "copy");
  }

  const Library& library_ = Library::get();
  NcclOptions options_;
  UseGpu gpu_;
  ncclComm_t comm_ = nullptr;
  Stream stream_;
  Event done_;
  DeviceMemory first_;    // the payload of connect(), freed once it has arrived
  DeviceMemory encoded_;  // values in the format of the wire
  DeviceMemory addends_;  // of all ranks, for the own chunk
  CommCounter* counter_ = nullptr;
  std::atomic<bool> closing_{false};
  std::optional<CommClock::time_point> deadline_;  // of the call in progress
};

// NCCL connects on the first message. Making it send here, from every rank to every other and
// around the ring, gives connecting a deadline.
void NcclGroup::connect() {
  constexpr size_t kLarge = 1 << 20;  // large enough for the ring that buckets use
  const size_t a_chunk_each = kBlockValues * static_cast<size_t>(size());
  first_ = DeviceMemory(std::max(kLarge, a_chunk_each) * sizeof(float), "the first exchange");
  cuda::fill_zero(first_.get(), first_.size(), stream_.get());
  const std::span<float> zeros(first_.as<float>(), first_.size() / sizeof(float));
  CommCounter uncounted;
  counter_ = &uncounted;
  for (const size_t elements : {size_t{1}, kLarge}) {
    Operation sum{.kind = OpKind::kAllReduce, .wire = Wire::kFp32};
    sum.floats = zeros.first(elements);
    enqueue(sum);
  }
  Operation rounded{.kind = OpKind::kAllReduce, .wire = Wire::kBf16};
  rounded.floats = zeros.first(a_chunk_each);
  enqueue(rounded);
  done_.record(stream_.get());
  poll_until([this](ncclResult_t) { return done_.done(); });
  first_ = DeviceMemory();
}

void NcclGroup::enqueue(const Operation& o) {
  if (o.wire == Wire::kInt8 || o.wire == Wire::kInt4) {
    throw CommError("NCCL cannot sum int8 or int4; use --transport tcp");
  }
  switch (o.kind) {
    case OpKind::kAllReduce:
      if (o.wire == Wire::kFp32) {
        count_ring(o.floats.size_bytes());
        return settle(library_.all_reduce(o.floats.data(), o.floats.data(), o.floats.size(),
                                          ncclFloat, ncclSum, comm_, stream_.get()));
      }
      reduce_scatter(o.floats, o.wire);
      return all_gather(o.floats, o.wire);
    case OpKind::kAllGather:
      return all_gather(o.floats, o.wire);
    case OpKind::kBroadcast:
      if (rank() == o.peer) count(o.bytes.size(), (rank() + 1) % size());
      return settle(library_.broadcast(o.bytes.data(), o.bytes.data(), o.bytes.size(), ncclInt8,
                                       o.peer, comm_, stream_.get()));
    case OpKind::kSend:
      count(o.bytes_to_send.size(), o.peer);
      return settle(library_.send(o.bytes_to_send.data(), o.bytes_to_send.size(), ncclInt8, o.peer,
                                  comm_, stream_.get()));
    case OpKind::kReceive:
      counter_->bytes_received += o.bytes.size();
      return settle(
          library_.receive(o.bytes.data(), o.bytes.size(), ncclInt8, o.peer, comm_, stream_.get()));
    case OpKind::kBarrier: {
      std::byte* one = room(encoded_, sizeof(float));
      return settle(library_.all_reduce(one, one, 1, ncclFloat, ncclSum, comm_, stream_.get()));
    }
    case OpKind::kSumDoubles: {
      std::byte* values = room(encoded_, o.doubles.size_bytes());
      copy(values, o.doubles.data(), o.doubles.size_bytes());
      count_ring(o.doubles.size_bytes());
      return settle(library_.all_reduce(values, values, o.doubles.size(), ncclDouble, ncclSum,
                                        comm_, stream_.get()));
    }
  }
}

void NcclGroup::take_doubles(std::span<double> values) {
  copy(values.data(), encoded_.get(), values.size_bytes());
  stream_.wait();
}

// Each rank receives all addends of its chunk and sums them in the order of ranks.
void NcclGroup::reduce_scatter(std::span<float> data, Wire wire) {
  const size_t each = wire_bytes(wire, 1);
  auto* encoded = reinterpret_cast<std::byte*>(data.data());
  if (wire != Wire::kFp32) {
    encoded = room(encoded_, data.size() * each);
    to_wire(wire, data.data(), data.size(), encoded, stream_.get());
  }
  const ChunkRange mine = chunk_of(data.size(), rank(), size());
  std::byte* addends = room(addends_, mine.size() * each * static_cast<size_t>(size()));
  started(library_.group_start());
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    const ChunkRange theirs = chunk_of(data.size(), r, size());
    send(encoded + theirs.begin * each, theirs.size() * each, r);
    receive(addends + static_cast<size_t>(r) * mine.size() * each, mine.size() * each, r);
  }
  settle(library_.group_end());
  if (mine.size() == 0) return;
  copy(addends + static_cast<size_t>(rank()) * mine.size() * each, encoded + mine.begin * each,
       mine.size() * each);
  sum_addends(wire, addends, size(), mine.size(), data.data() + mine.begin, stream_.get());
}

void NcclGroup::all_gather(std::span<float> data, Wire wire) {
  const size_t each = wire_bytes(wire, 1);
  const ChunkRange mine = chunk_of(data.size(), rank(), size());
  auto* encoded = reinterpret_cast<std::byte*>(data.data());
  if (wire != Wire::kFp32) {
    encoded = room(encoded_, data.size() * each);
    if (mine.size() > 0) {
      to_wire(wire, data.data() + mine.begin, mine.size(), encoded + mine.begin * each,
              stream_.get());
    }
  }
  started(library_.group_start());
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    const ChunkRange theirs = chunk_of(data.size(), r, size());
    send(encoded + mine.begin * each, mine.size() * each, r);
    receive(encoded + theirs.begin * each, theirs.size() * each, r);
  }
  settle(library_.group_end());
  if (wire != Wire::kFp32) {
    from_wire(wire, encoded, data.size(), data.data(), stream_.get());
  }
}

}  // namespace
}  // namespace nccl

std::string nccl_version(std::string* why) {
  try {
    int number = 0;
    nccl::Library::get().version(&number);
    return format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  } catch (const CommError& e) {
    if (why != nullptr) *why = e.what();
    return "";
  }
}

std::string new_nccl_id() {
  ncclUniqueId id;
  const nccl::Library& library = nccl::Library::get();
  const ncclResult_t result = library.unique_id(&id);
  if (result != ncclSuccess) {
    throw CommError(format("NCCL: cannot make a group id: {}", library.error_text(result)));
  }
  return {reinterpret_cast<const char*>(&id), sizeof(id)};
}

std::unique_ptr<Group> make_nccl_group(const NcclOptions& options, int64_t epoch) {
  return std::make_unique<nccl::NcclGroup>(options, epoch);
}

}  // namespace reigen
