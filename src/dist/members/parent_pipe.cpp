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
  if (!socket_.open() || bytes == last_) return;
  last_ = bytes;
  while (!bytes.empty()) {
    if (!write_available(socket_, bytes)) return socket_.close();  // the parent has ended
    if (bytes.empty()) return;
    pollfd writable{socket_.fd(), POLLOUT, 0};
    poll(&writable, 1, -1);
  }
}

void ParentPipe::store(const WorkerId& self, const MembershipRecord& record) {
  send(record_message(self, record));
}

void ParentPipe::store_left(const WorkerId& self, const MembershipRecord& record) {
  Json message = record_message(self, record);
  message["left"] = true;
  send(message);
}

void ParentPipe::store_address(const Endpoint& standby) {
  send({{"kind", "listens"}, {"at", text_of(standby)}});
}

std::optional<ToldEnd> ParentPipe::next_end() {
  if (!socket_.open()) return std::nullopt;
  const bool open = read_available(socket_, in_, kMostFromMember + 4);
  Json message;
  while (decode_message(in_, kMostFromMember, message) == Decoded::kMessage) {
    const auto proof = proof_in(message);
    if (!proof || text_field(message, "kind") != "ended") continue;
    return ToldEnd{*proof, text_field(message, "why").value_or("")};
  }
  if (!open) socket_.close();
  return std::nullopt;
}

}  // namespace reigen
