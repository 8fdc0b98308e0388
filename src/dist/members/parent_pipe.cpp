#include "dist/members/parent_pipe.h"

#include <poll.h>

#include <utility>

#include "dist/members/member_json.h"
#include "dist/net/message.h"

namespace reigen {

Json record_message(const WorkerId& self, const MembershipRecord& record) {
  Json message = json_of(EndProof{.worker = self, .record = record});
  message["kind"] = "record";
  return message;
}

std::optional<Json> end_message(const Json& record_message, const std::string& why) {
  const auto proof = proof_in(record_message);
  if (!proof) return std::nullopt;
  Json message = json_of(*proof);
  message["kind"] = "ended";
  message["why"] = why;
  return message;
}

std::optional<std::string> address_in(const Json& message) {
  return text_field(message, "kind") == "listens" ? text_field(message, "at") : std::nullopt;
}

std::optional<int> number_of(const Json& record_message) {
  const auto worker = worker_field(record_message, "worker");
  return worker ? std::optional(worker->number) : std::nullopt;
}

bool is_question(const Json& message) { return text_field(message, "kind") == "may_continue"; }

std::optional<Json> answer_of(Witness& witness, const Json& message) {
  const auto tie = tie_in(message);
  if (!tie || !is_question(message)) return std::nullopt;
  Json answer = json_of(*tie);
  answer["kind"] = "witness";
  answer["granted"] = witness.grants(*tie);
  return answer;
}

Json witness_lost_message() { return {{"kind", "no_witness"}}; }

bool is_writer(const Json& record_message) {
  const auto own = proof_in(record_message);
  if (!own) return false;
  const std::vector<WorkerId>& members = own->record.formed.members;
  return !members.empty() && members.front() == own->worker && !record_message.contains("left");
}

// A parent that is stopped holds this worker up: without a stored record its end would prove
// something that is not so.
void ParentPipe::send(const Json& message) {
  std::string bytes = encode_message(message);
  if (!socket_.open()) return;
  while (!bytes.empty()) {
    if (!write_available(socket_, bytes)) return socket_.close();  // the parent has ended
    if (bytes.empty()) return;
    pollfd writable{socket_.fd(), POLLOUT, 0};
    poll(&writable, 1, -1);
  }
}

void ParentPipe::store(const WorkerId& self, const MembershipRecord& record) {
  Json message = record_message(self, record);
  if (message == last_) return;
  send(message);
  last_ = std::move(message);
}

void ParentPipe::store_left(const WorkerId& self, const MembershipRecord& record) {
  Json message = record_message(self, record);
  message["left"] = true;
  send(message);
}

void ParentPipe::store_address(const Endpoint& standby) {
  send({{"kind", "listens"}, {"at", text_of(standby)}});
}

void ParentPipe::ask(const Tie& tie) {
  Json message = json_of(tie);
  message["kind"] = "may_continue";
  send(message);
}

std::optional<FromParent> ParentPipe::next() {
  if (!socket_.open()) return std::nullopt;
  const bool open = read_available(socket_, in_, kMostFromMember + 4);
  Json message;
  while (decode_message(in_, kMostFromMember, message) == Decoded::kMessage) {
    const std::string kind = text_field(message, "kind").value_or("");
    if (const auto proof = proof_in(message); proof && kind == "ended") {
      return ToldEnd{*proof, text_field(message, "why").value_or("")};
    }
    if (const auto tie = tie_in(message); tie && kind == "witness") {
      return WitnessAnswer{*tie, message.value("granted", Json()) == true};
    }
    if (kind == "no_witness") return WitnessLost();
  }
  if (open) return std::nullopt;
  socket_.close();
  return WitnessLost();
}

}  // namespace reigen
