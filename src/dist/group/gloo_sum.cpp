#include "dist/group/gloo_sum.h"

#include <algorithm>

#include "dist/group/block_format.h"

namespace reigen {
namespace {

void add_to(std::span<const float> values, std::span<float> sum) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
}

}  // namespace

GlooExchange::Sum::Sum(GlooExchange& exchange, const Circle& circle, std::span<float> data,
                       Wire wire, Steps steps, Scratch& scratch, std::span<float> unsent)
    : x_(exchange),
      circle_(circle),
      data_(data),
      unsent_(unsent),
      wire_(wire),
      piece_(kPieceBytes / wire_bytes(wire, kBlockValues) * kBlockValues),
      steps_(steps),
      scratch_(scratch),
      round_(exchange.rounds_++),
      parts_in_(circle.size()),
      parts_out_(circle.size()),
      sums_(circle.size()) {}

void GlooExchange::Sum::expect_parts() {
  const size_t own_bytes = chunk_bytes(circle_.own);
  grow(scratch_.parts_in, (circle_.size() - 1) * own_bytes);
  circle_.for_peers([&](size_t peer) {
    parts_in_[peer] = x_.incoming(circle_.ranks[peer], round_, kParts, part_place(peer), own_bytes,
                                  piece_bytes());
  });
}

void GlooExchange::Sum::expect_sums() {
  circle_.for_peers([&](size_t peer) {
    sums_[peer] = x_.incoming(circle_.ranks[peer], round_, kSums, sum_place(peer),
                              chunk_bytes(peer), piece_bytes());
  });
}

// Every other chunk to its owner, in turn, so that all of them can begin to add.
void GlooExchange::Sum::send_parts() {
  const bool as_it_is = wire_ == Wire::kFp32;
  if (!as_it_is) grow(scratch_.parts_out, wire_bytes(wire_, data_.size()));
  const auto* from =
      as_it_is ? reinterpret_cast<const std::byte*>(data_.data()) : scratch_.parts_out.data();
  circle_.for_peers([&](size_t peer) {
    parts_out_[peer] = x_.outgoing(round_, kParts, from + wire_bytes(wire_, chunk(peer).begin),
                                   chunk_bytes(peer), piece_bytes());
  });
  const size_t most = (chunk(0).size() + piece_ - 1) / piece_;
  for (size_t piece = 0; piece < most; ++piece) {
    circle_.for_peers([&](size_t peer) {
      Range& range = parts_out_[peer];
      if (piece >= range.pieces()) return;
      if (!as_it_is) {
        const size_t begin = chunk(peer).begin + piece * piece_;
        const size_t count = piece_size(peer, piece);
        if (!unsent_.empty()) {
          add_to(unsent_.subspan(begin, count), data_.subspan(begin, count));
        }
        round(begin, count, scratch_.parts_out.data() + wire_bytes(wire_, begin), false);
      }
      x_.send_piece(range, circle_.ranks[peer], piece);
    });
  }
}

// Elements [begin, begin + count) of the own chunk become the sum of all parts, in the order of
// ranks.
void GlooExchange::Sum::add_parts(size_t begin, size_t count) {
  const size_t at = chunk(circle_.own).begin + begin;
  const std::span<float> own = data_.subspan(at, count);
  if (!unsent_.empty()) add_to(unsent_.subspan(at, count), own);
  grow(x_.sum_, count);
  const std::span<float> sum(x_.sum_.data(), count);
  for (size_t from = 0; from < circle_.size(); ++from) {
    if (from == circle_.own) {
      if (from == 0) std::copy(own.begin(), own.end(), sum.begin());
      if (from > 0) add_to(own, sum);
      continue;
    }
    const std::byte* part = part_place(from) + wire_bytes(wire_, begin);
    if (from == 0) from_wire(wire_, part, sum);
    if (from > 0) add_from_wire(wire_, part, sum);
  }
  std::copy(sum.begin(), sum.end(), own.begin());
}

void GlooExchange::Sum::round(size_t begin, size_t count, std::byte* out, bool keep_rounded) {
  const std::span<float> values = data_.subspan(begin, count);
  to_wire(wire_, values, out);
  if (unsent_.empty()) {
    if (keep_rounded) from_wire(wire_, out, values);
    return;
  }
  grow(x_.back_, count);
  const std::span<float> back(x_.back_.data(), count);
  from_wire(wire_, out, back);
  const std::span<float> lost = unsent_.subspan(begin, count);
  for (size_t i = 0; i < count; ++i) lost[i] = values[i] - back[i];
  if (keep_rounded) std::copy(back.begin(), back.end(), values.begin());
}

// Sends a piece of the own chunk to everybody, and keeps what they will have.
void GlooExchange::Sum::send_own(size_t piece) {
  if (wire_ != Wire::kFp32) {
    const size_t begin = piece * piece_;
    round(chunk(circle_.own).begin + begin, piece_size(circle_.own, piece),
          sum_place(circle_.own) + wire_bytes(wire_, begin), true);
  }
  circle_.for_peers([&](size_t peer) { x_.send_piece(own_, circle_.ranks[peer], piece); });
}

void GlooExchange::Sum::collect_sums() {
  circle_.for_peers([&](size_t peer) {
    receive_all(sums_[peer]);
    if (wire_ == Wire::kFp32) return;
    const ChunkRange range = chunk(peer);
    from_wire(wire_, sum_place(peer), data_.subspan(range.begin, range.size()));
  });
}

}  // namespace reigen
