#include "dist/gloo_exchange.h"

#include <algorithm>
#include <cstring>
#include <map>
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

GlooExchange::GlooExchange(GlooMesh& mesh, int rank, int size,
                           const std::vector<std::string>& hosts)
    : mesh_(mesh), away_(static_cast<size_t>(size)) {
  std::vector<int> ranks(static_cast<size_t>(size));
  for (int r = 0; r < size; ++r) ranks[static_cast<size_t>(r)] = r;
  everybody_ = circle_of(ranks, rank);
  if (hosts.size() == ranks.size()) find_machines(hosts);
}

GlooExchange::Circle GlooExchange::circle_of(std::vector<int> ranks, int own) {
  Circle circle;
  const auto at = std::find(ranks.begin(), ranks.end(), own);
  circle.own = static_cast<size_t>(at - ranks.begin());
  circle.ranks = std::move(ranks);
  return circle;
}

void GlooExchange::find_machines(const std::vector<std::string>& hosts) {
  const int own = everybody_.ranks[everybody_.own];
  std::map<std::string, std::vector<int>> machines;
  for (size_t r = 0; r < hosts.size(); ++r) {
    machines[hosts[r]].push_back(static_cast<int>(r));
    away_[r] = hosts[r] != hosts[everybody_.own];
  }
  const std::vector<int>& here = machines[hosts[everybody_.own]];
  const bool even = std::all_of(machines.begin(), machines.end(),
                                [&](const auto& m) { return m.second.size() == here.size(); });
  if (!even || machines.size() < 2 || here.size() < 2) return;
  machine_ = circle_of(here, own);
  std::vector<int> same_place;
  for (const auto& [name, ranks] : machines) same_place.push_back(ranks[machine_.own]);
  std::sort(same_place.begin(), same_place.end());
  between_machines_ = circle_of(std::move(same_place), own);
}

size_t GlooExchange::unit() const { return wire_bytes(wire_); }

ChunkRange GlooExchange::chunk(size_t place) const {
  return chunk_of(data_.size(), static_cast<int>(place), static_cast<int>(circle_->size()));
}

