#include "dist/group/transfer.h"

#include <algorithm>

#include "base/hash.h"

namespace reigen {

size_t Transfer::segment_bytes(size_t index) const {
  return std::min(segment, bytes - index * segment);
}

void Transfer::wait_received() {
  for (size_t i = 0; i < segments(); ++i) buffer->wait_received();
}

void Transfer::wait_sent() {
  for (; unsettled > 0; --unsettled) buffer->wait_sent();
}

void TransferMaker::begin(const Operation& operation, CommCounter& counter) {
  counter_ = &counter;
  const bool between_two = operation.kind == OpKind::kSend || operation.kind == OpKind::kReceive;
  // The slot depends on the operation: ranks that disagree about it wait for each other.
  const uint64_t identity[] = {between_two ? 0 : ++sequence_,
                               between_two ? 0 : static_cast<uint64_t>(operation.kind),
                               static_cast<uint64_t>(operation.wire)};
  slot_ = xxh3(identity, sizeof identity);
  rounds_ = 0;
}

Transfer TransferMaker::transfer(int round, TransferPhase phase, size_t bytes,
                                 size_t segment) const {
  const uint64_t identity[] = {slot_, static_cast<uint64_t>(round), static_cast<uint64_t>(phase),
                               bytes};
  Transfer transfer;
  transfer.bytes = bytes;
  transfer.segment = segment;
  transfer.slot = xxh3(identity, sizeof identity);
  return transfer;
}

Transfer TransferMaker::outgoing(int round, TransferPhase phase, const std::byte* from,
                                 size_t bytes, size_t segment) {
  Transfer made = transfer(round, phase, bytes, segment);
  if (bytes > 0) made.buffer = mesh_.buffer(std::span<const std::byte>(from, bytes));
  return made;
}

Transfer TransferMaker::incoming(int from, int round, TransferPhase phase, std::byte* to,
                                 size_t bytes, size_t segment) {
  Transfer made = transfer(round, phase, bytes, segment);
  if (bytes > 0) made.buffer = mesh_.buffer(std::span<std::byte>(to, bytes));
  for (size_t i = 0; i < made.segments(); ++i) {
    made.buffer->receive(from, made.slot, i * segment, made.segment_bytes(i));
  }
  counter_->bytes_received += bytes;
  return made;
}

void TransferMaker::send_segment(Transfer& transfer, int to, size_t index) {
  const size_t bytes = transfer.segment_bytes(index);
  transfer.buffer->send(to, transfer.slot, index * transfer.segment, bytes);
  ++transfer.unsettled;
  counter_->bytes_sent += bytes;
  if (inter_node_[static_cast<size_t>(to)]) counter_->inter_node_bytes += bytes;
}

void TransferMaker::send_all(Transfer& transfer, int to) {
  for (size_t i = 0; i < transfer.segments(); ++i) send_segment(transfer, to, i);
}

}  // namespace reigen
