// A sum of floats over several ranks: the larger part of what GlooExchange does.
#pragma once

#include "dist/group/gloo_exchange.h"
#include "dist/group/wire_format.h"

namespace reigen {

// One sum within a circle, in steps, so that several can be under way at once: each chunk is added
// up by its owner (unless it is already) and then known to all (unless the owner is enough).
class GlooExchange::Sum {
 public:
  struct Steps {
    bool add = true;
    bool share = true;
  };

  // `unsent` is as in Group::all_reduce.
  Sum(GlooExchange& exchange, const Circle& circle, std::span<float> data, Wire wire, Steps steps,
      Scratch& scratch, std::span<float> unsent = {});

  // Parts leave; nothing is waited for.
  void begin() {
    if (wire_ != Wire::kFp32) grow(scratch_.sums, wire_bytes(wire_, data_.size()));
    if (steps_.add) expect_parts();
    if (steps_.share) expect_sums();
    if (steps_.add) send_parts();
    own_ =
        x_.outgoing(round_, kSums, sum_place(circle_.own), chunk_bytes(circle_.own), piece_bytes());
  }

  // The own chunk is added up, piece by piece as parts arrive, and leaves.
  void add() {
    for (size_t piece = 0; piece < own_.pieces(); ++piece) {
      if (steps_.add) {
        circle_.for_peers([&](size_t peer) { parts_in_[peer].buffer->wait_received(); });
        add_parts(piece * piece_, piece_size(circle_.own, piece));
      }
      if (steps_.share) send_own(piece);
    }
  }

  // Everybody's sums have come, and everything has left.
  void end() {
    if (steps_.share) collect_sums();
    settle(own_);
    for (Range& range : parts_out_) settle(range);
  }

  void whole() {
    begin();
    add();
    end();
  }

  ChunkRange chunk(size_t place) const {
    return chunk_of(data_.size(), static_cast<int>(place), static_cast<int>(circle_.size()));
  }

 private:
  void expect_parts();
  void expect_sums();
  void send_parts();
  void add_parts(size_t begin, size_t count);
  void send_own(size_t piece);
  void collect_sums();

  size_t chunk_bytes(size_t place) const { return wire_bytes(wire_, chunk(place).size()); }
  size_t piece_bytes() const { return wire_bytes(wire_, piece_); }
  size_t piece_size(size_t place, size_t piece) const {
    return std::min(piece_, chunk(place).size() - piece * piece_);
  }
  // Values as they travel; what that loses is kept where it can be.
  void round(size_t begin, size_t count, std::byte* out, bool keep_rounded);

  std::byte* part_place(size_t from) {
    const size_t place = from < circle_.own ? from : from - 1;
    return scratch_.parts_in.data() + place * chunk_bytes(circle_.own);
  }

  // Where a chunk's sum is while it travels: fp32 needs no place beside the data.
  std::byte* sum_place(size_t place) {
    return wire_ == Wire::kFp32 ? reinterpret_cast<std::byte*>(data_.data() + chunk(place).begin)
                                : scratch_.sums.data() + wire_bytes(wire_, chunk(place).begin);
  }

  GlooExchange& x_;
  const Circle& circle_;
  std::span<float> data_;
  std::span<float> unsent_;
  Wire wire_;
  size_t piece_;  // values that travel at once
  Steps steps_;
  Scratch& scratch_;
  int round_;
  Ranges parts_in_;  // by place in the circle
  Ranges parts_out_;
  Ranges sums_;
  Range own_;
};

}  // namespace reigen
