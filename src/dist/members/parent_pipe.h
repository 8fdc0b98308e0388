// A worker's end of the pipe to the process that started it, in a job of our own launchers
// (docs/design/elastic.md). Up go the worker's identity and its record of memberships, each before
// the message that depends on it, and the address at which a new process finds the job; down come
// proofs that other workers have ended. The parent stores the last record: with it, the end of this
// worker is a proof for the others.
#pragma once

#include <optional>
#include <string>

#include "base/json/json.h"
#include "dist/members/forming/succession.h"
#include "dist/net/socket.h"

namespace reigen {

// A proof, and how the process ended: "was killed by signal 9 (Killed)".
struct ToldEnd {
  EndProof proof;
  std::string why;
};

class ParentPipe {
 public:
  ParentPipe() = default;  // no parent reads records
  explicit ParentPipe(Socket socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.fd(); }
  // Returns when the parent will find it, also if this process ends at once. Records that are equal
  // to the last one are not sent.
  void store(const WorkerId& self, const MembershipRecord& record);
  // The same for the last record of a worker that leaves the job, which the others continue.
  void store_left(const WorkerId& self, const MembershipRecord& record);
  // From now on a new process can ask this worker about the job.
  void store_address(const Endpoint& standby);
  // The next proof; nothing if no complete message has arrived.
  std::optional<ToldEnd> next_end();

 private:
  void send(const Json& message);

  Socket socket_;
  std::string last_;
  std::string in_;
};

// The messages of the pipe, as its other end uses them.
Json record_message(const WorkerId& self, const MembershipRecord& record);
// The address in a message of store_address(); nothing for other messages.
std::optional<std::string> address_in(const Json& message);
// The lasting number of the worker with this last record message; nothing if that is malformed.
std::optional<int> number_of(const Json& record_message);
// From the last record message of a worker whose process has ended; nothing if that is malformed.
std::optional<Json> end_message(const Json& record_message, const std::string& why);
// Whether the worker with this last record message is rank 0, the writer, of its newest membership,
// and has not left it to the others.
bool is_writer(const Json& record_message);

}  // namespace reigen
