// Workers that compute together: the operations between them, whoever carries the bytes.
//
// Operations are asynchronous and run one after another on the group's own thread, in the order
// they were started; all ranks must start the same ones in the same order. Memory handed to an
// operation belongs to it until its wait() returns. Every rank ends with the same bits, and they do
// not depend on who was fast: a sum is taken by one rank, in the order of ranks, in fp32 (or
// double). An operation that fails closes the whole group, so that nobody waits; a new one is then
// formed.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dist/group/comm_status.h"

namespace reigen {

// How floats travel. Reduced ones are rounded when they are sent and added in fp32, so a sum is
// rounded twice however many ranks there are: what each gives another, and what all receive.
// int8 and int4 (block_format.h) lose more, and are for sums whose caller keeps what they lose.
enum class Wire : uint8_t { kFp32, kBf16, kFp16, kInt8, kInt4 };

enum class OpKind : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kSend,
  kReceive,
  kBarrier,
  kSumDoubles,
};
inline constexpr size_t kOpKinds = 9;
const char* name_of(OpKind kind);

using CommClock = std::chrono::steady_clock;

struct OpTimes {
  CommClock::time_point started;  // handed to the group
  CommClock::time_point begin;    // its turn came
  CommClock::time_point end;
};

// What an operation was asked to do; the fields each kind uses are those of its Group method.
struct Operation {
  OpKind kind = OpKind::kBarrier;
  Wire wire = Wire::kFp32;
  std::span<float> floats;
  std::span<float> unsent;  // all_reduce
  std::span<double> doubles;
  std::span<std::byte> bytes;
  std::span<const float> to_send;            // all_to_all
  std::span<const std::byte> bytes_to_send;  // send
  std::vector<size_t> send_counts;
  std::vector<size_t> receive_counts;
  int peer = 0;  // root, destination or source
};

// An operation under way. Copies speak of the same one.
class Pending {
 public:
  class State;
  Pending() = default;  // done, and ok
  explicit Pending(std::shared_ptr<State> state) : state_(std::move(state)) {}

  CommStatus wait() const;
  bool done() const;
  OpTimes times() const;  // of one that is done

 private:
  std::shared_ptr<State> state_;
};

struct CommCounter {
  uint64_t operations = 0;
  uint64_t bytes_sent = 0;  // payload; the transport's own headers are below 0.1% at 256 KB a piece
  uint64_t bytes_received = 0;
  uint64_t bytes_sent_away = 0;  // of those sent, to other machines
  double seconds = 0;  // from the operation's turn to its end, waiting for others included
};
using CommCounters = std::array<CommCounter, kOpKinds>;

// Is told of every operation when it has ended, on the group's own thread, with the bytes it sent.
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
  int64_t epoch() const { return epoch_; }  // which forming of the group this is

  // `data` becomes the sum over all ranks. `unsent`, as long as the data or empty, is added to what
  // this rank gives, and then holds what rounding lost of it and of the sums this rank takes.
  Pending all_reduce(std::span<float> data, Wire wire = Wire::kFp32, std::span<float> unsent = {});
  // The caller's chunk_of `data` becomes the sum over all ranks, in fp32; the rest stays.
  Pending reduce_scatter(std::span<float> data, Wire wire = Wire::kFp32);
  // Each rank gives its chunk_of `data` and gets all others'. Rounded to `wire` also where it is
  // from, so that all ranks hold the same.
  Pending all_gather(std::span<float> data, Wire wire = Wire::kFp32);
  // `to_send` holds what is for rank 0, then for rank 1 and so on; `received` likewise by sender.
  // Counts are in elements, one for each rank; what a rank gives itself is copied.
  Pending all_to_all(std::span<const float> to_send, std::vector<size_t> send_counts,
                     std::span<float> received, std::vector<size_t> receive_counts,
                     Wire wire = Wire::kFp32);
  Pending broadcast(std::span<std::byte> data, int root);
  Pending send(std::span<const std::byte> data, int to);
  Pending receive(std::span<std::byte> data, int from);
  Pending barrier();
  // For a few values that all must agree on: sums of losses, counts, whether anyone saw a NaN.
  Pending sum(std::span<double> values);

  // Ends the group now: operations under way and all later ones give `why`. Idempotent; any thread.
  virtual void close(CommStatus why = CommStatus::closed("")) = 0;
  virtual void drain() {}  // returns when no operation uses anybody's memory any more
  // Ends it in peace: waits for what was started, and until all others leave too.
  virtual CommStatus leave() = 0;
  virtual CommStatus status() const = 0;  // ok while it is usable
  virtual CommCounters counters() const = 0;
  // Nobody is told any more once this returns for an empty one. Groups that carry nothing tell of
  // nothing.
  virtual void watch(OpWatcher) {}

 protected:
  virtual Pending start(Operation operation) = 0;

 private:
  int rank_;
  int size_;
  int64_t epoch_;
};

// What a Pending points to; for implementations of Group.
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
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace reigen
