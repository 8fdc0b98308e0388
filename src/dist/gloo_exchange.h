// Collective operations as messages over a mesh: who sends what to whom, and who adds it up.
//
// Everything travels in pieces, so that sums leave while parts still arrive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dist/gloo_mesh.h"
#include "dist/group.h"

namespace reigen {

class GlooExchange {
 public:
  GlooExchange(GlooMesh& mesh, int rank, int size) : mesh_(mesh), rank_(rank), size_(size) {}

  // Throws MeshFailure. One at a time.
  void carry_out(const Operation& operation, CommCounter& counter);

  static constexpr size_t kPieceBytes = size_t{256} << 10;

 private:
  // One end of the messages of a range of memory, to or from one rank or several.
  struct Range {
    std::unique_ptr<MeshBuffer> buffer;
    size_t bytes = 0;
    uint64_t slot = 0;
    size_t sent = 0;  // messages that are not waited for yet

    size_t pieces() const { return (bytes + kPieceBytes - 1) / kPieceBytes; }
    size_t piece_bytes(size_t piece) const;
  };

  Range incoming(int from, int phase, std::byte* to, size_t bytes);
  Range outgoing(int phase, const std::byte* from, size_t bytes);
  void send_piece(Range& range, int to, size_t piece);
  static void receive_all(Range& range);
  static void settle(Range& range);

  void reduce(bool share);
  void send_parts(std::vector<Range>& parts);
  void add_parts(size_t begin, size_t count);
  void all_gather();
  std::vector<Range> expect_sums();
  void collect_sums(std::vector<Range>& sums);
  void send_own(Range& own, size_t piece);
  std::byte* sum_place(int rank);
  void all_to_all();
  void broadcast();
  void send();
  void receive();
  void sum_doubles();

  ChunkRange chunk(int rank) const { return chunk_of(operation_->floats.size(), rank, size_); }
  size_t unit() const;
  size_t chunk_bytes(int rank) const { return chunk(rank).size() * unit(); }
  std::byte* part_place(int from);

  template <class Each>
  void for_peers(Each each) const {
    for (int distance = 1; distance < size_; ++distance) each((rank_ + distance) % size_);
  }

  GlooMesh& mesh_;
  int rank_;
  int size_;
  uint64_t sequence_ = 0;

  // Of the operation under way.
  const Operation* operation_ = nullptr;
  CommCounter* counter_ = nullptr;
  uint64_t slot_ = 0;

  // Kept from one operation to the next; they grow to what the largest needs.
  std::vector<std::byte> parts_in_;   // what others give for the own chunk, by rank
  std::vector<std::byte> parts_out_;  // all other chunks as they travel, unless that is fp32
  std::vector<std::byte> sums_;       // all chunks' sums as they travel, likewise
  std::vector<float> sum_;            // of one piece
};

}  // namespace reigen
