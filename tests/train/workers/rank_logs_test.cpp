// Records of ranks that are threads of this process, gathered at rank 0.
#include "train/workers/rank_logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dist/members/job_fixture.h"

namespace reigen {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

StepRecord measured_step(uint64_t number, double seconds) {
  StepRecord record;
  record.step = number;
  record.seconds = seconds;
  record.communication = CommunicationTimes{.sent = 100};
  return record;
}

std::vector<SpansRecord> spans_in(const std::vector<Record>& records) {
  std::vector<SpansRecord> found;
  for (const Record& record : records) {
    if (const auto* spans = std::get_if<SpansRecord>(&record)) found.push_back(*spans);
  }
  return found;
}

TEST(RankLogs, AreSumsOfAboutASecondPerRankAndReachRankZero) {
  with_job(
      3,
      [](Job& job) {
        RankLogs logs(job, false, 1);
        for (uint64_t step = 1; step <= 4; ++step) logs.step(measured_step(step, 0.375));
        const std::vector<std::vector<Record>> records = logs.exchange();
        if (!job.first()) {
          EXPECT_THAT(records, IsEmpty());
          EXPECT_THAT(logs.exchange(), IsEmpty());
          return;
        }
        ASSERT_THAT(records, SizeIs(3));
        EXPECT_THAT(spans_in(records[0]), IsEmpty());  // rank 0 logs each step
        for (size_t rank : {1, 2}) {
          const std::vector<SpansRecord> spans = spans_in(records[rank]);
          ASSERT_THAT(spans, SizeIs(2));
          EXPECT_EQ(spans[0].step, 3u);  // a second is over
          EXPECT_EQ(spans[0].steps, 3u);
          EXPECT_EQ(spans[0].seconds, 1.125);
          EXPECT_EQ(spans[0].communication.sent, 300u);
          EXPECT_EQ(spans[1].step, 4u);  // the rest, at the exchange
          EXPECT_EQ(spans[1].steps, 1u);
        }
        for (const auto& later : logs.exchange()) EXPECT_THAT(spans_in(later), IsEmpty());
      },
      3);
}

}  // namespace
}  // namespace reigen
