// Elastic jobs in one process: workers are threads, which end without a word; the others form the
// next membership over real connections.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "dist/members/join_question.h"
#include "dist/members/membership.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

using Body = std::function<void(Membership&, int rank)>;

// The body of a worker that is to be lost returns without leave(). Adds what it threw.
std::vector<std::string> run_elastic(int size, const Body& body,
                                     milliseconds pause_limit = milliseconds(60'000),
                                     milliseconds stall = milliseconds(0)) {
  Socket listener = listen_on("127.0.0.1", 0);
  const Endpoint at{"127.0.0.1", port_of(listener)};
  std::vector<std::thread> threads;
  std::vector<std::string> errors(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      MembershipOptions options;
      options.rank = rank;
      options.size = size;
      options.rendezvous = {at};
      if (rank == 0) options.listener = std::move(listener);
      options.token = "token";
      options.host = format("vm{}", rank);
      options.silence = milliseconds(20'000);
      options.start_within = milliseconds(20'000);
      options.elastic = true;
      options.pause_limit = pause_limit;
      options.timeout = stall;
      try {
        Membership membership(std::move(options));
        body(membership, rank);
      } catch (const CommError& e) {
        errors[static_cast<size_t>(rank)] = e.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

// Exchanges until an operation fails.
CommStatus until_a_loss(Membership& membership) {
  std::vector<float> data(10'000, 1.0f);
  CommStatus status;
  while (status.ok()) status = membership.group().all_reduce(data).wait();
  return status;
}

std::vector<int> numbers(const Membership& membership) {
  std::vector<int> found;
  for (const Member& member : membership.members()) found.push_back(member.id.number);
  return found;
}

std::vector<int> numbers_lost(const MembershipChange& change) {
  std::vector<int> found;
  for (const auto& lost : change.lost) found.push_back(lost.member.id.number);
  return found;
}

void expect_sum_over_all(Membership& membership) {
  std::vector<float> ones(1'000, 1.0f);
  ASSERT_TRUE(membership.group().all_reduce(ones).wait().ok());
  EXPECT_THAT(ones, testing::Each(static_cast<float>(membership.members().size())));
}

// A worker that ends while others still add up takes that sum from them. One that is to be lost
// after a sum waits here until all have it.
class Finished {
 public:
  void note() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void wait_for(int count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, milliseconds(20'000), [&] { return count_ >= count; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

TEST(NextMembership, SurvivorsOfAnyWorkerContinue) {
  for (const int lost : {0, 1, 3}) {
    const auto errors = run_elastic(4, [&](Membership& membership, int rank) {
      membership.group().barrier().wait();
      if (rank == lost) return;
      const std::string before = membership.forming_id();
      const MembershipChange change = membership.form_next(until_a_loss(membership));
      std::vector<int> expected = {0, 1, 2, 3};
      std::erase(expected, lost);
      EXPECT_EQ(numbers(membership), expected);
      EXPECT_THAT(numbers_lost(change), ElementsAre(lost));
      EXPECT_EQ(change.lost.at(0).member.host, format("vm{}", lost));
      EXPECT_EQ(membership.self().id.number, rank);
      EXPECT_EQ(membership.epoch(), 1);
      EXPECT_NE(membership.forming_id(), before);
      expect_sum_over_all(membership);
      EXPECT_TRUE(membership.leave().ok());
    });
    EXPECT_THAT(errors, testing::Each("")) << lost;
  }
}

// Its other threads answer all the time.
TEST(NextMembership, AWorkerWhoseTrainingThreadHangsIsLeftOutAndJoinsAgain) {
  for (const int hangs : {0, 2}) {
    Finished continued;
    const auto errors = run_elastic(
        3,
        [&](Membership& membership, int rank) {
          expect_sum_over_all(membership);
          MembershipChange change;
          if (rank == hangs) {
            continued.wait_for(2);
            change = membership.form_next(until_a_loss(membership));
            EXPECT_FALSE(membership.has_state());
            membership.received_state();
          } else {
            change = membership.form_next(until_a_loss(membership));
            EXPECT_THAT(numbers_lost(change), ElementsAre(hangs));
            EXPECT_EQ(membership.members().size(), 2u);
            expect_sum_over_all(membership);
            continued.note();
            const bool first = membership.group().rank() == 0;
            while (first && !membership.joiners_wait()) {
              std::this_thread::sleep_for(milliseconds(5));
            }
            membership.group().barrier().wait();
            change = membership.form_next(CommStatus::closed("workers are added"));
            ASSERT_EQ(change.joined.size(), 1u);
            EXPECT_EQ(change.joined[0].id.number, hangs);
          }
          EXPECT_EQ(membership.members().size(), 3u);
          EXPECT_EQ(numbers(membership).back(), hangs);
          EXPECT_TRUE(membership.has_state());
          expect_sum_over_all(membership);
          EXPECT_TRUE(membership.leave().ok());
        },
        milliseconds(60'000), milliseconds(1'000));
    EXPECT_THAT(errors, testing::Each(""));
  }
}

JoinQuestion question_to(const Endpoint& at, const std::string& token) {
  JoinQuestion question;
  question.at = {at};
  question.token = token;
  question.encryption = Encryption(Encrypt::kAuto, token);
  question.within = milliseconds(20'000);
  return question;
}

// It asks a worker that is not rank 0, which names rank 0.
TEST(NextMembership, ANewProcessJoinsWithTheNextNumber) {
  std::promise<Endpoint> known;
  std::thread joiner([at = known.get_future()]() mutable {
    const JoinAnswer answer = ask_running_job(question_to(at.get(), "token"));
    EXPECT_EQ(answer.welcome, "of worker 0");
    EXPECT_EQ(answer.job.number, 2);
    MembershipOptions options;
    options.token = "token";
    options.host = "vm2";
    options.silence = options.start_within = milliseconds(20'000);
    Membership membership(std::move(options), answer.job);
    EXPECT_FALSE(membership.has_state());
    EXPECT_EQ(numbers(membership), (std::vector{0, 1, 2}));
    EXPECT_EQ(membership.self().host, "vm2");
    membership.received_state();
    expect_sum_over_all(membership);
    membership.group().barrier().wait();
    const MembershipChange change = membership.form_next(CommStatus::closed("it gets a vote"));
    EXPECT_TRUE(change.joined.empty());
    EXPECT_FALSE(membership.has_added());
    EXPECT_TRUE(membership.has_state());
    expect_sum_over_all(membership);
    EXPECT_TRUE(membership.leave().ok());
  });
  const auto errors = run_elastic(2, [&](Membership& membership, int rank) {
    membership.set_welcome(format("of worker {}", rank));
    membership.group().barrier().wait();
    if (rank == 1) known.set_value(membership.standby_at());
    while (rank == 0 && !membership.joiners_wait()) std::this_thread::sleep_for(milliseconds(5));
    membership.group().barrier().wait();
    const MembershipChange change = membership.form_next(CommStatus::closed("workers are added"));
    ASSERT_EQ(change.joined.size(), 1u);
    EXPECT_EQ(change.joined[0].host, "vm2");
    EXPECT_TRUE(membership.has_added());
    expect_sum_over_all(membership);
    membership.group().barrier().wait();
    membership.form_next(CommStatus::closed("it gets a vote"));
    expect_sum_over_all(membership);
    EXPECT_TRUE(membership.leave().ok());
  });
  joiner.join();
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(NextMembership, AProcessWithAWrongTokenLearnsNothing) {
  const auto errors = run_elastic(2, [&](Membership& membership, int rank) {
    membership.set_welcome("secret");
    if (rank == 1) {
      JoinQuestion question = question_to(membership.standby_at(), "guessed");
      question.within = milliseconds(500);
      EXPECT_THROW(ask_running_job(question), CommError);
    }
    membership.group().barrier().wait();
    EXPECT_FALSE(membership.joiners_wait());
    EXPECT_TRUE(membership.leave().ok());
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(NextMembership, LossesFollowEachOtherUntilOneWorkerIsLeft) {
  Finished sums;
  const auto errors = run_elastic(4, [&](Membership& membership, int rank) {
    // Worker 3 ends first, then 2, then 1.
    for (int size = 4, finished = 4; size > 1; --size, finished += size) {
      expect_sum_over_all(membership);
      sums.note();
      if (rank == size - 1) return sums.wait_for(finished);
      membership.form_next(until_a_loss(membership));
      EXPECT_EQ(membership.members().size(), static_cast<size_t>(size - 1));
      EXPECT_EQ(membership.epoch(), 5 - size);
    }
    expect_sum_over_all(membership);
    EXPECT_EQ(membership.group().size(), 1);
    EXPECT_TRUE(membership.leave().ok());
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(NextMembership, TwoLossesAtOnceAreOneChange) {
  const auto errors = run_elastic(5, [&](Membership& membership, int rank) {
    membership.group().barrier().wait();
    if (rank == 0 || rank == 2) return;
    membership.form_next(until_a_loss(membership));
    // The second loss may be noticed after the first change.
    while (membership.members().size() > 3) membership.form_next(until_a_loss(membership));
    EXPECT_THAT(numbers(membership), ElementsAre(1, 3, 4));
    expect_sum_over_all(membership);
    EXPECT_TRUE(membership.leave().ok());
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(NextMembership, AWorkerThatEndsWhileTheNextIsFormedIsLostToo) {
  for (const int second : {1, 2}) {  // 1 hosts the forming
    const auto errors = run_elastic(5, [&](Membership& membership, int rank) {
      membership.group().barrier().wait();
      if (rank == 0) return;
      const CommStatus status = until_a_loss(membership);
      if (rank == second) return;  // its standby thread forms already, or is about to
      membership.form_next(status);
      while (membership.members().size() > 3) membership.form_next(until_a_loss(membership));
      EXPECT_EQ(numbers(membership), second == 1 ? std::vector({2, 3, 4}) : std::vector({1, 3, 4}));
      expect_sum_over_all(membership);
      EXPECT_TRUE(membership.leave().ok());
    });
    EXPECT_THAT(errors, testing::Each("")) << second;
  }
}

TEST(NextMembership, AFailureWithoutALossLeadsToTheSameMembers) {
  const auto errors = run_elastic(3, [&](Membership& membership, int rank) {
    const std::string before = membership.forming_id();
    membership.group().barrier().wait();
    if (rank == 1) membership.group().close();
    const MembershipChange change = membership.form_next(until_a_loss(membership));
    EXPECT_THAT(change.lost, testing::IsEmpty());
    EXPECT_THAT(numbers(membership), ElementsAre(0, 1, 2));
    EXPECT_NE(membership.forming_id(), before);
    expect_sum_over_all(membership);
    EXPECT_TRUE(membership.leave().ok());
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(NextMembership, OfTwoWorkersTheLowerRankContinuesAloneAndTheOtherPauses) {
  for (const int lost : {0, 1}) {
    const auto errors = run_elastic(
        2,
        [&](Membership& membership, int rank) {
          membership.group().barrier().wait();
          if (rank == lost) return;
          membership.form_next(until_a_loss(membership));
          EXPECT_EQ(rank, 0);  // the other one throws
          expect_sum_over_all(membership);
        },
        milliseconds(2'500));
    EXPECT_EQ(errors[0], "");
    EXPECT_EQ(errors[1].find("1 of 2 workers") != std::string::npos, lost == 0) << errors[1];
  }
}

TEST(NextMembership, TheWriterBecomesRank0AndElseOneThatCouldWrite) {
  Finished sums;
  const auto errors = run_elastic(4, [&](Membership& membership, int rank) {
    membership.set_writing({.writes = rank == 1, .sees_directory = rank == 3});
    membership.group().barrier().wait();
    if (rank == 0) return;
    membership.form_next(until_a_loss(membership));
    EXPECT_THAT(numbers(membership), ElementsAre(1, 2, 3));
    expect_sum_over_all(membership);
    sums.note();
    if (rank == 1) return sums.wait_for(3);
    membership.form_next(until_a_loss(membership));
    EXPECT_THAT(numbers(membership), ElementsAre(3, 2));
    EXPECT_EQ(membership.group().rank(), rank == 3 ? 0 : 1);
    expect_sum_over_all(membership);
    EXPECT_TRUE(membership.leave().ok());
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(NextMembership, AWorkerThatLeftInOrderIsProvenToHaveEnded) {
  const auto errors = run_elastic(4, [&](Membership& membership, int rank) {
    membership.group().barrier().wait();
    if (rank == 1) {
      membership.control().leave();
      std::this_thread::sleep_for(milliseconds(200));
      return;
    }
    const MembershipChange change = membership.form_next(until_a_loss(membership));
    ASSERT_THAT(numbers_lost(change), ElementsAre(1));
    EXPECT_TRUE(change.lost[0].reason.proven);
    EXPECT_THAT(numbers(membership), ElementsAre(0, 2, 3));
    EXPECT_TRUE(membership.leave().ok());
  });
  EXPECT_THAT(errors, testing::Each(""));
}

// The silence limit is longer than the test may take. Of two workers the other needs the proof.
TEST(NextMembership, AWorkerThatLeavesAloneIsNotWaitedFor) {
  for (const int size : {2, 4}) {
    for (const int leaver : {0, 1}) {  // 0 has the server of the control channel
      const auto errors = run_elastic(size, [&](Membership& membership, int rank) {
        if (rank == leaver) {
          EXPECT_TRUE(membership.withdraw());
        }
        membership.group().barrier().wait();
        if (rank == leaver) return membership.leave_alone();
        membership.note_left(leaver);
        const MembershipChange change = membership.form_next(CommStatus::closed("a worker leaves"));
        ASSERT_THAT(numbers_lost(change), ElementsAre(leaver));
        EXPECT_TRUE(change.lost[0].reason.left);
        EXPECT_TRUE(change.lost[0].reason.proven);
        expect_sum_over_all(membership);
        EXPECT_TRUE(membership.leave().ok());
      });
      EXPECT_THAT(errors, testing::Each("")) << size << " " << leaver;
    }
  }
}

// The other one may continue only because it hears of both, one of which has the server.
TEST(NextMembership, TwoWorkersThatLeaveAtOnceAreNotWaitedFor) {
  for (int time = 0; time < 5; ++time) {
    const auto errors = run_elastic(3, [&](Membership& membership, int rank) {
      if (rank < 2) {
        EXPECT_TRUE(membership.withdraw());
      }
      membership.group().barrier().wait();
      if (rank == time % 2) std::this_thread::sleep_for(milliseconds(50));
      if (rank < 2) return membership.leave_alone(2);
      for (const int left : {0, 1}) membership.note_left(left);
      const MembershipChange change = membership.form_next(CommStatus::closed("workers leave"));
      EXPECT_THAT(numbers_lost(change), ElementsAre(0, 1));
      EXPECT_EQ(membership.members().size(), 1u);
      EXPECT_TRUE(membership.leave().ok());
    });
    EXPECT_THAT(errors, testing::Each(""));
  }
}

TEST(NextMembership, TheErrorOfAWorkerIsTheReasonOfItsLoss) {
  const auto errors = run_elastic(3, [&](Membership& membership, int rank) {
    membership.group().barrier().wait();
    if (rank == 2) {
      membership.control().report_error("out of memory");
      std::this_thread::sleep_for(milliseconds(200));
      return;
    }
    const MembershipChange change = membership.form_next(until_a_loss(membership));
    ASSERT_THAT(numbers_lost(change), ElementsAre(2));
    EXPECT_EQ(change.lost[0].reason.why, "it ended with an error: out of memory");
    EXPECT_TRUE(membership.leave().ok());
  });
  EXPECT_THAT(errors, testing::Each(""));
}

}  // namespace
}  // namespace reigen
