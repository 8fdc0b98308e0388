// Start here: a connection to every other rank, and messages between their memory.
//
// One thread uses the mesh: there is no thread behind it. The thread that waits for a message moves
// the bytes of all connections meanwhile, straight from and into the memory of the messages. A
// message that no receive expects yet stays with the kernel, whose flow control holds its sender
// up. All ranks send and receive in the same program order, so no wait depends on a message behind
// one that is not expected yet. Every wait ends as soon as the mesh fails or is closed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dist/mesh/forming.h"
#include "dist/net/comm_status.h"

namespace reigen {

struct MeshOptions {
  FormingOptions forming;
  std::vector<std::string> machines;     // by rank: equal for ranks of one machine; may be empty
  std::chrono::milliseconds timeout{0};  // for one message; 0 for none
  // A peer that acknowledges no data for this long is unreachable; 0 for no limit.
  std::chrono::milliseconds silence{0};
};

class Mesh;

// Memory to send from or to receive into. Messages between two ranks arrive in the order they were
// sent; within a slot, messages and receives are matched in order.
class MeshBuffer {
 public:
  ~MeshBuffer();
  MeshBuffer(const MeshBuffer&) = delete;
  MeshBuffer& operator=(const MeshBuffer&) = delete;

  // Non-blocking. Both sides must pass the same size for a slot. Throw CommFailure.
  void send(int to, uint64_t slot, size_t offset, size_t bytes);
  void receive(int from, uint64_t slot, size_t offset, size_t bytes);

  // Wait until one more message was sent, or has arrived. Throw CommFailure.
  void wait_sent();
  void wait_received();

 private:
  friend class Mesh;
  struct Impl;
  MeshBuffer(Mesh& mesh, const std::byte* from, std::byte* to, size_t bytes);
  std::unique_ptr<Impl> impl_;
};

class Mesh {
 public:
  // Connects to all other ranks; throws CommError if that fails or takes too long.
  explicit Mesh(const MeshOptions& options);
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  // Throws CommFailure if the mesh is closed. The mesh must outlive the buffer.
  std::unique_ptr<MeshBuffer> buffer(std::span<std::byte> memory);
  std::unique_ptr<MeshBuffer> buffer(std::span<const std::byte> memory);  // for sending only

  // Ends every wait with `why`, unless the mesh has failed before, and closes every connection.
  // Idempotent; any thread.
  void fail(const CommStatus& why);
  CommStatus status() const;  // any thread

  // Sends a goodbye and waits for those of all ranks; after it a closed connection is no loss.
  CommStatus leave(std::chrono::milliseconds within);

  int encrypted_peers() const;  // connections through TLS

 private:
  friend class MeshBuffer;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reigen
