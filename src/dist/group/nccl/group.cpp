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

// The calling thread's GPU from now on.
struct UseGpu {
  explicit UseGpu(int gpu) { cuda::check(cudaSetDevice(gpu), "use the GPU"); }
};

// Ends an operation.
struct Stopped {
  CommStatus status;
};

class NcclGroup : public QueuedGroup {
 public:
  NcclGroup(const NcclOptions& options, int64_t epoch)
      : QueuedGroup(options.rank, options.size, epoch), options_(options), gpu_(options.gpu) {
    ncclUniqueId id;
    if (options.id.size() != sizeof(id)) throw CommError("NCCL: the id of the group is damaged");
    std::memcpy(&id, options.id.data(), sizeof(id));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    deadline_ = CommClock::now() + options.start_within;
    try {
      settle(library_.init(&comm_, size(), id, rank(), &config));
      connect();
      deadline_.reset();
    } catch (const Stopped& stopped) {
      give_up();
      throw CommError(describe(stopped.status));
    } catch (...) {
      give_up();
      throw;
    }
  }

  ~NcclGroup() override {
    closing_ = true;
    stop_queue();
    abort();  // nothing once it was left
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
    } catch (const Stopped& stopped) {
      left = stopped.status;
    }
    close(CommStatus::closed("left"));
    return left;
  }

 protected:
  CommStatus carry_out(const Operation& o, CommCounter& counter) override {
    try {
      const UseGpu here(options_.gpu);
      counter_ = &counter;
      if (options_.timeout.count() > 0) deadline_ = CommClock::now() + options_.timeout;
      enqueue(o);
      done_.record(stream_.get());
      watch([this](ncclResult_t) { return done_.done(); });
      deadline_.reset();
      if (o.kind == OpKind::kSumDoubles) take_doubles(o.doubles);
      return {};
    } catch (const Stopped& stopped) {
      abort();
      return stopped.status;
    } catch (const Error& e) {
      abort();
      return CommStatus::lost(-1, "", e.what());
    }
  }

 private:
  // Until `finished`; throws Stopped when NCCL fails, the group is closed or something outside
  // ends it.
  template <class F>
  void watch(F finished) {
    for (int round = 0;; ++round) {
      ncclResult_t state = ncclSuccess;
      library_.async_error(comm_, &state);
      if (state != ncclSuccess && state != ncclInProgress) fail(state);
      if (finished(state)) return;
      if (closing_) throw Stopped{CommStatus::closed("")};
      if (deadline_ && CommClock::now() > *deadline_) {
        throw Stopped{CommStatus::timeout(-1, "", "NCCL: not all GPUs answered in time")};
      }
      constexpr int kSpins = 200;
      constexpr int kBetweenQuestions = 64;
      if (round < kSpins) continue;
      if (round % kBetweenQuestions == 0) {
        if (CommStatus outside = options_.outside(); !outside.ok()) throw Stopped{outside};
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  // A call that goes on in the background.
  void settle(ncclResult_t result) {
    if (result != ncclSuccess && result != ncclInProgress) fail(result);
    if (result == ncclSuccess) return;
    watch([](ncclResult_t state) { return state == ncclSuccess; });
  }

  [[noreturn]] void fail(ncclResult_t result) const {
    const char* more = library_.last_error(comm_);
    throw Stopped{CommStatus::lost(
        -1, "",
        format("NCCL: {}{}{}", library_.error_text(result),
               more != nullptr && *more != '\0' ? ": " : "", more != nullptr ? more : ""))};
  }

  // Before memory is freed: that would wait for kernels that wait for others.
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
  void all_to_all(const Operation& o);
  void take_doubles(std::span<double> values);

  // Within a group of calls: `bytes` to or from another rank.
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
  bool away(int other) const {
    if (options_.machines.size() != static_cast<size_t>(size())) return false;
    return options_.machines[static_cast<size_t>(other)] !=
           options_.machines[static_cast<size_t>(rank())];
  }
  void count(size_t bytes, int to) {
    counter_->bytes_sent += bytes;
    if (away(to)) counter_->bytes_sent_away += bytes;
  }
  // NCCL decides who sends to whom: a ring, whose next rank is the neighbour.
  void count_ring(size_t bytes) {
    const double share = 2.0 * (size() - 1) / size();
    count(static_cast<size_t>(share * static_cast<double>(bytes)), (rank() + 1) % size());
  }
  std::byte* room(DeviceMemory& memory, size_t bytes) {
    if (memory.size() < bytes) memory = DeviceMemory(bytes, "gradients that travel");
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
  DeviceMemory first_;  // what is sent to connect, not freed before it has arrived
  DeviceMemory travelling_;
  DeviceMemory parts_;
  CommCounter* counter_ = nullptr;
  std::atomic<bool> closing_{false};
  std::optional<CommClock::time_point> deadline_;  // of what is under way
};

// NCCL connects when something is first sent: here, where it has to succeed in time, from every
// rank to every other, and around the ring.
void NcclGroup::connect() {
  constexpr size_t kLarge = 1 << 20;  // takes the ring, as buckets do
  const size_t everybody = kBlockValues * static_cast<size_t>(size());  // a chunk for each
  first_ = DeviceMemory(std::max(kLarge, everybody) * sizeof(float), "a first exchange");
  cuda::fill_zero(first_.get(), first_.size(), stream_.get());
  const std::span<float> zeros(first_.as<float>(), first_.size() / sizeof(float));
  CommCounter nobodys;
  counter_ = &nobodys;
  for (const size_t elements : {size_t{1}, kLarge}) {
    Operation sum{.kind = OpKind::kAllReduce, .wire = Wire::kFp32};
    sum.floats = zeros.first(elements);
    enqueue(sum);
  }
  Operation rounded{.kind = OpKind::kAllReduce, .wire = Wire::kBf16};
  rounded.floats = zeros.first(everybody);
  enqueue(rounded);
  done_.record(stream_.get());
  watch([this](ncclResult_t) { return done_.done(); });
  first_ = DeviceMemory();
}

void NcclGroup::enqueue(const Operation& o) {
  if (o.wire == Wire::kInt8 || o.wire == Wire::kInt4) {
    throw CommError("integers do not travel between GPUs directly");
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
    case OpKind::kReduceScatter:
      return reduce_scatter(o.floats, o.wire);
    case OpKind::kAllGather:
      return all_gather(o.floats, o.wire);
    case OpKind::kAllToAll:
      return all_to_all(o);
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
      std::byte* one = room(travelling_, sizeof(float));
      return settle(library_.all_reduce(one, one, 1, ncclFloat, ncclSum, comm_, stream_.get()));
    }
    case OpKind::kSumDoubles: {
      std::byte* values = room(travelling_, o.doubles.size_bytes());
      copy(values, o.doubles.data(), o.doubles.size_bytes());
      count_ring(o.doubles.size_bytes());
      return settle(library_.all_reduce(values, values, o.doubles.size(), ncclDouble, ncclSum,
                                        comm_, stream_.get()));
    }
  }
}

void NcclGroup::take_doubles(std::span<double> values) {
  copy(values.data(), travelling_.get(), values.size_bytes());
  stream_.wait();
}

// Each rank gets all parts of its chunk and adds them in the order of ranks.
void NcclGroup::reduce_scatter(std::span<float> data, Wire wire) {
  const size_t each = wire_bytes(wire, 1);
  auto* travelling = reinterpret_cast<std::byte*>(data.data());
  if (wire != Wire::kFp32) {
    travelling = room(travelling_, data.size() * each);
    to_wire(wire, data.data(), data.size(), travelling, stream_.get());
  }
  const ChunkRange mine = chunk_of(data.size(), rank(), size());
  std::byte* parts = room(parts_, mine.size() * each * static_cast<size_t>(size()));
  started(library_.group_start());
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    const ChunkRange theirs = chunk_of(data.size(), r, size());
    send(travelling + theirs.begin * each, theirs.size() * each, r);
    receive(parts + static_cast<size_t>(r) * mine.size() * each, mine.size() * each, r);
  }
  settle(library_.group_end());
  if (mine.size() == 0) return;
  copy(parts + static_cast<size_t>(rank()) * mine.size() * each, travelling + mine.begin * each,
       mine.size() * each);
  sum_parts(wire, parts, size(), mine.size(), data.data() + mine.begin, stream_.get());
}

void NcclGroup::all_gather(std::span<float> data, Wire wire) {
  const size_t each = wire_bytes(wire, 1);
  const ChunkRange mine = chunk_of(data.size(), rank(), size());
  auto* travelling = reinterpret_cast<std::byte*>(data.data());
  if (wire != Wire::kFp32) {
    travelling = room(travelling_, data.size() * each);
    if (mine.size() > 0) {
      to_wire(wire, data.data() + mine.begin, mine.size(), travelling + mine.begin * each,
              stream_.get());
    }
  }
  started(library_.group_start());
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    const ChunkRange theirs = chunk_of(data.size(), r, size());
    send(travelling + mine.begin * each, mine.size() * each, r);
    receive(travelling + theirs.begin * each, theirs.size() * each, r);
  }
  settle(library_.group_end());
  if (wire != Wire::kFp32) {
    from_wire(wire, travelling, data.size(), data.data(), stream_.get());
  }
}

