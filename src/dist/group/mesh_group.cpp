#include "dist/group/mesh_group.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "dist/group/mesh_sum.h"
#include "dist/group/queued_group.h"
#include "dist/group/transfer.h"

namespace reigen {
namespace {

constexpr std::chrono::milliseconds kLeaveWithin{10'000};
constexpr size_t kSliceBytes = size_t{1} << 20;
constexpr size_t kMostSlices = 8;

RankSet rank_set(std::vector<int> ranks, int own) {
  const auto at = std::find(ranks.begin(), ranks.end(), own);
  const auto index = static_cast<size_t>(at - ranks.begin());
  return {.ranks = std::move(ranks), .own = index};
}

// By rank: whether it is on a different machine. Without machine names, all ranks are on one.
std::vector<bool> inter_node_ranks(const MeshOptions& options) {
  std::vector<bool> other(static_cast<size_t>(options.forming.size));
  if (options.machines.size() != other.size()) return other;
  const std::string& own = options.machines[static_cast<size_t>(options.forming.rank)];
  for (size_t r = 0; r < other.size(); ++r) other[r] = options.machines[r] != own;
  return other;
}

// A rank rounds only its own chunk between machines: the residual of all other elements stays.
void retain_other_residuals(const ErrorFeedback& feedback, const ChunkRange& own) {
  if (feedback.last.data() == feedback.next.data()) return;
  const auto from = [&](size_t at) { return feedback.last.begin() + static_cast<ptrdiff_t>(at); };
  std::copy(from(0), from(own.begin), feedback.next.begin());
  std::copy(from(own.end), feedback.last.end(),
            feedback.next.begin() + static_cast<ptrdiff_t>(own.end));
}

class MeshGroup : public QueuedGroup {
 public:
  MeshGroup(const MeshOptions& options, int64_t epoch)
      : QueuedGroup(options.forming.rank, options.forming.size, epoch),
        mesh_(options),
        transfers_(mesh_, inter_node_ranks(options)) {
    std::vector<int> ranks(static_cast<size_t>(size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    all_ = rank_set(std::move(ranks), rank());
    memory_.slices.resize(1);
    if (options.machines.size() == all_.size()) find_machines(options.machines);
  }

  ~MeshGroup() override {
    mesh_.fail(CommStatus::closed(""));
    stop_queue();
  }

  void close(CommStatus why) override {
    end(why);
    mesh_.fail(why);
  }

  CommStatus status() const override {
    const CommStatus ended = QueuedGroup::status();
    return ended.ok() ? mesh_.status() : ended;
  }

  int encrypted_peers() const { return mesh_.encrypted_peers(); }

  CommStatus leave() override {
    drain();
    if (CommStatus before = status(); !before.ok()) return before;
    CommStatus left = mesh_.leave(kLeaveWithin);
    close(CommStatus::closed("left"));
    return left;
  }

 protected:
  void carry_out(const Operation& operation, CommCounter& counter) override;

 private:
  void find_machines(const std::vector<std::string>& names);
  void run_sum(const Operation& o, MeshSum::Stages stages);
  void all_reduce_by_machines(const Operation& o);
  void run_broadcast(std::span<std::byte> data, int root);
  void forward_broadcast(std::span<std::byte> data, int root);
  std::span<std::byte> byte_chunk(std::span<std::byte> data, size_t index) const;
  void run_send(const Operation& o);
  void run_receive(const Operation& o);
  void run_sum_doubles(std::span<double> values);

  Mesh mesh_;
  TransferMaker transfers_;
  RankSet all_;
  RankSet on_machine_;       // ranks of this machine; empty unless all machines have as many
  RankSet across_machines_;  // one rank of each machine: those with this rank's index on it
  SumMemory memory_;
};

void MeshGroup::find_machines(const std::vector<std::string>& names) {
  std::map<std::string, std::vector<int>> machines;
  for (size_t r = 0; r < names.size(); ++r) machines[names[r]].push_back(static_cast<int>(r));
  const std::vector<int>& here = machines[names[all_.own]];
  const bool even = std::all_of(machines.begin(), machines.end(),
                                [&](const auto& m) { return m.second.size() == here.size(); });
  if (!even || machines.size() < 2 || here.size() < 2) return;
  on_machine_ = rank_set(here, rank());
  std::vector<int> same_index;
  same_index.reserve(machines.size());
  for (const auto& [name, ranks] : machines) same_index.push_back(ranks[on_machine_.own]);
  std::sort(same_index.begin(), same_index.end());
  across_machines_ = rank_set(std::move(same_index), rank());
}

void MeshGroup::carry_out(const Operation& operation, CommCounter& counter) {
  transfers_.begin(operation, counter);
  switch (operation.kind) {
    case OpKind::kAllReduce:
      if (on_machine_.size() > 0) return all_reduce_by_machines(operation);
      return run_sum(operation, {.add = true, .share = true});
    case OpKind::kAllGather:
      return run_sum(operation, {.add = false, .share = true});
    case OpKind::kBroadcast:
      return run_broadcast(operation.bytes, operation.peer);
    case OpKind::kSend:
      return run_send(operation);
    case OpKind::kReceive:
      return run_receive(operation);
    case OpKind::kBarrier: {
      double nothing = 0;
      return run_sum_doubles({&nothing, 1});
    }
    case OpKind::kSumDoubles:
      return run_sum_doubles(operation.doubles);
  }
}

void MeshGroup::run_sum(const Operation& o, MeshSum::Stages stages) {
  MeshSum(transfers_, all_, o.floats, o.wire, stages, memory_, 0, o.feedback).run_all();
}

// The ranks of a machine sum among themselves, a chunk by each rank; those chunks are summed
// between machines and then shared on each machine. Between two machines the data crosses once each
// way for any number of ranks; a flat sum would send it once for each rank of a machine. The data
// is cut into slices: one crosses while the next is summed and the last one is shared.
void MeshGroup::all_reduce_by_machines(const Operation& o) {
  const std::span<float> data = o.floats;
  const size_t slices = std::clamp<size_t>(data.size_bytes() / kSliceBytes, 1, kMostSlices);
  if (memory_.slices.size() < slices) memory_.slices.resize(slices);
  const auto slice_of = [&](auto all, size_t i) {
    if (all.empty()) return all;
    const ChunkRange range = chunk_of(all.size(), static_cast<int>(i), static_cast<int>(slices));
    return all.subspan(range.begin, range.size());
  };
  std::vector<std::unique_ptr<MeshSum>> crossing(slices);
  const auto start = [&](size_t i) {
    MeshSum here(transfers_, on_machine_, slice_of(data, i), Wire::kFp32,
                 {.add = true, .share = false}, memory_, i);
    here.run_all();
    const ChunkRange own = here.chunk(on_machine_.own);
    const auto own_of = [&](auto slice) {
      return slice.empty() ? slice : slice.subspan(own.begin, own.size());
    };
    const ErrorFeedback feedback = {slice_of(o.feedback.last, i), slice_of(o.feedback.next, i)};
    retain_other_residuals(feedback, own);
    crossing[i] = std::make_unique<MeshSum>(
        transfers_, across_machines_, own_of(slice_of(data, i)), o.wire, MeshSum::Stages{}, memory_,
        i, ErrorFeedback{own_of(feedback.last), own_of(feedback.next)});
    crossing[i]->begin();
  };
  const auto finish = [&](size_t i) {
    crossing[i]->end();
    MeshSum(transfers_, on_machine_, slice_of(data, i), Wire::kFp32, {.add = false, .share = true},
            memory_, i)
        .run_all();
  };
  start(0);
  for (size_t i = 0; i < slices; ++i) {
    if (i + 1 < slices) start(i + 1);
    crossing[i]->add();
    if (i > 0) finish(i - 1);
  }
  finish(slices - 1);
}

std::span<std::byte> MeshGroup::byte_chunk(std::span<std::byte> data, size_t index) const {
  const ChunkRange range = chunk_of(data.size(), static_cast<int>(index), size());
  return data.subspan(range.begin, range.size());
}

// The root sends every rank a chunk, and each forwards its own to the others: the root's link
// carries the data at most twice, instead of once for each rank.
void MeshGroup::run_broadcast(std::span<std::byte> data, int root) {
  if (rank() != root) return forward_broadcast(data, root);
  Transfers sent;
  all_.for_peers([&](size_t peer) {
    const std::span<std::byte> chunk = byte_chunk(data, peer);
    sent.push_back(transfers_.outgoing(0, TransferPhase::kData, chunk.data(), chunk.size()));
    transfers_.send_all(sent.back(), static_cast<int>(peer));
  });
  const std::span<std::byte> own = byte_chunk(data, all_.own);
  sent.push_back(transfers_.outgoing(0, TransferPhase::kForward, own.data(), own.size()));
  all_.for_peers([&](size_t peer) { transfers_.send_all(sent.back(), static_cast<int>(peer)); });
  for (Transfer& transfer : sent) transfer.wait_sent();
}

void MeshGroup::forward_broadcast(std::span<std::byte> data, int root) {
  const std::span<std::byte> own = byte_chunk(data, all_.own);
  Transfer mine = transfers_.incoming(root, 0, TransferPhase::kData, own.data(), own.size());
  Transfers others;
  all_.for_peers([&](size_t peer) {
    const std::span<std::byte> chunk = byte_chunk(data, peer);
    others.push_back(transfers_.incoming(static_cast<int>(peer), 0, TransferPhase::kForward,
                                         chunk.data(), chunk.size()));
  });
  Transfer forwarded = transfers_.outgoing(0, TransferPhase::kForward, own.data(), own.size());
  for (size_t segment = 0; segment < mine.segments(); ++segment) {
    mine.buffer->wait_received();
    all_.for_peers([&](size_t peer) {
      const int to = static_cast<int>(peer);
      if (to != root) transfers_.send_segment(forwarded, to, segment);
    });
  }
  for (Transfer& transfer : others) transfer.wait_received();
  forwarded.wait_sent();
}

void MeshGroup::run_send(const Operation& o) {
  Transfer transfer =
      transfers_.outgoing(0, TransferPhase::kData, o.bytes_to_send.data(), o.bytes_to_send.size());
  transfers_.send_all(transfer, o.peer);
  transfer.wait_sent();
}

void MeshGroup::run_receive(const Operation& o) {
  transfers_.incoming(o.peer, 0, TransferPhase::kData, o.bytes.data(), o.bytes.size())
      .wait_received();
}

// Every rank receives all values and adds them in the order of ranks.
void MeshGroup::run_sum_doubles(std::span<double> values) {
  const size_t bytes = values.size_bytes();
  std::vector<double> all(values.size() * all_.size());
  const auto place = [&](size_t rank) { return all.data() + rank * values.size(); };
  Transfers received;
  all_.for_peers([&](size_t peer) {
    received.push_back(transfers_.incoming(static_cast<int>(peer), 0, TransferPhase::kData,
                                           reinterpret_cast<std::byte*>(place(peer)), bytes));
  });
  Transfer own = transfers_.outgoing(0, TransferPhase::kData,
                                     reinterpret_cast<const std::byte*>(values.data()), bytes);
  all_.for_peers([&](size_t peer) { transfers_.send_all(own, static_cast<int>(peer)); });
  for (Transfer& transfer : received) transfer.wait_received();
  own.wait_sent();
  std::copy(values.begin(), values.end(), place(all_.own));
  std::fill(values.begin(), values.end(), 0.0);
  for (size_t rank = 0; rank < all_.size(); ++rank) {
    for (size_t i = 0; i < values.size(); ++i) values[i] += place(rank)[i];
  }
}

}  // namespace

std::unique_ptr<Group> make_mesh_group(const MeshOptions& options, int64_t epoch, int& encrypted) {
  auto group = std::make_unique<MeshGroup>(options, epoch);
  encrypted = group->encrypted_peers();
  return group;
}

}  // namespace reigen
