// The trace of chosen steps: which events are in it, on which tracks, at which times.
#include "observe/sample/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reigen {
namespace {

std::vector<Json> spans_of(const Json& events) {
  std::vector<Json> spans;
  for (const Json& event : events) {
    if (event.at("ph") == "X") spans.push_back(event);
  }
  return spans;
}

TEST(Timeline, HasOnlyTheChosenSteps) {
  Timeline timeline(2, 3);
  for (uint64_t step = 1; step <= 4; ++step) {
    timeline.at_step(step);
    EXPECT_EQ(timeline.on(), step == 2 || step == 3);
    timeline.mark();
    timeline.lap("forward");
  }
  const auto spans = spans_of(timeline.events(1, "rank 1", 0));
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].at("args").at("step"), 2);
  EXPECT_EQ(spans[1].at("args").at("step"), 3);
  EXPECT_EQ(spans[1].at("pid"), 1);
}

TEST(Timeline, LapsAreConsecutiveAndOtherTracksAreSeparate) {
  Timeline timeline(1, 1);
  timeline.at_step(1);
  timeline.mark();
  const auto begin = Timeline::Clock::now();
  timeline.lap("forward");
  timeline.lap("backward");
  timeline.add("network", "all_reduce", begin, begin + std::chrono::milliseconds(5), 1234);
  const auto spans = spans_of(timeline.events(0, "rank 0", 0));
  ASSERT_EQ(spans.size(), 3U);
  const double end = spans[0].at("ts").get<double>() + spans[0].at("dur").get<double>();
  EXPECT_NEAR(end, spans[1].at("ts").get<double>(), 0.01);
  EXPECT_EQ(spans[0].at("tid"), spans[1].at("tid"));
  EXPECT_NE(spans[2].at("tid"), spans[1].at("tid"));
  EXPECT_NEAR(spans[2].at("dur").get<double>(), 5000, 0.01);
  EXPECT_EQ(spans[2].at("args").at("bytes"), 1234);
}

TEST(Timeline, SubtractsTheOffsetOfTheClock) {
  Timeline timeline(1, 1);
  timeline.at_step(1);
  const Timeline::Clock::time_point zero;
  timeline.add("network", "sum", zero + std::chrono::seconds(10), zero + std::chrono::seconds(11));
  const auto spans = spans_of(timeline.events(0, "rank 0", 2.5));
  EXPECT_NEAR(spans[0].at("ts").get<double>(), 7.5e6, 1e-3);
}

TEST(Timeline, SpansOfADeviceAreConsecutive) {
  Timeline timeline(7, 8);
  for (uint64_t step = 6; step <= 8; ++step) {
    timeline.add_chain("GPU", step, {{"forward", 0.25}, {"backward", 0.5}});
  }
  const auto spans = spans_of(timeline.events(0, "rank 0", 0));
  ASSERT_EQ(spans.size(), 4U);
  for (size_t i = 1; i < 4; ++i) {
    const Json& before = spans[i - 1];
    EXPECT_NEAR(spans[i].at("ts").get<double>(),
                before.at("ts").get<double>() + before.at("dur").get<double>(), 0.01);
  }
  EXPECT_EQ(spans[3].at("args").at("step"), 8);
}

}  // namespace
}  // namespace reigen
