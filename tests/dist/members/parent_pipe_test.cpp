#include "dist/members/parent_pipe.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/interrupt.h"
#include "dist/members/member_json.h"
#include "dist/net/message.h"

namespace reigen {
namespace {

struct PipeEnds {
  PipeEnds() {
    ignore_broken_pipes();
    int ends[2] = {-1, -1};
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends);
    worker = ParentPipe(Socket(ends[0]));
    parent = Socket(ends[1]);
  }
  std::vector<Json> received() {
    std::string bytes;
    read_available(parent, bytes, kMostFromMember);
    std::vector<Json> messages;
    Json message;
    while (decode_message(bytes, kMostFromMember, message) == Decoded::kMessage) {
      messages.push_back(message);
    }
    return messages;
  }
  void send(const Json& message) {
    std::string bytes = encode_message(message);
    write_available(parent, bytes);
  }

  ParentPipe worker;
  Socket parent;
};

TEST(ParentPipe, ARank0ThatLeavesIsNoWriterAnyMore) {
  const WorkerId self{3, 17};
  const MembershipRecord record{.formed = {.epoch = 1, .id = "a", .members = {self, {4, 5}}}};
  PipeEnds pipe;
  pipe.worker.store(self, record);
  pipe.worker.store_left(self, record);
  const std::vector<Json> sent = pipe.received();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_TRUE(is_writer(sent[0]));
  EXPECT_FALSE(is_writer(sent[1]));
  EXPECT_TRUE(end_message(sent[1], "has ended"));
}

TEST(ParentPipe, TheLastRecordMakesTheProofOfTheEnd) {
  const WorkerId self{3, 17};
  MembershipRecord record{.formed = {.epoch = 1, .id = "a", .members = {self}}};
  PipeEnds pipe;
  pipe.worker.store(self, record);
  pipe.worker.store(self, record);
  EXPECT_EQ(pipe.received().size(), 1u);
  record.accept({.epoch = 2, .id = "b", .members = {self}});
  pipe.worker.store(self, record);
  const std::vector<Json> sent = pipe.received();
  ASSERT_EQ(sent.size(), 1u);

  const auto told = end_message(sent[0], "was killed");
  ASSERT_TRUE(told);
  pipe.send({{"kind", "ended"}});  // not whole: ignored
  pipe.send(*told);
  const auto next = pipe.worker.next();
  ASSERT_TRUE(next);
  const auto* end = std::get_if<ToldEnd>(&*next);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->why, "was killed");
  EXPECT_EQ(end->proof.worker, self);
  ASSERT_EQ(end->proof.record.open.size(), 1u);
  EXPECT_EQ(end->proof.record.open[0].id, "b");
  EXPECT_FALSE(pipe.worker.next());
}

TEST(ParentPipe, TheParentAnswersAsTheWitness) {
  const Tie tie{"first", {{0, 4}, {1, 5}}};
  PipeEnds pipe;
  pipe.worker.store({0, 4}, {});
  pipe.worker.ask(tie);
  pipe.worker.store({0, 4}, {});  // is stored already
  const std::vector<Json> asked = pipe.received();
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_FALSE(is_question(asked[0]));
  ASSERT_TRUE(is_question(asked[1]));
  Witness witness;
  for (const bool granted : {true, false}) {
    pipe.send(answer_of(witness, asked[1]).value());
    const auto next = pipe.worker.next();
    ASSERT_TRUE(next);
    const auto* answer = std::get_if<WitnessAnswer>(&*next);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->tie, tie);
    EXPECT_EQ(answer->granted, granted);
    witness = {};
    witness.grants({"first", {{2, 6}}});
  }
  EXPECT_FALSE(answer_of(witness, asked[0]));
  pipe.send({{"kind", "witness"}, {"granted", true}});  // not whole: ignored
  pipe.send(witness_lost_message());
  const auto lost = pipe.worker.next();
  EXPECT_TRUE(lost && std::holds_alternative<WitnessLost>(*lost));
}

TEST(ParentPipe, AParentLearnsWhereAWorkerCanBeAskedAndItsNumber) {
  PipeEnds pipe;
  pipe.worker.store({3, 17}, {.formed = {.epoch = 1, .id = "a", .members = {{3, 17}}}});
  pipe.worker.store_address({"10.0.0.1", 4711});
  const std::vector<Json> sent = pipe.received();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(number_of(sent[0]), 3);
  EXPECT_FALSE(address_in(sent[0]));
  EXPECT_EQ(address_in(sent[1]), "10.0.0.1:4711");
  EXPECT_FALSE(number_of(sent[1]));
}

TEST(ParentPipe, NothingHappensWithoutAParentOrAfterItsEnd) {
  ParentPipe none;
  none.store({1, 1}, {});
  EXPECT_FALSE(none.next());
  PipeEnds pipe;
  pipe.parent.close();
  pipe.worker.store({1, 1}, {});
  EXPECT_FALSE(pipe.worker.next());
  EXPECT_LT(pipe.worker.fd(), 0);
}

TEST(ParentPipe, ARecordThatIsNoneIsNoProof) {
  EXPECT_FALSE(end_message({{"kind", "record"}}, "was killed"));
}

}  // namespace
}  // namespace reigen
