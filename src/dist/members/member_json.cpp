#include "dist/members/member_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/format.h"
#include "base/hash.h"
#include "dist/net/message.h"

namespace reigen {
namespace {

constexpr size_t kProcessBytes = 8;
constexpr size_t kMostListed = 4096;
constexpr int64_t kMostEpochs = 1'000'000'000'000;  // the next one is counted up from it
constexpr int64_t kMostPorts = 65'535;
// Logs have a file for each number.
constexpr int kMostNumbers = 65'535;

// By the value of FormingMessage::Kind. The control channel of the new membership reads messages
// that were on their way when it was formed, so its own words ("leave", which is the proof of an
// orderly end) must not be among them.
constexpr std::array<std::string_view, 8> kKinds = {"ask",     "here",   "join",   "unfollow",
                                                    "propose", "accept", "formed", "aborted"};

// 64 bits as hex digits: JSON readers may keep only 53 bits of a number.
std::optional<uint64_t> hex_number(const std::string& text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value, 16);
  constexpr size_t kMostDigits = 16;
  if (text.empty() || text.size() > kMostDigits || read.ec != std::errc() || read.ptr != end)
    return std::nullopt;
  return value;
}

template <class T>
Json list_of(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(json_of(value));
  return list;
}

// An absent list is empty.
template <class T, class Read>
bool read_list(const Json& json, const char* name, std::vector<T>& into, Read read) {
  const auto list = json.find(name);
  if (list == json.end()) return true;
  if (!list->is_array() || list->size() > kMostListed) return false;
  for (const Json& entry : *list) {
    std::optional<T> value = read(entry);
    if (!value) return false;
    into.push_back(std::move(*value));
  }
  return true;
}

bool flag(const Json& json, const char* name) {
  const auto field = json.find(name);
  return field != json.end() && field->is_boolean() && field->get<bool>();
}

bool read_asking(const Json& json, FormingMessage& message) {
  const auto worker = worker_field(json, "worker");
  const auto record = json.find("record");
  const auto known = record == json.end() ? std::nullopt : record_in(*record);
  if (!worker || !known) return false;
  message.asking = {.worker = *worker, .record = *known, .has_state = !flag(json, "stateless")};
  const auto step = [&](const char* name) {
    return static_cast<uint64_t>(std::max<int64_t>(number_field(json, name).value_or(0), 0));
  };
  message.asking.writing = {.able = !flag(json, "unable"),
                            .writes = flag(json, "writes"),
                            .sees_directory = flag(json, "sees_directory"),
                            .copy = {step("copy_checkpoint"), step("copy_logged")}};
  message.asking.witness = text_field(json, "witness").value_or("");
  return read_list(json, "ended", message.ended, proof_in) &&
         read_list(json, "lost", message.lost, worker_in) &&
         read_list(json, "unreachable", message.unreachable, worker_in) &&
         read_list(json, "given_up", message.given_up, worker_in);
}

void write_asking(const FormingMessage& message, Json& json) {
  const Asking& asking = message.asking;
  json.update({{"worker", json_of(asking.worker)},
               {"record", json_of(asking.record)},
               {"stateless", !asking.has_state},
               {"unable", !asking.writing.able},
               {"writes", asking.writing.writes},
               {"sees_directory", asking.writing.sees_directory},
               {"copy_checkpoint", asking.writing.copy.checkpoint},
               {"copy_logged", asking.writing.copy.logged},
               {"witness", asking.witness},
               {"ended", list_of(message.ended)},
               {"lost", list_of(message.lost)},
               {"unreachable", list_of(message.unreachable)},
               {"given_up", list_of(message.given_up)}});
}

}  // namespace

Json json_of(const WorkerId& worker) {
  return {{"number", worker.number}, {"process", format("{:016x}", worker.process)}};
}

std::optional<WorkerId> worker_in(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto number = number_field(json, "number");
  const auto process = hex_number(text_field(json, "process").value_or(""));
  if (!number || *number < 0 || *number > kMostNumbers || !process) return std::nullopt;
  return WorkerId{static_cast<int>(*number), *process};
}

