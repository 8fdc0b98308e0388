// Ranges of memory as messages over a mesh, cut into segments.
//
// Segments let a receiver work on the first bytes while the rest is still under way: sums leave
// while addends arrive. Every transfer counts its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dist/group/group.h"
#include "dist/mesh/mesh.h"

namespace reigen {

inline constexpr size_t kSegmentBytes = size_t{256} << 10;

// Distinguishes the transfers of one operation, together with a round number. kData: the addends of
// a sum, or the payload of any other operation.
enum class TransferPhase : uint8_t { kData, kSums, kForward };

// One end of the messages of a range of memory, to or from one rank or several.
struct Transfer {
  std::unique_ptr<MeshBuffer> buffer;
  size_t bytes = 0;
  size_t segment = kSegmentBytes;
  uint64_t slot = 0;
  size_t unsettled = 0;  // messages sent whose completion was not waited for yet

  size_t segments() const { return (bytes + segment - 1) / segment; }
  size_t segment_bytes(size_t index) const;

  void wait_received();  // all segments
  void wait_sent();
};
using Transfers = std::vector<Transfer>;

// Makes the transfers of each operation.
class TransferMaker {
 public:
  // `inter_node`, by rank: whether that rank is on a different machine.
  TransferMaker(Mesh& mesh, std::vector<bool> inter_node)
      : mesh_(mesh), inter_node_(std::move(inter_node)) {}

  // `operation` begins; `counter` must live until the next call.
  void begin(const Operation& operation, CommCounter& counter);
  int next_round() { return rounds_++; }

  Transfer incoming(int from, int round, TransferPhase phase, std::byte* to, size_t bytes,
                    size_t segment = kSegmentBytes);
  Transfer outgoing(int round, TransferPhase phase, const std::byte* from, size_t bytes,
                    size_t segment = kSegmentBytes);
  void send_segment(Transfer& transfer, int to, size_t index);
  void send_all(Transfer& transfer, int to);

 private:
  Transfer transfer(int round, TransferPhase phase, size_t bytes, size_t segment) const;

  Mesh& mesh_;
  std::vector<bool> inter_node_;
  uint64_t sequence_ = 0;  // of collective operations
  CommCounter* counter_ = nullptr;
  uint64_t slot_ = 0;
  int rounds_ = 0;
};

}  // namespace reigen
