#include "dist/group/gloo_exchange.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <stdexcept>

#include "base/hash.h"
#include "dist/group/gloo_sum.h"
#include "dist/group/wire_format.h"

namespace reigen {
namespace {

constexpr size_t kSliceBytes = size_t{1} << 20;
constexpr size_t kMostSlices = 8;

}  // namespace

size_t GlooExchange::Range::piece_bytes(size_t at) const {
  return std::min(piece, bytes - at * piece);
}

GlooExchange::GlooExchange(GlooMesh& mesh, int rank, int size,
                           const std::vector<std::string>& machines)
    : mesh_(mesh), away_(static_cast<size_t>(size)) {
  std::vector<int> ranks(static_cast<size_t>(size));
  for (int r = 0; r < size; ++r) ranks[static_cast<size_t>(r)] = r;
  everybody_ = circle_of(ranks, rank);
  if (machines.size() == ranks.size()) find_machines(machines);
}

GlooExchange::Circle GlooExchange::circle_of(std::vector<int> ranks, int own) {
  Circle circle;
  const auto at = std::find(ranks.begin(), ranks.end(), own);
  circle.own = static_cast<size_t>(at - ranks.begin());
  circle.ranks = std::move(ranks);
  return circle;
}

void GlooExchange::find_machines(const std::vector<std::string>& names) {
  const int own = everybody_.ranks[everybody_.own];
  std::map<std::string, std::vector<int>> machines;
  for (size_t r = 0; r < names.size(); ++r) {
    machines[names[r]].push_back(static_cast<int>(r));
    away_[r] = names[r] != names[everybody_.own];
  }
  const std::vector<int>& here = machines[names[everybody_.own]];
  const bool even = std::all_of(machines.begin(), machines.end(),
                                [&](const auto& m) { return m.second.size() == here.size(); });
  if (!even || machines.size() < 2 || here.size() < 2) return;
  machine_ = circle_of(here, own);
  std::vector<int> same_place;
  same_place.reserve(machines.size());
  for (const auto& [name, ranks] : machines) same_place.push_back(ranks[machine_.own]);
  std::sort(same_place.begin(), same_place.end());
  between_machines_ = circle_of(std::move(same_place), own);
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
  rounds_ = 0;
  switch (operation.kind) {
    case OpKind::kAllReduce:
    case OpKind::kReduceScatter:
    case OpKind::kAllGather:
      return all_reduce();
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

GlooExchange::Range GlooExchange::outgoing(int round, int phase, const std::byte* from,
                                           size_t bytes, size_t piece) {
  Range range;
  range.bytes = bytes;
  range.piece = piece;
  const uint64_t what[] = {slot_, static_cast<uint64_t>(round), static_cast<uint64_t>(phase),
                           bytes};
  constexpr uint64_t kUserSlotBit = 16;
  range.slot = xxh3(what, sizeof what) | kUserSlotBit;
  if (bytes > 0) range.buffer = mesh_.buffer(std::span<const std::byte>(from, bytes));
  return range;
}

GlooExchange::Range GlooExchange::incoming(int from, int round, int phase, std::byte* to,
                                           size_t bytes, size_t piece) {
  Range range = outgoing(round, phase, to, bytes, piece);
  for (size_t at = 0; at < range.pieces(); ++at) {
    range.buffer->receive(from, range.slot, at * piece, range.piece_bytes(at));
  }
  counter_->bytes_received += bytes;
  return range;
}

void GlooExchange::send_piece(Range& range, int to, size_t piece) {
  const size_t bytes = range.piece_bytes(piece);
  range.buffer->send(to, range.slot, piece * range.piece, bytes);
  ++range.sent;
  counter_->bytes_sent += bytes;
  if (away_[static_cast<size_t>(to)]) counter_->bytes_sent_away += bytes;
}

void GlooExchange::send_all(Range& range, int to) {
  for (size_t piece = 0; piece < range.pieces(); ++piece) send_piece(range, to, piece);
}

void GlooExchange::receive_all(Range& range) {
  for (size_t piece = 0; piece < range.pieces(); ++piece) range.buffer->wait_received();
}

void GlooExchange::settle(Range& range) {
  for (; range.sent > 0; --range.sent) range.buffer->wait_sent();
}

void GlooExchange::all_reduce() {
  if (scratch_.empty()) scratch_.resize(1);
  const bool add = operation_->kind != OpKind::kAllGather;
  const bool share = operation_->kind != OpKind::kReduceScatter;
  if (add && share && machine_.size() > 0) return all_reduce_by_machines();
  Sum(*this, everybody_, operation_->floats, operation_->wire, {add, share}, scratch_[0],
      operation_->unsent)
      .whole();
}

// Each machine adds up what its ranks have, a chunk by each rank; those chunks are summed between
// machines and then known on each. What crosses between two machines is the data once each way,
// however many ranks there are; among all at once it would be that times the ranks of a machine.
// In slices, so that one crosses while the next is added up and the last one is made known.
void GlooExchange::all_reduce_by_machines() {
  const std::span<float> data = operation_->floats;
  const size_t slices = std::clamp<size_t>(data.size_bytes() / kSliceBytes, 1, kMostSlices);
  if (scratch_.size() < slices) scratch_.resize(slices);
  const auto slice_of = [&](std::span<float> all, size_t i) {
    if (all.empty()) return all;
    const ChunkRange range = chunk_of(all.size(), static_cast<int>(i), static_cast<int>(slices));
    return all.subspan(range.begin, range.size());
  };
  const auto slice = [&](size_t i) { return slice_of(data, i); };
  std::vector<std::unique_ptr<Sum>> crossing(slices);
  const auto start = [&](size_t i) {
    Sum here(*this, machine_, slice(i), Wire::kFp32, {.add = true, .share = false}, scratch_[i]);
    here.whole();
    const ChunkRange own = here.chunk(machine_.own);
    const auto own_of = [&](std::span<float> part) {
      return part.empty() ? part : part.subspan(own.begin, own.size());
    };
    crossing[i] =
        std::make_unique<Sum>(*this, between_machines_, own_of(slice(i)), operation_->wire,
                              Sum::Steps{}, scratch_[i], own_of(slice_of(operation_->unsent, i)));
    crossing[i]->begin();
  };
  const auto finish = [&](size_t i) {
    crossing[i]->end();
    Sum(*this, machine_, slice(i), Wire::kFp32, {.add = false, .share = true}, scratch_[i]).whole();
  };
  start(0);
  for (size_t i = 0; i < slices; ++i) {
    if (i + 1 < slices) start(i + 1);
    crossing[i]->add();
    if (i > 0) finish(i - 1);
  }
  finish(slices - 1);
}

void GlooExchange::all_to_all() {
  const Wire wire = operation_->wire;
  const size_t unit = wire_bytes(wire, 1);
  const size_t own = everybody_.own;
  const auto& out = operation_->send_counts;
  const auto& in = operation_->receive_counts;
  const size_t total_out = std::accumulate(out.begin(), out.end(), size_t{0});
  const size_t total_in = std::accumulate(in.begin(), in.end(), size_t{0});
  if (out.size() != everybody_.size() || in.size() != out.size() ||
      total_out != operation_->to_send.size() || total_in != operation_->floats.size() ||
      out[own] != in[own] || wire == Wire::kInt8 || wire == Wire::kInt4) {
    throw std::logic_error("all_to_all: counts do not fit the data, or a wire of blocks");
  }
  if (scratch_.empty()) scratch_.resize(1);
  std::vector<std::byte>& bytes_in = scratch_[0].parts_in;
  std::vector<std::byte>& bytes_out = scratch_[0].parts_out;
  grow(bytes_in, total_in * unit);
  grow(bytes_out, total_out * unit);
  to_wire(wire, operation_->to_send, bytes_out.data());
  std::vector<std::byte*> in_at(in.size(), bytes_in.data());
  std::vector<std::byte*> out_at(out.size(), bytes_out.data());
  for (size_t r = 1; r < in.size(); ++r) {
    in_at[r] = in_at[r - 1] + in[r - 1] * unit;
    out_at[r] = out_at[r - 1] + out[r - 1] * unit;
  }
  Ranges received;
  Ranges sent;
  everybody_.for_peers([&](size_t p) {
    received.push_back(incoming(static_cast<int>(p), 0, kParts, in_at[p], in[p] * unit));
  });
  everybody_.for_peers([&](size_t p) {
    sent.push_back(outgoing(0, kParts, out_at[p], out[p] * unit));
    send_all(sent.back(), static_cast<int>(p));
  });
  for (Range& range : received) receive_all(range);
  std::memcpy(in_at[own], out_at[own], in[own] * unit);
  from_wire(wire, bytes_in.data(), operation_->floats);
  for (Range& range : sent) settle(range);
}

// The root gives every rank a chunk, and each passes its own on to the others: the root's link
// carries the data twice at most, instead of once for each rank.
void GlooExchange::broadcast() {
  const std::span<std::byte> data = operation_->bytes;
  const auto root = static_cast<size_t>(operation_->peer);
  const auto chunk = [&](size_t place) {
    const ChunkRange range =
        chunk_of(data.size(), static_cast<int>(place), static_cast<int>(everybody_.size()));
    return data.subspan(range.begin, range.size());
  };
  const std::span<std::byte> own = chunk(everybody_.own);
  Ranges sent;
  if (everybody_.own == root) {
    everybody_.for_peers([&](size_t peer) {
      sent.push_back(outgoing(0, kParts, chunk(peer).data(), chunk(peer).size()));
      send_all(sent.back(), static_cast<int>(peer));
    });
    Range passed_on = outgoing(0, kForward, own.data(), own.size());
    everybody_.for_peers([&](size_t peer) { send_all(passed_on, static_cast<int>(peer)); });
    sent.push_back(std::move(passed_on));
  } else {
    Range mine = incoming(operation_->peer, 0, kParts, own.data(), own.size());
    Ranges others;
    everybody_.for_peers([&](size_t peer) {
      others.push_back(
          incoming(static_cast<int>(peer), 0, kForward, chunk(peer).data(), chunk(peer).size()));
    });
    Range passed_on = outgoing(0, kForward, own.data(), own.size());
    for (size_t piece = 0; piece < mine.pieces(); ++piece) {
      mine.buffer->wait_received();
      everybody_.for_peers([&](size_t peer) {
        if (peer != root) send_piece(passed_on, static_cast<int>(peer), piece);
      });
    }
    for (Range& range : others) receive_all(range);
    sent.push_back(std::move(passed_on));
  }
  for (Range& range : sent) settle(range);
}

void GlooExchange::send() {
  const std::span<const std::byte> data = operation_->bytes_to_send;
  Range range = outgoing(0, kParts, data.data(), data.size());
  send_all(range, operation_->peer);
  settle(range);
}

void GlooExchange::receive() {
  const std::span<std::byte> data = operation_->bytes;
  Range range = incoming(operation_->peer, 0, kParts, data.data(), data.size());
  receive_all(range);
}

// Everybody gets everybody's values and adds them in the order of ranks; a barrier is a sum of
// nothing that matters.
void GlooExchange::sum_doubles() {
  double nothing = 0;
  const std::span<double> values =
      operation_->kind == OpKind::kBarrier ? std::span<double>(&nothing, 1) : operation_->doubles;
  const size_t bytes = values.size_bytes();
  std::vector<double> all(values.size() * everybody_.size());
  const auto place = [&](size_t rank) { return all.data() + rank * values.size(); };
  Ranges received;
  everybody_.for_peers([&](size_t peer) {
    received.push_back(incoming(static_cast<int>(peer), 0, kParts,
                                reinterpret_cast<std::byte*>(place(peer)), bytes));
  });
  Range own = outgoing(0, kParts, reinterpret_cast<const std::byte*>(values.data()), bytes);
  everybody_.for_peers([&](size_t peer) { send_all(own, static_cast<int>(peer)); });
  for (Range& range : received) receive_all(range);
  settle(own);
  std::copy(values.begin(), values.end(), place(everybody_.own));
  std::fill(values.begin(), values.end(), 0.0);
  for (size_t rank = 0; rank < everybody_.size(); ++rank) {
    for (size_t i = 0; i < values.size(); ++i) values[i] += place(rank)[i];
  }
}

}  // namespace reigen
