#include "dist/members/member_json.h"

#include <gtest/gtest.h>

#include "dist/net/message.h"

namespace reigen {
namespace {

TEST(MemberJson, KeepsAll64BitsOfAWorker) {
  for (const uint64_t process : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    const WorkerId worker{7, process};
    EXPECT_EQ(worker_in(Json::parse(one_line(json_of(worker)))), worker);
  }
}

TEST(MemberJson, AWorkerThatIsNoneIsNothing) {
  for (const char* text :
       {R"(3)", R"({})", R"({"number": 1})", R"({"number": -1, "process": "a"})",
        R"({"number": 1, "process": 5})", R"({"number": 1, "process": ""})",
        R"({"number": 1, "process": "0123456789abcdef0"})", R"({"number": 1, "process": "-1"})",
        R"({"number": 9999999999, "process": "1"})"}) {
    EXPECT_EQ(worker_in(Json::parse(text)), std::nullopt) << text;
  }
}

Proposal membership(int64_t epoch, const std::string& id) {
  return {.epoch = epoch, .id = id, .members = {{0, 5}, {2, ~uint64_t{0}}}};
}

std::string again(const Json& json) { return one_line(json); }

TEST(MemberJson, MessagesOfAFormingArriveAsTheyWereSent) {
  using Kind = FormingMessage::Kind;
  const MembershipRecord record{.formed = membership(3, "a"),
                                .open = {membership(4, "b"), membership(5, "c")},
                                .aborted = {"d"}};
  FormingMessage join{.kind = Kind::kJoin};
  join.asking = {.worker = {1, 9},
                 .record = record,
                 .has_state = false,
                 .writing = {.writes = true, .sees_directory = true, .copy = {1'234, 1'250}},
                 .witness = "launcher"};
  join.ended = {{.worker = {2, 8}, .record = record}};
  join.lost = {{2, 8}, {3, 7}};
  join.unreachable = {{3, 7}};
  const std::vector<FormingMessage> messages = {
      {.kind = Kind::kAsk},
      {.kind = Kind::kHere},
      {.kind = Kind::kHere, .follows = WorkerId{4, 6}},
      join,
      {.kind = Kind::kLeave},
      {.kind = Kind::kPropose, .proposal = membership(6, "e")},
      {.kind = Kind::kAccept, .proposal = membership(6, "e")},
      {.kind = Kind::kFormed, .proposal = membership(6, "e")},
      {.kind = Kind::kFormed,
       .proposal =
           {.epoch = 7, .id = "f", .members = {{0, 5}, {2, 6}}, .added = 1, .witness = "launcher"}},
      {.kind = Kind::kAborted, .proposal = membership(6, "e")},
      {.kind = Kind::kAborted}};
  for (const FormingMessage& message : messages) {
    const Json sent = json_of(message);
    const auto read = forming_message_in(Json::parse(again(sent)));
    ASSERT_TRUE(read) << again(sent);
    EXPECT_EQ(read->kind, message.kind);
    EXPECT_EQ(again(json_of(*read)), again(sent));
  }
  const FormingMessage read = *forming_message_in(json_of(join));
  EXPECT_FALSE(read.asking.has_state);
  EXPECT_EQ(read.asking.writing, join.asking.writing);
  EXPECT_EQ(read.asking.record.open.at(1).members, membership(5, "c").members);
  EXPECT_EQ(read.ended.at(0).record.formed.id, "a");
  EXPECT_EQ(read.unreachable, join.unreachable);
  EXPECT_EQ(read.asking.witness, "launcher");
  EXPECT_EQ(forming_message_in(json_of(messages.at(8)))->proposal.witness, "launcher");
}

// The control channel may read it, and "leave" is the proof there that a worker has ended.
TEST(MemberJson, LeavingAHostIsNotLeavingTheJob) {
  EXPECT_EQ(text_field(json_of(FormingMessage{.kind = FormingMessage::Kind::kLeave}), "kind"),
            "unfollow");
}

TEST(MemberJson, AMessageWithAPartThatIsNoneIsNothing) {
  for (const char* text :
       {R"({"kind": "sing"})", R"({"kind": "here", "follows": 1})", R"({"kind": "join"})",
        R"({"kind": "join", "worker": {"number": 1, "process": "1"}, "record": []})",
        R"({"kind": "join", "worker": {"number": 1, "process": "1"}, "record": {"formed": 1}})",
        R"({"kind": "propose"})", R"({"kind": "propose", "proposal": {"epoch": "1", "id": "a"}})",
        R"({"kind": "formed", "proposal": {"epoch": 1, "id": "a", "members": [1]}})",
        R"({"kind": "formed", "proposal": {"epoch": 1, "id": "a", "members": {}}})",
        R"({"kind": "formed", "proposal": {"epoch": -1, "id": "a"}})",
        R"({"kind": "formed", "proposal": {"epoch": 9223372036854775807, "id": "a"}})",
        R"({"kind": "formed", "proposal": {"epoch": 1, "id": "a", "added": 1}})"}) {
    EXPECT_FALSE(forming_message_in(Json::parse(text))) << text;
  }
}

Member member(int number) {
  return {.id = {number, 9},
          .rank = 1,
          .host = "vm1",
          .address = "10.0.0.2",
          .port = 65'535,
          .standby = 1'024};
}

TEST(MemberJson, AnApplicationArrivesAsItWasSent) {
  const Application sent{"a", member(4), {.formed = membership(3, "b")}, "launcher"};
  const auto read = application_in(Json::parse(again(json_of(sent))));
  ASSERT_TRUE(read);
  EXPECT_EQ(again(json_of(*read)), again(json_of(sent)));
  EXPECT_EQ(read->witness, "launcher");
  for (const char* part : {"id", "member", "record"}) {
    Json without = json_of(sent);
    without.erase(part);
    EXPECT_FALSE(application_in(without)) << part;
  }
  for (const char* port : {"port", "standby"}) {
    Json wrong = json_of(sent);
    wrong["member"][port] = 65'536;
    EXPECT_FALSE(application_in(wrong)) << port;
  }
}

TEST(MemberJson, ATieArrivesAsItWasSent) {
  const Tie sent{"a", {{0, 5}, {2, 6}}};
  EXPECT_EQ(tie_in(Json::parse(again(json_of(sent)))), sent);
  for (const char* part : {"membership", "half"}) {
    Json without = json_of(sent);
    without.erase(part);
    EXPECT_FALSE(tie_in(without)) << part;
  }
}

TEST(MemberJson, AMembershipElsewhereArrivesAsItWasSent) {
  const Elsewhere sent{7, "a", {member(4), member(5)}};
  const auto read = elsewhere_in(Json::parse(again(json_of(sent))));
  ASSERT_TRUE(read);
  EXPECT_EQ(again(json_of(*read)), again(json_of(sent)));
  EXPECT_FALSE(elsewhere_in(json_of(Elsewhere{7, "a", {}})));
  EXPECT_FALSE(elsewhere_in(Json::parse(R"({"kind": "elsewhere", "epoch": 7, "id": "a"})")));
  EXPECT_FALSE(elsewhere_in(Json(3)));
}

TEST(MemberJson, AWelcomeArrivesAsItWasSent) {
  const Welcome sent{{7, "a", {member(4), member(5)}}, 6, "options: all"};
  const auto read = welcome_in(Json::parse(again(json_of(sent))));
  ASSERT_TRUE(read);
  EXPECT_EQ(again(json_of(*read)), again(json_of(sent)));
  for (const char* part : {"at", "number", "text"}) {
    Json without = json_of(sent);
    without.erase(part);
    EXPECT_FALSE(welcome_in(without)) << part;
  }
  Json wrong = json_of(sent);
  wrong["number"] = 65'536;
  EXPECT_FALSE(welcome_in(wrong));
}

TEST(MemberJson, ProcessesOfOneNumberDiffer) { EXPECT_NE(new_worker(2), new_worker(2)); }

}  // namespace
}  // namespace reigen
