// A sum of floats over several ranks: all-reduce, or its second half, all-gather.
#pragma once

#include <span>
#include <vector>

#include "dist/group/group.h"
#include "dist/group/transfer.h"

namespace reigen {

// Ranks that sum together, in ascending order, and this rank's index among them.
struct RankSet {
  std::vector<int> ranks;
  size_t own = 0;
  size_t size() const { return ranks.size(); }

  // Calls `each` with the index of every other rank, beginning with the one after this rank.
  template <class Each>
  void for_peers(Each each) const {
    for (size_t distance = 1; distance < size(); ++distance) each((own + distance) % size());
  }
};

// Buffers reused by all sums; they grow to the largest.
struct SumMemory {
  struct Slice {
    std::vector<std::byte> addends_in;   // other ranks' addends for the own chunk, by index
    std::vector<std::byte> addends_out;  // addends for all other chunks, encoded; not for fp32
    std::vector<std::byte> sums;         // the sums of all chunks, encoded; not for fp32
  };
  std::vector<Slice> slices;  // one for each sum in progress
  std::vector<float> total;   // of one segment
  std::vector<float> rounded;
};

// One sum within a set of ranks, in three stages, so that several can be in progress at once: each
// chunk is summed by its owner (`add`) and then sent to all ranks of the set (`share`).
class MeshSum {
 public:
  struct Stages {
    bool add = true;
    bool share = true;
  };

  // `slice` of the memory belongs to this sum until end(). `feedback` as in Group::all_reduce.
  MeshSum(TransferMaker& transfers, const RankSet& set, std::span<float> data, Wire wire,
          Stages stages, SumMemory& memory, size_t slice, ErrorFeedback feedback = {});

  void begin();  // sends the addends; waits for nothing
  void add();    // sums the own chunk, segment by segment as addends arrive, and sends the sum
  void end();    // waits for the other ranks' sums and for everything sent
  void run_all() {
    begin();
    add();
    end();
  }

  ChunkRange chunk(size_t index) const {
    return chunk_of(data_.size(), static_cast<int>(index), static_cast<int>(set_.size()));
  }

 private:
  void receive_addends();
  void receive_sums();
  void send_addends();
  void add_segment(size_t begin, size_t count);
  void send_own(size_t segment);
  void collect_sums();

  size_t chunk_bytes(size_t index) const;
  size_t segment_bytes() const;
  size_t segment_values(size_t index, size_t segment) const {
    return std::min(segment_, chunk(index).size() - segment * segment_);
  }
  // Encodes values; the next residual, if there is one, becomes their rounding error. With
  // `replace_values` the values become those that the receivers decode.
  void encode(size_t begin, size_t count, std::byte* out, bool replace_values);

  std::byte* addend_place(size_t from);
  std::byte* sum_place(size_t index);

  TransferMaker& transfers_;
  const RankSet& set_;
  std::span<float> data_;
  ErrorFeedback feedback_;
  Wire wire_;
  size_t segment_;  // values of one message
  Stages stages_;
  SumMemory& memory_;
  SumMemory::Slice& slice_;
  int round_;
  Transfers addends_in_;  // by index in the set
  Transfers addends_out_;
  Transfers sums_;
  Transfer own_;
};

}  // namespace reigen