std::optional<WorkerId> worker_field(const Json& message, const char* name) {
  const auto field = message.find(name);
  return field == message.end() ? std::nullopt : worker_in(*field);
}

Json json_of(const Member& member) {
  return {{"worker", json_of(member.id)}, {"rank", member.rank}, {"host", member.host},
          {"address", member.address},    {"port", member.port}, {"standby", member.standby}};
}

std::optional<Member> member_in(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto worker = worker_field(json, "worker");
  const auto rank = number_field(json, "rank");
  const auto host = text_field(json, "host");
  const auto address = text_field(json, "address");
  const auto port = number_field(json, "port");
  const auto standby = number_field(json, "standby");
  if (!worker || !rank || !host || !address || !port || !standby) return std::nullopt;
  const auto within = [](int64_t value, int64_t most) { return value >= 0 && value <= most; };
  if (!within(*rank, kMostListed) || !within(*port, kMostPorts) || !within(*standby, kMostPorts)) {
    return std::nullopt;
  }
  return Member{.id = *worker,
                .rank = static_cast<int>(*rank),
                .host = *host,
                .address = *address,
                .port = static_cast<int>(*port),
                .standby = static_cast<int>(*standby)};
}

Json json_of(const Proposal& proposal) {
  Json json = {
      {"epoch", proposal.epoch}, {"id", proposal.id}, {"members", list_of(proposal.members)}};
  if (proposal.added > 0) json["added"] = proposal.added;
  if (!proposal.witness.empty()) json["witness"] = proposal.witness;
  return json;
}

std::optional<Proposal> proposal_in(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto epoch = number_field(json, "epoch");
  const auto id = text_field(json, "id");
  if (!epoch || *epoch < 0 || *epoch > kMostEpochs || !id) return std::nullopt;
  Proposal proposal{.epoch = *epoch, .id = *id};
  if (!read_list(json, "members", proposal.members, worker_in)) return std::nullopt;
  const int64_t added = number_field(json, "added").value_or(0);
  if (added < 0 || added > static_cast<int64_t>(proposal.members.size())) return std::nullopt;
  proposal.added = static_cast<size_t>(added);
  proposal.witness = text_field(json, "witness").value_or("");
  return proposal;
}

Json json_of(const MembershipRecord& record) {
  return {{"formed", json_of(record.formed)},
          {"open", list_of(record.open)},
          {"aborted", record.aborted}};
}

std::optional<MembershipRecord> record_in(const Json& json) {
  if (!json.is_object() || !json.contains("formed")) return std::nullopt;
  const auto formed = proposal_in(json["formed"]);
  if (!formed) return std::nullopt;
  MembershipRecord record{.formed = *formed};
  const auto text = [](const Json& entry) {
    return entry.is_string() ? std::optional(entry.get<std::string>()) : std::nullopt;
  };
  const bool whole = read_list(json, "open", record.open, proposal_in) &&
                     read_list(json, "aborted", record.aborted, text);
  return whole ? std::optional(record) : std::nullopt;
}

Json json_of(const EndProof& proof) {
  return {{"worker", json_of(proof.worker)}, {"record", json_of(proof.record)}};
}

std::optional<EndProof> proof_in(const Json& json) {
  if (!json.is_object() || !json.contains("record")) return std::nullopt;
  const auto worker = worker_field(json, "worker");
  const auto record = record_in(json["record"]);
  if (!worker || !record) return std::nullopt;
  return EndProof{.worker = *worker, .record = *record};
}

Json json_of(const Tie& tie) {
  return {{"membership", tie.membership}, {"half", list_of(tie.half)}};
}

std::optional<Tie> tie_in(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto membership = text_field(json, "membership");
  Tie tie{membership.value_or(""), {}};
  const bool whole = membership && read_list(json, "half", tie.half, worker_in);
  return whole && !tie.half.empty() ? std::optional(tie) : std::nullopt;
}