void NcclGroup::all_to_all(const Operation& o) {
  const size_t each = wire_bytes(o.wire, 1);
  const auto* out = reinterpret_cast<const std::byte*>(o.to_send.data());
  auto* in = reinterpret_cast<std::byte*>(o.floats.data());
  if (o.wire != Wire::kFp32) {
    std::byte* rounded = room(travelling_, o.to_send.size() * each);
    to_wire(o.wire, o.to_send.data(), o.to_send.size(), rounded, stream_.get());
    out = rounded;
    in = room(parts_, o.floats.size() * each);
  }
  started(library_.group_start());
  for (int r = 0; r < size(); ++r) {
    const size_t sent = o.send_counts[static_cast<size_t>(r)] * each;
    const size_t received = o.receive_counts[static_cast<size_t>(r)] * each;
    if (r == rank()) {
      if (sent > 0) copy(in, out, sent);
    } else {
      send(out, sent, r);
      receive(in, received, r);
    }
    out += sent;
    in += received;
  }
  settle(library_.group_end());
  if (o.wire != Wire::kFp32) {
    from_wire(o.wire, parts_.get(), o.floats.size(), o.floats.data(), stream_.get());
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
    throw CommError(format("NCCL: cannot make an id: {}", library.error_text(result)));
  }
  return {reinterpret_cast<const char*>(&id), sizeof(id)};
}

std::unique_ptr<Group> make_nccl_group(const NcclOptions& options, int64_t epoch) {
  return std::make_unique<nccl::NcclGroup>(options, epoch);
}

}  // namespace reigen
