// JSON of workers and memberships for the messages between standby ports, and for the pipe to a
// launcher. Readers return nothing for any other content.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "dist/members/control_channel.h"
#include "dist/members/forming/assembly.h"
#include "dist/members/forming/succession.h"

namespace reigen {

Json json_of(const WorkerId& worker);
std::optional<WorkerId> worker_in(const Json& json);
std::optional<WorkerId> worker_field(const Json& message, const char* name);

Json json_of(const Member& member);
std::optional<Member> member_in(const Json& json);

Json json_of(const Proposal& proposal);
std::optional<Proposal> proposal_in(const Json& json);

Json json_of(const MembershipRecord& record);
std::optional<MembershipRecord> record_in(const Json& json);

Json json_of(const EndProof& proof);
std::optional<EndProof> proof_in(const Json& json);

Json json_of(const Tie& tie);
std::optional<Tie> tie_in(const Json& json);

// The "kind" is that of docs/design/elastic.md: ask, here, join, leave, propose, ...
Json json_of(const FormingMessage& message);
std::optional<FormingMessage> forming_message_in(const Json& json);

// A worker that asks the rank 0 of membership `id` to be added to it.
struct Application {
  std::string id;
  Member member;
  MembershipRecord record;
  std::string witness = {};  // that it reaches
};
Json json_of(const Application& application);
std::optional<Application> application_in(const Json& json);

// The answer to a worker that asks in an older membership: the one that continued without it.
struct Elsewhere {
  int64_t epoch = 0;
  std::string id;
  std::vector<Member> members;  // by rank
};
Json json_of(const Elsewhere& elsewhere);
std::optional<Elsewhere> elsewhere_in(const Json& json);

// What a new process learns from rank 0 before it applies: its number, and what the trainers of the
// job want it to know.
struct Welcome {
  Elsewhere at;
  int number = -1;  // from a worker that is not rank 0
  std::string text;
};
Json json_of(const Welcome& welcome);
std::optional<Welcome> welcome_in(const Json& json);

// Those that a proposal leaves out. Entries that are none are left out, too.
Json json_of(const std::map<WorkerId, LossReason>& reasons);
std::map<WorkerId, LossReason> reasons_in(const Json& list);

// A worker id with random bits, for a process that becomes worker `number`.
WorkerId new_worker(int number);

}  // namespace reigen