void GlooExchange::within(const Circle& circle, std::span<float> data, Wire wire) {
  circle_ = &circle;
  data_ = data;
  wire_ = wire;
  ++round_;
}

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
  round_ = 0;
  within(everybody_, operation.floats, operation.wire);
  switch (operation.kind) {
    case OpKind::kAllReduce:
      return all_reduce();
    case OpKind::kReduceScatter:
      return reduce(false);
    case OpKind::kAllGather:
      return gather();
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

// Each machine adds up what its ranks have, a chunk by each rank; those chunks are summed between
// machines and then known on each. What crosses between two machines is the data once each way,
// however many ranks there are; among all at once it would be that times the ranks of a machine.
void GlooExchange::all_reduce() {
  if (machine_.size() == 0) return reduce(true);
  const std::span<float> data = operation_->floats;
  within(machine_, data, Wire::kFp32);
  reduce(false);
  const ChunkRange own = chunk(machine_.own);
  within(between_machines_, data.subspan(own.begin, own.size()), operation_->wire);
  reduce(true);
  within(machine_, data, Wire::kFp32);
  gather();
}

GlooExchange::Range GlooExchange::outgoing(int phase, const std::byte* from, size_t bytes) {
  Range range;
  range.bytes = bytes;
  const uint64_t what[] = {slot_, static_cast<uint64_t>(round_), static_cast<uint64_t>(phase),
                           bytes};
  constexpr uint64_t kNotTheMeshs = 16;
  range.slot = xxh3(what, sizeof what) | kNotTheMeshs;
  if (bytes > 0) range.buffer = mesh_.buffer(std::span<const std::byte>(from, bytes));
  return range;
}

GlooExchange::Range GlooExchange::incoming(size_t from, int phase, std::byte* to, size_t bytes) {
  Range range = outgoing(phase, to, bytes);
  for (size_t piece = 0; piece < range.pieces(); ++piece) {
    range.buffer->receive(circle_->ranks[from], range.slot, piece * kPieceBytes,
                          range.piece_bytes(piece));
  }
  counter_->bytes_received += bytes;
  return range;
}

void GlooExchange::send_piece(Range& range, size_t to, size_t piece) {
  const int rank = circle_->ranks[to];
  const size_t bytes = range.piece_bytes(piece);
  range.buffer->send(rank, range.slot, piece * kPieceBytes, bytes);
  ++range.sent;
  counter_->bytes_sent += bytes;
  if (away_[static_cast<size_t>(rank)]) counter_->bytes_sent_away += bytes;
}

void GlooExchange::receive_all(Range& range) {
  for (size_t piece = 0; piece < range.pieces(); ++piece) range.buffer->wait_received();
}

void GlooExchange::settle(Range& range) {
  for (; range.sent > 0; --range.sent) range.buffer->wait_sent();
}

std::byte* GlooExchange::part_place(size_t from) {
  const size_t place = from < circle_->own ? from : from - 1;
  return parts_in_.data() + place * chunk_bytes(circle_->own);
}

// Where a chunk's sum is while it travels: fp32 needs no place beside the data.
std::byte* GlooExchange::sum_place(size_t place) {
  return wire_ == Wire::kFp32 ? reinterpret_cast<std::byte*>(data_.data() + chunk(place).begin)
                              : sums_.data() + chunk(place).begin * unit();
}

void GlooExchange::reduce(bool share) {
  const size_t own_bytes = chunk_bytes(circle_->own);
  grow(parts_in_, (circle_->size() - 1) * own_bytes);
  Ranges parts_in(circle_->size());
  for_peers(
      [&](size_t peer) { parts_in[peer] = incoming(peer, kParts, part_place(peer), own_bytes); });
  Ranges sums = share ? expect_sums() : Ranges();
  Ranges parts_out(circle_->size());
  send_parts(parts_out);

  Range own = outgoing(kSums, sum_place(circle_->own), own_bytes);
  for (size_t piece = 0; piece < own.pieces(); ++piece) {
    for_peers([&](size_t peer) { parts_in[peer].buffer->wait_received(); });
    add_parts(piece * kPieceBytes / unit(), own.piece_bytes(piece) / unit());
    if (share) send_own(own, piece);
  }
  if (share) collect_sums(sums);
  settle(own);
  for (Range& range : parts_out) settle(range);
}

// Every other chunk to its owner, in turn, so that all of them can begin to add.
void GlooExchange::send_parts(Ranges& parts) {
  const bool as_it_is = wire_ == Wire::kFp32;
  if (!as_it_is) grow(parts_out_, data_.size() * unit());
  const auto* from =
      as_it_is ? reinterpret_cast<const std::byte*>(data_.data()) : parts_out_.data();
  for_peers([&](size_t peer) {
    parts[peer] = outgoing(kParts, from + chunk(peer).begin * unit(), chunk_bytes(peer));
  });
  const size_t most = (chunk_bytes(0) + kPieceBytes - 1) / kPieceBytes;
  for (size_t piece = 0; piece < most; ++piece) {
    for_peers([&](size_t peer) {
      Range& range = parts[peer];
      if (piece >= range.pieces()) return;
      if (!as_it_is) {
        const size_t begin = chunk(peer).begin + piece * kPieceBytes / unit();
        to_wire(wire_, data_.subspan(begin, range.piece_bytes(piece) / unit()),
                parts_out_.data() + begin * unit());
      }
      send_piece(range, peer, piece);
    });
  }
}

// Elements [begin, begin + count) of the own chunk become the sum of all parts, in the order of
// ranks.
void GlooExchange::add_parts(size_t begin, size_t count) {
  const std::span<float> own = data_.subspan(chunk(circle_->own).begin + begin, count);
  grow(sum_, count);
  const std::span<float> sum(sum_.data(), count);
  for (size_t from = 0; from < circle_->size(); ++from) {
    if (from == circle_->own) {
      if (from == 0) std::copy(own.begin(), own.end(), sum.begin());
      if (from > 0) {
        for (size_t i = 0; i < count; ++i) sum[i] += own[i];
      }
      continue;
    }
    const std::byte* part = part_place(from) + begin * unit();
    if (from == 0) from_wire(wire_, part, sum);
    if (from > 0) add_from_wire(wire_, part, sum);
  }
  std::copy(sum.begin(), sum.end(), own.begin());
}

// Sends a piece of the own chunk to everybody, and keeps what they will have.
void GlooExchange::send_own(Range& own, size_t piece) {
  if (wire_ != Wire::kFp32) {
    const size_t begin = piece * kPieceBytes / unit();
    const std::span<float> values =
        data_.subspan(chunk(circle_->own).begin + begin, own.piece_bytes(piece) / unit());
    std::byte* place = sum_place(circle_->own) + begin * unit();
    to_wire(wire_, values, place);
    from_wire(wire_, place, values);
  }
  for_peers([&](size_t peer) { send_piece(own, peer, piece); });
}

GlooExchange::Ranges GlooExchange::expect_sums() {
  if (wire_ != Wire::kFp32) grow(sums_, data_.size() * unit());
  Ranges sums(circle_->size());
  for_peers(
      [&](size_t peer) { sums[peer] = incoming(peer, kSums, sum_place(peer), chunk_bytes(peer)); });
  return sums;
}

void GlooExchange::collect_sums(Ranges& sums) {
  for_peers([&](size_t peer) {
    receive_all(sums[peer]);
    if (wire_ == Wire::kFp32) return;
    const ChunkRange range = chunk(peer);
    from_wire(wire_, sum_place(peer), data_.subspan(range.begin, range.size()));
  });
}

void GlooExchange::gather() {
  Ranges sums = expect_sums();
  Range own = outgoing(kSums, sum_place(circle_->own), chunk_bytes(circle_->own));
  for (size_t piece = 0; piece < own.pieces(); ++piece) send_own(own, piece);
  collect_sums(sums);
  settle(own);
}

void GlooExchange::all_to_all() {
  const auto total = [](const std::vector<size_t>& counts) {
    size_t sum = 0;
    for (size_t count : counts) sum += count;
    return sum;
  };
  const auto& out = operation_->send_counts;
  const auto& in = operation_->receive_counts;
  const size_t own = circle_->own;
  if (out.size() != circle_->size() || in.size() != out.size() ||
      total(out) != operation_->to_send.size() || total(in) != data_.size() ||
      out[own] != in[own]) {
    throw std::logic_error("all_to_all: counts do not fit the data");
  }
  grow(parts_in_, total(in) * unit());
  grow(parts_out_, total(out) * unit());
  to_wire(wire_, operation_->to_send, parts_out_.data());
  std::vector<size_t> in_at(in.size());
  std::vector<size_t> out_at(out.size());
  for (size_t r = 1; r < in.size(); ++r) {
    in_at[r] = in_at[r - 1] + in[r - 1];
    out_at[r] = out_at[r - 1] + out[r - 1];
  }
  std::vector<Range> received;
  std::vector<Range> sent;
  for_peers([&](size_t p) {
    received.push_back(incoming(p, kParts, parts_in_.data() + in_at[p] * unit(), in[p] * unit()));
  });
  for_peers([&](size_t p) {
    sent.push_back(outgoing(kParts, parts_out_.data() + out_at[p] * unit(), out[p] * unit()));
    for (size_t piece = 0; piece < sent.back().pieces(); ++piece) {
      send_piece(sent.back(), p, piece);
    }
  });
  for (Range& range : received) receive_all(range);
  std::memcpy(parts_in_.data() + in_at[own] * unit(), parts_out_.data() + out_at[own] * unit(),
              in[own] * unit());
  from_wire(wire_, parts_in_.data(), data_);
  for (Range& range : sent) settle(range);
}

// The root gives every rank a chunk, and each passes its own on to the others: the root's link
// carries the data twice at most, instead of once for each rank.
void GlooExchange::broadcast() {
  const std::span<std::byte> data = operation_->bytes;
  const auto root = static_cast<size_t>(operation_->peer);
  const auto range_of = [&](size_t place) {
    return chunk_of(data.size(), static_cast<int>(place), static_cast<int>(circle_->size()));
  };
  const ChunkRange own_range = range_of(circle_->own);
  std::byte* own_place = data.data() + own_range.begin;
  std::vector<Range> sent;
  if (circle_->own == root) {
    for_peers([&](size_t peer) {
      const ChunkRange range = range_of(peer);
      sent.push_back(outgoing(kParts, data.data() + range.begin, range.size()));
      for (size_t p = 0; p < sent.back().pieces(); ++p) send_piece(sent.back(), peer, p);
    });
    Range own = outgoing(kForward, own_place, own_range.size());
    for (size_t p = 0; p < own.pieces(); ++p) {
      for_peers([&](size_t peer) { send_piece(own, peer, p); });
    }
    sent.push_back(std::move(own));
  } else {
    Range mine = incoming(root, kParts, own_place, own_range.size());
    std::vector<Range> others;
    for_peers([&](size_t peer) {
      const ChunkRange range = range_of(peer);
      others.push_back(incoming(peer, kForward, data.data() + range.begin, range.size()));
    });
    Range forward = outgoing(kForward, own_place, own_range.size());
    for (size_t p = 0; p < mine.pieces(); ++p) {
      mine.buffer->wait_received();
      for_peers([&](size_t peer) {
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
    send_piece(range, static_cast<size_t>(operation_->peer), piece);
  }
  settle(range);
}

void GlooExchange::receive() {
  const std::span<std::byte> data = operation_->bytes;
  Range range = incoming(static_cast<size_t>(operation_->peer), kParts, data.data(), data.size());
  receive_all(range);
}

// Everybody gets everybody's values and adds them in the order of ranks; a barrier is a sum of
// nothing that matters.
void GlooExchange::sum_doubles() {
  double nothing = 0;
  const std::span<double> values =
      operation_->kind == OpKind::kBarrier ? std::span<double>(&nothing, 1) : operation_->doubles;
  const size_t bytes = values.size_bytes();
  std::vector<double> all(values.size() * circle_->size());
  const auto place = [&](size_t rank) { return all.data() + rank * values.size(); };
  std::vector<Range> received;
  for_peers([&](size_t peer) {
    received.push_back(incoming(peer, kParts, reinterpret_cast<std::byte*>(place(peer)), bytes));
  });
  Range own = outgoing(kParts, reinterpret_cast<const std::byte*>(values.data()), bytes);
  for (size_t piece = 0; piece < own.pieces(); ++piece) {
    for_peers([&](size_t peer) { send_piece(own, peer, piece); });
  }
  for (Range& range : received) receive_all(range);
  settle(own);
  std::copy(values.begin(), values.end(), place(circle_->own));
  std::fill(values.begin(), values.end(), 0.0);
  for (size_t rank = 0; rank < circle_->size(); ++rank) {
    for (size_t i = 0; i < values.size(); ++i) values[i] += place(rank)[i];
  }
}

}  // namespace reigen
