#include "dist/gloo_exchange.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/hash.h"
#include "dist/wire_format.h"

namespace reigen {
namespace {

enum Phase : int { kParts, kSums, kForward };

template <class T>
void grow(std::vector<T>& buffer, size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

}  // namespace

size_t GlooExchange::Range::piece_bytes(size_t piece) const {
  return std::min(kPieceBytes, bytes - piece * kPieceBytes);
}

size_t GlooExchange::unit() const { return wire_bytes(operation_->wire); }

void GlooExchange::carry_out(const Operation& operation, CommCounter& counter) {
  operation_ = &operation;
  counter_ = &counter;
  const bool between_two = operation.kind == OpKind::kSend || operation.kind == OpKind::kReceive;
  // Ranks that disagree on what is to be done never meet: better a wait than a size that does not
  // fit, at which Gloo would end the process.
  const uint64_t what[] = {between_two ? 0 : ++sequence_,
                           between_two ? 0 : static_cast<uint64_t>(operation.kind),
                           static_cast<uint64_t>(operation.wire)};
  slot_ = xxh3(what, sizeof what);
  switch (operation.kind) {
    case OpKind::kAllReduce:
      return reduce(true);
    case OpKind::kReduceScatter:
      return reduce(false);
    case OpKind::kAllGather:
      return all_gather();
    case OpKind::kAllToAll:
      return all_to_all();
    case OpKind::kBroadcast:
      return broadcast();
    case OpKind::kSend:
      return send();
    case OpKind::kReceive:
      return receive();
    case OpKind::kBarrier:
    case OpKind::kSumDoubles:
      return sum_doubles();
  }
}

GlooExchange::Range GlooExchange::outgoing(int phase, const std::byte* from, size_t bytes) {
  Range range;
  range.bytes = bytes;
  const uint64_t what[] = {slot_, static_cast<uint64_t>(phase), bytes};
  constexpr uint64_t kNotTheMeshs = 16;
  range.slot = xxh3(what, sizeof what) | kNotTheMeshs;
  if (bytes > 0) range.buffer = mesh_.buffer(std::span<const std::byte>(from, bytes));
  return range;
}

GlooExchange::Range GlooExchange::incoming(int from, int phase, std::byte* to, size_t bytes) {
  Range range = outgoing(phase, to, bytes);
  for (size_t piece = 0; piece < range.pieces(); ++piece) {
    range.buffer->receive(from, range.slot, piece * kPieceBytes, range.piece_bytes(piece));
  }
  counter_->bytes_received += bytes;
  return range;
}

void GlooExchange::send_piece(Range& range, int to, size_t piece) {
  range.buffer->send(to, range.slot, piece * kPieceBytes, range.piece_bytes(piece));
  ++range.sent;
  counter_->bytes_sent += range.piece_bytes(piece);
}

void GlooExchange::receive_all(Range& range) {
  for (size_t piece = 0; piece < range.pieces(); ++piece) range.buffer->wait_received();
}

void GlooExchange::settle(Range& range) {
  for (; range.sent > 0; --range.sent) range.buffer->wait_sent();
}

std::byte* GlooExchange::part_place(int from) {
  const int place = from < rank_ ? from : from - 1;
  return parts_in_.data() + static_cast<size_t>(place) * chunk_bytes(rank_);
}

// Where a chunk's sum is while it travels: fp32 needs no place beside the data.
std::byte* GlooExchange::sum_place(int rank) {
  return operation_->wire == Wire::kFp32
             ? reinterpret_cast<std::byte*>(operation_->floats.data() + chunk(rank).begin)
             : sums_.data() + chunk(rank).begin * unit();
}

void GlooExchange::reduce(bool share) {
  grow(parts_in_, static_cast<size_t>(size_ - 1) * chunk_bytes(rank_));
  std::vector<Range> parts_in(static_cast<size_t>(size_));
  for_peers([&](int peer) {
    parts_in[static_cast<size_t>(peer)] =
        incoming(peer, kParts, part_place(peer), chunk_bytes(rank_));
  });
  std::vector<Range> sums = share ? expect_sums() : std::vector<Range>();
  std::vector<Range> parts_out(static_cast<size_t>(size_));
  send_parts(parts_out);

  Range own = outgoing(kSums, sum_place(rank_), chunk_bytes(rank_));
  for (size_t piece = 0; piece < own.pieces(); ++piece) {
    for_peers([&](int peer) { parts_in[static_cast<size_t>(peer)].buffer->wait_received(); });
    add_parts(piece * kPieceBytes / unit(), own.piece_bytes(piece) / unit());
    if (share) send_own(own, piece);
  }
  if (share) collect_sums(sums);
  settle(own);
  for (Range& range : parts_out) settle(range);
}

// Every other chunk to its owner, in turn, so that all of them can begin to add.
void GlooExchange::send_parts(std::vector<Range>& parts) {
  const std::span<float> data = operation_->floats;
  const bool as_it_is = operation_->wire == Wire::kFp32;
  if (!as_it_is) grow(parts_out_, data.size() * unit());
  const auto* from = as_it_is ? reinterpret_cast<const std::byte*>(data.data()) : parts_out_.data();
  for_peers([&](int peer) {
    parts[static_cast<size_t>(peer)] =
        outgoing(kParts, from + chunk(peer).begin * unit(), chunk_bytes(peer));
  });
  const size_t most = (chunk_bytes(0) + kPieceBytes - 1) / kPieceBytes;
  for (size_t piece = 0; piece < most; ++piece) {
    for_peers([&](int peer) {
      Range& range = parts[static_cast<size_t>(peer)];
      if (piece >= range.pieces()) return;
      if (!as_it_is) {
        const size_t begin = chunk(peer).begin + piece * kPieceBytes / unit();
        to_wire(operation_->wire, data.subspan(begin, range.piece_bytes(piece) / unit()),
                parts_out_.data() + begin * unit());
      }
      send_piece(range, peer, piece);
    });
  }
}

// Elements [begin, begin + count) of the own chunk become the sum of all ranks' parts.
void GlooExchange::add_parts(size_t begin, size_t count) {
  const std::span<float> own = operation_->floats.subspan(chunk(rank_).begin + begin, count);
  grow(sum_, count);
  const std::span<float> sum(sum_.data(), count);
  for (int from = 0; from < size_; ++from) {
    if (from == rank_) {
      if (from == 0) std::copy(own.begin(), own.end(), sum.begin());
      if (from > 0) {
        for (size_t i = 0; i < count; ++i) sum[i] += own[i];
      }
      continue;
    }
    const std::byte* part = part_place(from) + begin * unit();
    if (from == 0) from_wire(operation_->wire, part, sum);
    if (from > 0) add_from_wire(operation_->wire, part, sum);
  }
  std::copy(sum.begin(), sum.end(), own.begin());
}

// Sends a piece of the own chunk to everybody, and keeps what they will have.
void GlooExchange::send_own(Range& own, size_t piece) {
  if (operation_->wire != Wire::kFp32) {
    const size_t begin = piece * kPieceBytes / unit();
    const std::span<float> values =
        operation_->floats.subspan(chunk(rank_).begin + begin, own.piece_bytes(piece) / unit());
    std::byte* place = sum_place(rank_) + begin * unit();
    to_wire(operation_->wire, values, place);
    from_wire(operation_->wire, place, values);
  }
  for_peers([&](int peer) { send_piece(own, peer, piece); });
}

std::vector<GlooExchange::Range> GlooExchange::expect_sums() {
  if (operation_->wire != Wire::kFp32) grow(sums_, operation_->floats.size() * unit());
  std::vector<Range> sums(static_cast<size_t>(size_));
  for_peers([&](int peer) {
    sums[static_cast<size_t>(peer)] = incoming(peer, kSums, sum_place(peer), chunk_bytes(peer));
  });
  return sums;
}

void GlooExchange::collect_sums(std::vector<Range>& sums) {
  for_peers([&](int peer) {
    receive_all(sums[static_cast<size_t>(peer)]);
    if (operation_->wire == Wire::kFp32) return;
    const ChunkRange range = chunk(peer);
    from_wire(operation_->wire, sum_place(peer),
              operation_->floats.subspan(range.begin, range.size()));
  });
}

void GlooExchange::all_gather() {
  std::vector<Range> sums = expect_sums();
  Range own = outgoing(kSums, sum_place(rank_), chunk_bytes(rank_));
  for (size_t piece = 0; piece < own.pieces(); ++piece) send_own(own, piece);
  collect_sums(sums);
  settle(own);
}

void GlooExchange::all_to_all() {
  const Wire wire = operation_->wire;
  const auto total = [](const std::vector<size_t>& counts) {
    size_t sum = 0;
    for (size_t count : counts) sum += count;
    return sum;
  };
  const auto& out = operation_->send_counts;
  const auto& in = operation_->receive_counts;
  if (out.size() != static_cast<size_t>(size_) || in.size() != out.size() ||
      total(out) != operation_->to_send.size() || total(in) != operation_->floats.size() ||
      out[static_cast<size_t>(rank_)] != in[static_cast<size_t>(rank_)]) {
    throw std::logic_error("all_to_all: counts do not fit the data");
  }
  grow(parts_in_, total(in) * unit());
  grow(parts_out_, total(out) * unit());
  to_wire(wire, operation_->to_send, parts_out_.data());
  std::vector<size_t> in_at(in.size());
  std::vector<size_t> out_at(out.size());
  for (size_t r = 1; r < in.size(); ++r) {
    in_at[r] = in_at[r - 1] + in[r - 1];
    out_at[r] = out_at[r - 1] + out[r - 1];
  }
  std::vector<Range> received;
  std::vector<Range> sent;
  for_peers([&](int peer) {
    const auto p = static_cast<size_t>(peer);
    received.push_back(
        incoming(peer, kParts, parts_in_.data() + in_at[p] * unit(), in[p] * unit()));
  });
  for_peers([&](int peer) {
    const auto p = static_cast<size_t>(peer);
    sent.push_back(outgoing(kParts, parts_out_.data() + out_at[p] * unit(), out[p] * unit()));
    for (size_t piece = 0; piece < sent.back().pieces(); ++piece) {
      send_piece(sent.back(), peer, piece);
    }
  });
  for (Range& range : received) receive_all(range);
  const auto own = static_cast<size_t>(rank_);
  std::memcpy(parts_in_.data() + in_at[own] * unit(), parts_out_.data() + out_at[own] * unit(),
              in[own] * unit());
  from_wire(wire, parts_in_.data(), operation_->floats);
  for (Range& range : sent) settle(range);
}

// The root gives every rank a chunk, and each passes its own on to the others: the root's link
// carries the data twice at most, instead of once for each rank.
void GlooExchange::broadcast() {
  const std::span<std::byte> data = operation_->bytes;
  const int root = operation_->peer;
  const auto range_of = [&](int rank) { return chunk_of(data.size(), rank, size_); };
  const ChunkRange own_range = range_of(rank_);
  std::byte* own_place = data.data() + own_range.begin;
  std::vector<Range> sent;
  if (rank_ == root) {
    for_peers([&](int peer) {
      const ChunkRange range = range_of(peer);
      sent.push_back(outgoing(kParts, data.data() + range.begin, range.size()));
      for (size_t p = 0; p < sent.back().pieces(); ++p) send_piece(sent.back(), peer, p);
    });
    Range own = outgoing(kForward, own_place, own_range.size());
    for (size_t p = 0; p < own.pieces(); ++p) {
      for_peers([&](int peer) { send_piece(own, peer, p); });
    }
    sent.push_back(std::move(own));
  } else {
    Range mine = incoming(root, kParts, own_place, own_range.size());
    std::vector<Range> others;
    for_peers([&](int peer) {
      const ChunkRange range = range_of(peer);
      others.push_back(incoming(peer, kForward, data.data() + range.begin, range.size()));
    });
    Range forward = outgoing(kForward, own_place, own_range.size());
    for (size_t p = 0; p < mine.pieces(); ++p) {
      mine.buffer->wait_received();
      for_peers([&](int peer) {
        if (peer != root) send_piece(forward, peer, p);
      });
    }
    for (Range& range : others) receive_all(range);
    sent.push_back(std::move(forward));
  }
  for (Range& range : sent) settle(range);
}

void GlooExchange::send() {
  const std::span<const std::byte> data = operation_->bytes_to_send;
  Range range = outgoing(kParts, data.data(), data.size());
  for (size_t piece = 0; piece < range.pieces(); ++piece) {
    send_piece(range, operation_->peer, piece);
  }
  settle(range);
}

void GlooExchange::receive() {
  const std::span<std::byte> data = operation_->bytes;
  Range range = incoming(operation_->peer, kParts, data.data(), data.size());
  receive_all(range);
}

// Everybody gets everybody's values and adds them in the order of ranks; a barrier is a sum of
// nothing that matters.
void GlooExchange::sum_doubles() {
  double nothing = 0;
  const std::span<double> values =
      operation_->kind == OpKind::kBarrier ? std::span<double>(&nothing, 1) : operation_->doubles;
  const size_t bytes = values.size_bytes();
  std::vector<double> all(values.size() * static_cast<size_t>(size_));
  const auto place = [&](int rank) {
    return all.data() + static_cast<size_t>(rank) * values.size();
  };
  std::vector<Range> received;
  for_peers([&](int peer) {
    received.push_back(incoming(peer, kParts, reinterpret_cast<std::byte*>(place(peer)), bytes));
  });
  Range own = outgoing(kParts, reinterpret_cast<const std::byte*>(values.data()), bytes);
  for (size_t piece = 0; piece < own.pieces(); ++piece) {
    for_peers([&](int peer) { send_piece(own, peer, piece); });
  }
  for (Range& range : received) receive_all(range);
  settle(own);
  std::copy(values.begin(), values.end(), place(rank_));
  std::fill(values.begin(), values.end(), 0.0);
  for (int rank = 0; rank < size_; ++rank) {
    for (size_t i = 0; i < values.size(); ++i) values[i] += place(rank)[i];
  }
}

}  // namespace reigen