Json json_of(const FormingMessage& message) {
  using Kind = FormingMessage::Kind;
  Json json = {{"kind", kKinds[static_cast<size_t>(message.kind)]}};
  if (message.follows) json["follows"] = json_of(*message.follows);
  if (message.kind == Kind::kJoin) write_asking(message, json);
  if (message.kind >= Kind::kPropose) json["proposal"] = json_of(message.proposal);
  return json;
}

std::optional<FormingMessage> forming_message_in(const Json& json) {
  using Kind = FormingMessage::Kind;
  const auto name = std::find(kKinds.begin(), kKinds.end(), text_field(json, "kind").value_or(""));
  if (name == kKinds.end()) return std::nullopt;
  FormingMessage message{.kind = static_cast<Kind>(name - kKinds.begin())};
  if (json.contains("follows")) {
    message.follows = worker_field(json, "follows");
    if (!message.follows) return std::nullopt;
  }
  if (message.kind == Kind::kJoin && !read_asking(json, message)) return std::nullopt;
  if (message.kind < Kind::kPropose) return message;
  const auto proposal = json.find("proposal");
  const auto read = proposal == json.end() ? std::nullopt : proposal_in(*proposal);
  if (!read) return std::nullopt;
  message.proposal = *read;
  return message;
}

Json json_of(const Application& application) {
  return {{"kind", "apply"},
          {"id", application.id},
          {"member", json_of(application.member)},
          {"record", json_of(application.record)},
          {"witness", application.witness}};
}

std::optional<Application> application_in(const Json& json) {
  if (!json.is_object() || !json.contains("member") || !json.contains("record")) {
    return std::nullopt;
  }
  const auto id = text_field(json, "id");
  const auto member = member_in(json["member"]);
  const auto record = record_in(json["record"]);
  if (!id || !member || !record) return std::nullopt;
  return Application{*id, *member, *record, text_field(json, "witness").value_or("")};
}

Json json_of(const Elsewhere& elsewhere) {
  return {{"kind", "elsewhere"},
          {"epoch", elsewhere.epoch},
          {"id", elsewhere.id},
          {"members", list_of(elsewhere.members)}};
}

std::optional<Elsewhere> elsewhere_in(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto epoch = number_field(json, "epoch");
  const auto id = text_field(json, "id");
  if (!epoch || *epoch < 0 || *epoch > kMostEpochs || !id) return std::nullopt;
  Elsewhere elsewhere{.epoch = *epoch, .id = *id};
  const bool whole = read_list(json, "members", elsewhere.members, member_in);
  return whole && !elsewhere.members.empty() ? std::optional(elsewhere) : std::nullopt;
}

Json json_of(const Welcome& welcome) {
  return {{"kind", "welcome"},
          {"at", json_of(welcome.at)},
          {"number", welcome.number},
          {"text", welcome.text}};
}

std::optional<Welcome> welcome_in(const Json& json) {
  if (!json.is_object() || !json.contains("at")) return std::nullopt;
  const auto at = elsewhere_in(json["at"]);
  const auto number = number_field(json, "number");
  const auto text = text_field(json, "text");
  if (!at || !number || *number < -1 || *number > kMostNumbers || !text) return std::nullopt;
  return Welcome{*at, static_cast<int>(*number), *text};
}

Json json_of(const std::map<WorkerId, LossReason>& reasons) {
  Json list = Json::array();
  for (const auto& [worker, reason] : reasons) {
    list.push_back({{"worker", json_of(worker)},
                    {"why", reason.why},
                    {"proven", Json(reason.proven)},
                    {"left", Json(reason.left)}});
  }
  return list;
}

std::map<WorkerId, LossReason> reasons_in(const Json& list) {
  std::map<WorkerId, LossReason> reasons;
  for (const Json& entry : list) {
    const auto worker = worker_field(entry, "worker");
    if (!worker) continue;
    reasons[*worker] = {text_field(entry, "why").value_or(""), flag(entry, "proven"),
                        flag(entry, "left")};
  }
  return reasons;
}

WorkerId new_worker(int number) {
  return {number, hex_number(random_hex(kProcessBytes)).value_or(0)};
}

}  // namespace reigen
