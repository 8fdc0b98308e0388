// The only door to Gloo: a connection to every other rank, and messages that can be called off.
//
// Gloo's own collectives are not used, for two reasons: a thread that waits in one cannot be called
// back, and Gloo does not tell the owner of a half-received message that its sender is gone. Here
// every wait ends when the mesh fails or is closed, whoever notices first.
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
  std::vector<std::string> hosts;     // by rank, for messages; may be empty
  std::vector<std::string> machines;  // by rank, to tell which are on one; may be empty
  std::string prefix;                 // of the keys, another one for each forming
  std::string secret;  // proves on each connection that it is to a member; may be empty
  std::chrono::milliseconds connect_timeout{30'000};
  std::chrono::milliseconds timeout{0};  // for one message; 0 for as long as it takes
};

// Thrown to the thread that runs an operation; Group turns it into a status.
struct MeshFailure {
  CommStatus status;
};

class GlooMesh;

// Memory that messages leave from or arrive in. Messages between two ranks arrive in the order they
// were sent; those of one slot meet the receives of that slot in order.
class MeshBuffer {
 public:
  ~MeshBuffer();
  MeshBuffer(const MeshBuffer&) = delete;
  MeshBuffer& operator=(const MeshBuffer&) = delete;

  // Nothing waits here. Both sides must give the same size for a slot.
  void send(int to, uint64_t slot, size_t offset, size_t bytes);
  void receive(int from, uint64_t slot, size_t offset, size_t bytes);

  // One message more has left, or arrived. Throws MeshFailure.
  void wait_sent();
  void wait_received();

 private:
  friend class GlooMesh;
  struct Parts;
  MeshBuffer(GlooMesh& mesh, void* data, size_t bytes);
  std::unique_ptr<Parts> parts_;
};

class GlooMesh {
 public:
  // Connects to all others; throws CommError when that fails or takes too long.
  GlooMesh(const MeshOptions& options, KeyValue& store);
  ~GlooMesh();
  GlooMesh(const GlooMesh&) = delete;
  GlooMesh& operator=(const GlooMesh&) = delete;

  // Throws MeshFailure when the mesh is closed.
  std::unique_ptr<MeshBuffer> buffer(std::span<std::byte> memory);
  std::unique_ptr<MeshBuffer> buffer(std::span<const std::byte> memory);  // to send from only

  // Ends every wait with `why`, unless it has failed before, and closes every connection. Any
  // thread, any number of times.
  void fail(const CommStatus& why);
  CommStatus status() const;

  // Says goodbye and waits for everybody's; then the end of a connection is no loss any more.
  CommStatus leave(std::chrono::milliseconds within);

 private:
  friend class MeshBuffer;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace reigen
