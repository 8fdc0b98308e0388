// A worker's end of the pipe to the process that started it, in a job of our own launchers
// (docs/design/elastic.md). Up go the worker's identity and its record of memberships, each before
// the message that depends on it, and the address at which a new process finds the job; down come
// proofs that other workers have ended. The parent stores the last record: with it, the end of this
// worker is a proof for the others. Where the launcher is the witness of the job, questions to it
// go up, and its answers come down.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "base/json/json.h"
#include "dist/members/forming/succession.h"
#include "dist/members/forming/witness.h"
#include "dist/net/socket.h"

namespace reigen {

// A proof, and how the process ended: "was killed by signal 9 (Killed)".
struct ToldEnd {
  EndProof proof;
  std::string why;
};

struct WitnessAnswer {
  Tie tie;
  bool granted = false;
};

struct WitnessLost {};  // it answers no more

using FromParent = std::variant<ToldEnd, WitnessAnswer, WitnessLost>;

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
  // Asks the witness whether this half may continue.
  void ask(const Tie& tie);
  // The next message; nothing if no complete one has arrived. The last one is that the witness is
  // lost with the parent.
  std::optional<FromParent> next();

 private:
  void send(const Json& message);

  Socket socket_;
  Json last_;  // record
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
// The witness's answer to a question that came up; nothing for any other message.
std::optional<Json> answer_of(Witness& witness, const Json& message);
bool is_question(const Json& message);
// The message that the launcher, which was the witness, is lost.
Json witness_lost_message();
// Whether the worker with this last record message is rank 0, the writer, of its newest membership,
// and has not left it to the others.
bool is_writer(const Json& record_message);

}  // namespace reigen
