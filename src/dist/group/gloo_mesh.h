// The only user of Gloo: a connection to every other rank, and messages that can be cancelled.
//
// Gloo's own collectives are not used, for two reasons: a thread that waits in one cannot be
// interrupted, and Gloo does not notify the receiver of half a message when the sender dies. Here
// every wait ends as soon as the mesh fails or is closed. Gloo writes to connections that may be
// closed: the process must ignore SIGPIPE (base/interrupt.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dist/group/comm_status.h"
#include "dist/group/key_value.h"

namespace reigen {

struct MeshOptions {
  int rank = 0;
  int size = 1;
  std::string address;                // of this rank's interface; data ports are bound to it
  std::vector<std::string> hosts;     // by rank, for error messages; may be empty
  std::vector<std::string> machines;  // by rank: equal for ranks of one machine; may be empty
  std::string prefix;                 // of the keys in the store; different for each epoch
  std::string secret;                 // authenticates every connection; may be empty
  std::chrono::milliseconds connect_timeout{30'000};
  std::chrono::milliseconds timeout{0};  // for one message; 0 for none
};

class GlooMesh;

// Memory to send from or to receive into. Messages between two ranks arrive in the order they were
// sent; within a slot, messages and receives are matched in order.
class MeshBuffer {
 public:
  ~MeshBuffer();
  MeshBuffer(const MeshBuffer&) = delete;
  MeshBuffer& operator=(const MeshBuffer&) = delete;

  // Non-blocking. Both sides must pass the same size for a slot.
  void send(int to, uint64_t slot, size_t offset, size_t bytes);
  void receive(int from, uint64_t slot, size_t offset, size_t bytes);

  // Wait until one more message was sent, or has arrived. Throw CommFailure.
  void wait_sent();
  void wait_received();

 private:
  friend class GlooMesh;
  struct Impl;
  MeshBuffer(GlooMesh& mesh, void* data, size_t bytes);
  std::unique_ptr<Impl> impl_;
};

class GlooMesh {
 public:
  // Connects to all other ranks; throws CommError if that fails or takes too long.
  GlooMesh(const MeshOptions& options, KeyValue& store);
  ~GlooMesh();
  GlooMesh(const GlooMesh&) = delete;
  GlooMesh& operator=(const GlooMesh&) = delete;

  // Throws CommFailure if the mesh is closed.
  std::unique_ptr<MeshBuffer> buffer(std::span<std::byte> memory);
  std::unique_ptr<MeshBuffer> buffer(std::span<const std::byte> memory);  // for sending only

  // Ends every wait with `why`, unless the mesh has failed before, and closes every connection.
  // Idempotent; any thread.
  void fail(const CommStatus& why);
  CommStatus status() const;

  // Sends a goodbye and waits for those of all ranks; after it a closed connection is no loss.
  CommStatus leave(std::chrono::milliseconds within);

 private:
  friend class MeshBuffer;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reigen
