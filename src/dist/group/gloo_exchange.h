// Collective operations as messages over a mesh: who sends what to whom, and who adds it up.
//
// Everything travels in pieces, so that sums leave while parts still arrive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dist/group/gloo_mesh.h"
#include "dist/group/group.h"

namespace reigen {

class GlooExchange {
 public:
  // `machines` by rank, or empty.
  GlooExchange(GlooMesh& mesh, int rank, int size, const std::vector<std::string>& machines);

  // Throws MeshFailure. One at a time.
  void carry_out(const Operation& operation, CommCounter& counter);

  static constexpr size_t kPieceBytes = size_t{256} << 10;

 private:
  class Sum;
  enum Phase : int { kParts, kSums, kForward };

  // Ranks that exchange something, in order, and where this one is among them.
  struct Circle {
    std::vector<int> ranks;
    size_t own = 0;
    size_t size() const { return ranks.size(); }

    // Every other place, each rank beginning with the one after it.
    template <class Each>
    void for_peers(Each each) const {
      for (size_t distance = 1; distance < size(); ++distance) each((own + distance) % size());
    }
  };
  static Circle circle_of(std::vector<int> ranks, int own);
  void find_machines(const std::vector<std::string>& names);

  // One end of the messages of a range of memory, to or from one rank or several.
  struct Range {
    std::unique_ptr<MeshBuffer> buffer;
    size_t bytes = 0;
    size_t piece = kPieceBytes;
    uint64_t slot = 0;
    size_t sent = 0;  // messages that are not waited for yet

    size_t pieces() const { return (bytes + piece - 1) / piece; }
    size_t piece_bytes(size_t piece) const;
  };
  using Ranges = std::vector<Range>;

  // `round` and `phase` tell ranges of one operation apart.
  Range incoming(int from, int round, int phase, std::byte* to, size_t bytes,
                 size_t piece = kPieceBytes);
  Range outgoing(int round, int phase, const std::byte* from, size_t bytes,
                 size_t piece = kPieceBytes);
  void send_piece(Range& range, int to, size_t piece);
  void send_all(Range& range, int to);
  static void receive_all(Range& range);
  static void settle(Range& range);

  void all_reduce();
  void all_reduce_by_machines();
  void all_to_all();
  void broadcast();
  void send();
  void receive();
  void sum_doubles();

  GlooMesh& mesh_;
  Circle everybody_;
  Circle machine_;           // ranks on this machine; empty unless all machines have as many
  Circle between_machines_;  // one rank of each machine, with this one's place on it
  std::vector<bool> away_;   // by rank: on another machine
  uint64_t sequence_ = 0;

  // Of the operation under way.
  const Operation* operation_ = nullptr;
  CommCounter* counter_ = nullptr;
  uint64_t slot_ = 0;
  int rounds_ = 0;

  // Memory kept from one operation to the next; it grows to what the largest needs.
  struct Scratch {
    std::vector<std::byte> parts_in;   // what others give for the own chunk, by place
    std::vector<std::byte> parts_out;  // all other chunks as they travel, unless that is fp32
    std::vector<std::byte> sums;       // all chunks' sums as they travel, likewise
  };
  template <class T>
  static void grow(std::vector<T>& buffer, size_t size) {
    if (buffer.size() < size) buffer.resize(size);
  }
  std::vector<Scratch> scratch_;
  std::vector<float> sum_;   // of one piece
  std::vector<float> back_;  // a piece as it arrives
};

}  // namespace reigen
