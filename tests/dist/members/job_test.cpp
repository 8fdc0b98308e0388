// The collective operations of a job, and which ranks share a machine.
#include "dist/members/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/error.h"
#include "base/format.h"
#include "dist/members/job_fixture.h"

namespace reigen {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Job, OfASingleWorkerNeedsNoNetwork) {
  Job job;
  EXPECT_EQ(job.rank(), 0);
  EXPECT_EQ(job.size(), 1);
  EXPECT_TRUE(job.first());
  EXPECT_TRUE(job.alone());
  EXPECT_TRUE(job.first_here());
  EXPECT_THAT(job.ranks_here(), ElementsAre(0));
  EXPECT_TRUE(job.any(true));
  EXPECT_FALSE(job.any(false));
  job.barrier();
  EXPECT_EQ(job.broadcast(uint64_t{7}), 7u);
  EXPECT_EQ(job.broadcast(std::string("text")), "text");
  EXPECT_THAT(job.gather("text"), ElementsAre("text"));
  job.leave();
}

TEST(Job, AnyIsTrueOnAllRanksIfItIsTrueOnOne) {
  with_job(3, [](Job& job) {
    EXPECT_TRUE(job.any(job.rank() == 2));
    EXPECT_TRUE(job.any(true));
    EXPECT_FALSE(job.any(false));
  });
}

// As while a run is set up, when nothing of it can continue.
TEST(Job, OfElasticWorkersKnowsTheErrorBehindALoss) {
  with_elastic_job(3, [](Job& job) {
    try {
      job.barrier();  // whoever is still connecting learns of the error in a different way
      if (job.rank() == 2) return job.membership()->control().report_error("the data differ");
      while (true) job.barrier();
    } catch (const WorkerLost& lost) {
      EXPECT_THAT(job.cause_of(lost.status).what(), HasSubstr("the data differ"));
      EXPECT_THAT(job.cause_of(lost.status).what(), HasSubstr("rank 2 (host2)"));
    }
  });
}

TEST(Job, BarrierWaitsForAllRanks) {
  std::atomic<int> arrived = 0;
  with_job(3, [&](Job& job) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      job.barrier();
      EXPECT_GE(arrived.load(), 3 * round);
      job.barrier();
    }
  });
}

TEST(Job, BroadcastsRankZerosValues) {
  with_job(3, [](Job& job) {
    const bool first = job.first();
    // A double could not hold this number.
    const uint64_t large = (uint64_t{1} << 63) + 1;
    EXPECT_EQ(job.broadcast(first ? large : 5), large);
    EXPECT_EQ(job.broadcast(first ? std::string("a\0b", 3) : "other text"), std::string("a\0b", 3));
    EXPECT_EQ(job.broadcast(std::string(first ? "" : "text")), "");
    std::vector<float> values(1000, first ? 1.5F : 0.0F);
    job.broadcast(values);
    EXPECT_THAT(values, testing::Each(1.5F));
    double number = first ? 0.1 : 0;
    job.broadcast(std::as_writable_bytes(std::span(&number, 1)));
    EXPECT_EQ(number, 0.1);
  });
}

TEST(Job, GathersAtRankZeroAndScattersFromIt) {
  with_job(3, [](Job& job) {
    const std::vector<std::string> texts =
        job.gather(job.rank() == 1 ? "" : format("rank {}", job.rank()));
    const std::vector<float> mine(4, static_cast<float>(job.rank()));
    const std::vector<std::vector<float>> numbers = job.gather(std::span<const float>(mine));
    if (job.first()) {
      EXPECT_THAT(texts, ElementsAre("rank 0", "", "rank 2"));
      ASSERT_EQ(numbers.size(), 3u);
      for (size_t r = 0; r < 3; ++r) EXPECT_EQ(numbers[r], std::vector<float>(4, float(r)));
    } else {
      EXPECT_THAT(texts, IsEmpty());
      EXPECT_THAT(numbers, IsEmpty());
    }
    std::vector<float> share(4);
    job.scatter(
        [&](int rank) -> std::span<const float> { return numbers[static_cast<size_t>(rank)]; },
        share);
    EXPECT_EQ(share, mine);
  });
}

TEST(Job, SumsValuesAndVotesTogether) {
  with_job(3, [](Job& job) {
    EXPECT_EQ(job.agreed().interrupted, 0);
    job.vote({.interrupted = job.rank() == 2 ? 1.0 : 0.0});
    double values[] = {static_cast<double>(job.rank()), 0.5};
    job.sum_and_agree(values);
    EXPECT_EQ(values[0], 3);
    EXPECT_EQ(values[1], 1.5);
    EXPECT_EQ(job.agreed().interrupted, 1);
    EXPECT_EQ(job.agreed().time_over, 0);
    job.vote({.time_over = 1, .decay_steps = job.first() ? 7.0 : 0.0, .save = 1});
    job.sum_and_agree(values);
    EXPECT_EQ(job.agreed().interrupted, 0);
    EXPECT_EQ(job.agreed().time_over, 3);
    EXPECT_EQ(job.agreed().decay_steps, 7);
    EXPECT_EQ(job.agreed().save, 3);
  });
}

TEST(Job, EndsOnAllRanksWithTheReasonOfTheOneThatGaveUp) {
  std::atomic<int> ended = 0;
  auto body = [&](Job& job) {
    try {
      job.barrier();
      if (job.rank() == 1) job.give_up("the disk is full");
      while (true) job.barrier();
    } catch (const CommError& e) {
      ++ended;
      if (job.rank() == 1) throw;
      EXPECT_THAT(e.what(), HasSubstr("rank 1"));
      EXPECT_THAT(e.what(), HasSubstr("the disk is full"));
      throw;
    }
  };
  EXPECT_THROW(with_job(3, body), CommError);
  EXPECT_EQ(ended, 3);
}

TEST(Job, NamesTheRanksOfThisMachine) {
  with_job(
      4,
      [](Job& job) {
        const bool low = job.rank() < 2;
        EXPECT_THAT(job.ranks_here(), low ? ElementsAre(0, 1) : ElementsAre(2, 3));
        EXPECT_EQ(job.first_here(), job.rank() % 2 == 0);
      },
      2);
}

// Containers often have the same host name; their addresses differ.
TEST(Machines, OfTheSameNameDifferByTheirAddress) {
  const std::vector<Member> members = {{.rank = 0, .host = "box", .address = "10.0.0.1"},
                                       {.rank = 1, .host = "box", .address = "10.0.0.2"},
                                       {.rank = 2, .host = "box", .address = "10.0.0.1"},
                                       {.rank = 3, .host = "other", .address = "10.0.0.1"}};
  EXPECT_THAT(ranks_on_machine_of(0, members), ElementsAre(0, 2));
  EXPECT_THAT(ranks_on_machine_of(1, members), ElementsAre(1));
  EXPECT_THAT(ranks_on_machine_of(2, members), ElementsAre(0, 2));
  EXPECT_THAT(first_rank_of_each_machine(members), ElementsAre(0, 1, 3));
}

}  // namespace
}  // namespace reigen
