// Start here: the collective operations between the workers of a job (all-reduce, all-gather,
// broadcast, ...). Implementations: mesh_group.h (TCP), nccl_group.h (GPUs), single_group.h.
//
// Operations are asynchronous and run one after another on the group's own thread, in the order
// they were started; all ranks must start the same ones in the same order. Memory given to an
// operation belongs to it until its wait() returns. Every rank ends with the same bits, independent
// of timing: a sum is computed by one rank, in the order of ranks, in fp32 (or double). A failed
// operation closes the whole group, so that no rank waits for ever; a new group is then formed.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dist/net/comm_status.h"

namespace reigen {

// The number format of floats in a message. Summed values are rounded when they are sent and added
// in fp32, so a sum is rounded twice for any number of ranks: each rank's addend, and the result.
// int8 and int4 (block_format.h) lose more; their callers use error feedback.
enum class Wire : uint8_t { kFp32, kBf16, kFp16, kInt8, kInt4 };

enum class OpKind : uint8_t {
  kAllReduce,
  kAllGather,
  kBroadcast,
  kSend,
  kReceive,
  kBarrier,
  kSumDoubles,
};
inline constexpr size_t kOpKinds = 7;
const char* name_of(OpKind kind);

using CommClock = std::chrono::steady_clock;

// Times of one operation on this rank.
struct OpTimes {
  CommClock::time_point queued;  // the call of the Group method
  CommClock::time_point begin;   // after all operations queued before it
  CommClock::time_point end;
};

// Memory of error feedback, both as long as the data, or both empty. The same memory twice where no
// step is ever done again.
struct ErrorFeedback {
  std::span<const float> last;  // residual of the step before
  std::span<float> next;        // residual of this step
};

// The arguments of an operation; each kind uses the fields that its Group method takes.
struct Operation {
  OpKind kind = OpKind::kBarrier;
  Wire wire = Wire::kFp32;
  std::span<float> floats;
  ErrorFeedback feedback;  // all_reduce
  std::span<double> doubles;
  std::span<std::byte> bytes;
  std::span<const std::byte> bytes_to_send;  // send
  int peer = 0;                              // root, destination or source
};

// An operation in progress. Copies refer to the same operation.
class Pending {
 public:
  class State;
  Pending() = default;  // complete, with status ok
  explicit Pending(std::shared_ptr<State> state) : state_(std::move(state)) {}

  CommStatus wait() const;
  bool done() const;
  OpTimes times() const;  // valid once done

 private:
  std::shared_ptr<State> state_;
};

// Totals over operations of one kind.
struct CommCounter {
  uint64_t operations = 0;
  uint64_t bytes_sent = 0;  // payload; the transport adds headers of less than 0.1%
  uint64_t bytes_received = 0;
  uint64_t inter_node_bytes = 0;  // the share of bytes_sent that leaves this machine
  double seconds = 0;             // from begin to end, including the wait for other ranks
};
using CommCounters = std::array<CommCounter, kOpKinds>;

// Called on the group's thread after each operation, with the bytes that it sent.
using OpWatcher = std::function<void(const Operation&, const OpTimes&, uint64_t sent)>;

// Elements [begin, end) of a vector that one rank sums or owns.
struct ChunkRange {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
};
// Equal chunks of whole blocks (block_format.h); the last ones are shorter, or empty.
ChunkRange chunk_of(size_t count, int rank, int size);

class Group {
 public:
  Group(int rank, int size, int64_t epoch) : rank_(rank), size_(size), epoch_(epoch) {}
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int64_t epoch() const { return epoch_; }  // of the membership that formed this group

  // `data` becomes the sum over all ranks. Error feedback: the last residual is added to this
  // rank's addend; the next one becomes the rounding errors of that addend and of the sums that
  // this rank computed.
  Pending all_reduce(std::span<float> data, Wire wire = Wire::kFp32, ErrorFeedback feedback = {});
  // Each rank contributes its chunk_of `data` and receives all other chunks. A rank's own chunk is
  // rounded to `wire`, too, so that all ranks hold the same bits.
  Pending all_gather(std::span<float> data, Wire wire = Wire::kFp32);
  Pending broadcast(std::span<std::byte> data, int root);
  Pending send(std::span<const std::byte> data, int to);
  Pending receive(std::span<std::byte> data, int from);
  Pending barrier();
  // For a few values that all ranks must agree on: sums of losses, counts, a NaN on any rank.
  Pending sum(std::span<double> values);

  // Ends the group now: pending and later operations return `why`. Idempotent; any thread.
  virtual void close(CommStatus why = CommStatus::closed("")) = 0;
  virtual void drain() {}  // waits until no operation uses its caller's memory
  // Ends the group in order: waits for pending operations and for all other ranks to leave.
  virtual CommStatus leave() = 0;
  virtual CommStatus status() const = 0;  // ok while the group is usable
  virtual CommCounters counters() const = 0;
  // Replaces the watcher; an empty one unsubscribes, and no call is in flight once this returns.
  // The single-process group never calls it.
  virtual void watch(OpWatcher) {}

 protected:
  virtual Pending start(Operation operation) = 0;

 private:
  int rank_;
  int size_;
  int64_t epoch_;
};

// The state behind a Pending; for implementations of Group.
class Pending::State {
 public:
  State();
  ~State();
  void begin();
  void finish(CommStatus status);
  CommStatus wait();
  bool done();
  OpTimes times();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reigen
