#include "dist/group/mesh_sum.h"

#include <algorithm>

#include "dist/group/block_format.h"
#include "dist/group/wire_format.h"

namespace reigen {
namespace {

void add_to(std::span<const float> values, std::span<float> sum) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
}

template <class T>
void grow(std::vector<T>& buffer, size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

}  // namespace

MeshSum::MeshSum(TransferMaker& transfers, const RankSet& set, std::span<float> data, Wire wire,
                 Stages stages, SumMemory& memory, size_t slice, ErrorFeedback feedback)
    : transfers_(transfers),
      set_(set),
      data_(data),
      feedback_(feedback),
      wire_(wire),
      segment_(kSegmentBytes / wire_bytes(wire, kBlockValues) * kBlockValues),
      stages_(stages),
      memory_(memory),
      slice_(memory.slices[slice]),
      round_(transfers.next_round()),
      addends_in_(set.size()),
      addends_out_(set.size()),
      sums_(set.size()) {}

size_t MeshSum::chunk_bytes(size_t index) const { return wire_bytes(wire_, chunk(index).size()); }
size_t MeshSum::segment_bytes() const { return wire_bytes(wire_, segment_); }

std::byte* MeshSum::addend_place(size_t from) {
  const size_t place = from < set_.own ? from : from - 1;
  return slice_.addends_in.data() + place * chunk_bytes(set_.own);
}

// fp32 sums are sent from and received into the data itself.
std::byte* MeshSum::sum_place(size_t index) {
  return wire_ == Wire::kFp32 ? reinterpret_cast<std::byte*>(data_.data() + chunk(index).begin)
                              : slice_.sums.data() + wire_bytes(wire_, chunk(index).begin);
}

void MeshSum::begin() {
  if (wire_ != Wire::kFp32) grow(slice_.sums, wire_bytes(wire_, data_.size()));
  if (stages_.add) receive_addends();
  if (stages_.share) receive_sums();
  if (stages_.add) send_addends();
  own_ = transfers_.outgoing(round_, TransferPhase::kSums, sum_place(set_.own),
                             chunk_bytes(set_.own), segment_bytes());
}

void MeshSum::add() {
  for (size_t segment = 0; segment < own_.segments(); ++segment) {
    if (stages_.add) {
      set_.for_peers([&](size_t peer) { addends_in_[peer].buffer->wait_received(); });
      add_segment(segment * segment_, segment_values(set_.own, segment));
    }
    if (stages_.share) send_own(segment);
  }
}

void MeshSum::end() {
  if (stages_.share) collect_sums();
  own_.wait_sent();
  for (Transfer& transfer : addends_out_) transfer.wait_sent();
}

void MeshSum::receive_addends() {
  const size_t own_bytes = chunk_bytes(set_.own);
  grow(slice_.addends_in, (set_.size() - 1) * own_bytes);
  set_.for_peers([&](size_t peer) {
    addends_in_[peer] = transfers_.incoming(set_.ranks[peer], round_, TransferPhase::kData,
                                            addend_place(peer), own_bytes, segment_bytes());
  });
}

void MeshSum::receive_sums() {
  set_.for_peers([&](size_t peer) {
    sums_[peer] = transfers_.incoming(set_.ranks[peer], round_, TransferPhase::kSums,
                                      sum_place(peer), chunk_bytes(peer), segment_bytes());
  });
}

// Sends every other chunk to its owner, one segment to each in turn, so that all can begin to add.
void MeshSum::send_addends() {
  const bool encoded = wire_ != Wire::kFp32;
  if (encoded) grow(slice_.addends_out, wire_bytes(wire_, data_.size()));
  const auto* from =
      encoded ? slice_.addends_out.data() : reinterpret_cast<const std::byte*>(data_.data());
  set_.for_peers([&](size_t peer) {
    addends_out_[peer] = transfers_.outgoing(round_, TransferPhase::kData,
                                             from + wire_bytes(wire_, chunk(peer).begin),
                                             chunk_bytes(peer), segment_bytes());
  });
  const size_t most = (chunk(0).size() + segment_ - 1) / segment_;
  for (size_t segment = 0; segment < most; ++segment) {
    set_.for_peers([&](size_t peer) {
      Transfer& transfer = addends_out_[peer];
      if (segment >= transfer.segments()) return;
      if (encoded) {
        const size_t begin = chunk(peer).begin + segment * segment_;
        const size_t count = segment_values(peer, segment);
        if (!feedback_.last.empty()) {
          add_to(feedback_.last.subspan(begin, count), data_.subspan(begin, count));
        }
        encode(begin, count, slice_.addends_out.data() + wire_bytes(wire_, begin), false);
      }
      transfers_.send_segment(transfer, set_.ranks[peer], segment);
    });
  }
}

// Elements [begin, begin + count) of the own chunk become the sum of all addends, in the order of
// ranks.
void MeshSum::add_segment(size_t begin, size_t count) {
  const size_t at = chunk(set_.own).begin + begin;
  const std::span<float> own = data_.subspan(at, count);
  if (!feedback_.last.empty()) add_to(feedback_.last.subspan(at, count), own);
  grow(memory_.total, count);
  const std::span<float> sum(memory_.total.data(), count);
  for (size_t from = 0; from < set_.size(); ++from) {
    if (from == set_.own) {
      if (from == 0) std::copy(own.begin(), own.end(), sum.begin());
      if (from > 0) add_to(own, sum);
      continue;
    }
    const std::byte* addend = addend_place(from) + wire_bytes(wire_, begin);
    if (from == 0) from_wire(wire_, addend, sum);
    if (from > 0) add_from_wire(wire_, addend, sum);
  }
  std::copy(sum.begin(), sum.end(), own.begin());
}

void MeshSum::encode(size_t begin, size_t count, std::byte* out, bool replace_values) {
  const std::span<float> values = data_.subspan(begin, count);
  to_wire(wire_, values, out);
  if (feedback_.next.empty()) {
    if (replace_values) from_wire(wire_, out, values);
    return;
  }
  grow(memory_.rounded, count);
  const std::span<float> rounded(memory_.rounded.data(), count);
  from_wire(wire_, out, rounded);
  const std::span<float> lost = feedback_.next.subspan(begin, count);
  for (size_t i = 0; i < count; ++i) lost[i] = values[i] - rounded[i];
  if (replace_values) std::copy(rounded.begin(), rounded.end(), values.begin());
}

// Sends a segment of the own chunk to all others; the own copy becomes the one they decode.
void MeshSum::send_own(size_t segment) {
  if (wire_ != Wire::kFp32) {
    const size_t begin = segment * segment_;
    encode(chunk(set_.own).begin + begin, segment_values(set_.own, segment),
           sum_place(set_.own) + wire_bytes(wire_, begin), true);
  }
  set_.for_peers([&](size_t peer) { transfers_.send_segment(own_, set_.ranks[peer], segment); });
}

void MeshSum::collect_sums() {
  set_.for_peers([&](size_t peer) {
    sums_[peer].wait_received();
    if (wire_ == Wire::kFp32) return;
    const ChunkRange range = chunk(peer);
    from_wire(wire_, sum_place(peer), data_.subspan(range.begin, range.size()));
  });
}

}  // namespace reigen
