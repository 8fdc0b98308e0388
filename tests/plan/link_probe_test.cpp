#include "plan/link_probe.h"

#include <gtest/gtest.h>

#include <cmath>

#include "dist/group/group_fixture.h"

namespace reigen {
namespace {

TEST(LinkProbe, FitsLatencyAndBandwidth) {
  const LinkModel wanted = {.latency = 2e-4, .bandwidth = 1.25e7};
  std::vector<CurvePoint> curve;
  for (double bytes = 1 << 16; bytes < 1e8; bytes *= 4) {
    curve.push_back({bytes, wanted.seconds(bytes, 4)});
  }
  const LinkModel found = fit_link(curve, 4);
  EXPECT_NEAR(found.latency, wanted.latency, 1e-6);
  EXPECT_NEAR(found.bandwidth, wanted.bandwidth, 1e3);
  EXPECT_LT(found.error, 1e-3);
}

// Large sizes are sent in segments, each with the latency.
TEST(LinkProbe, ALongLatencyIsNotALowBandwidth) {
  const std::vector<CurvePoint> curve = {{1 << 12, 0.04},
                                         {1 << 18, 0.04 + 0.002},
                                         {1 << 20, 0.04 + 0.008},
                                         {1 << 22, 4 * 0.048},
                                         {1 << 24, 16 * 0.048}};
  const LinkModel found = fit_link(curve, 2);
  EXPECT_NEAR(found.bandwidth, (1 << 20) / 0.008, 5e6);
  EXPECT_NEAR(found.latency, 0.04, 1e-3);
  EXPECT_LT(found.error, 0.02);
}

TEST(LinkProbe, SmallMessagesDelayedByOtherLoadAreNotTheLatency) {
  const std::vector<CurvePoint> curve = {{1 << 12, 4e-3},  {1 << 14, 2.3e-3}, {1 << 16, 4e-3},
                                         {1 << 18, 0.022}, {1 << 20, 0.088},  {1 << 22, 0.355}};
  const LinkModel found = fit_link(curve, 2);
  EXPECT_LT(found.latency, 1.5e-3);
  EXPECT_NEAR(found.bandwidth, 4.0 * (1 << 20) / 0.355, 3e5);
}

TEST(LinkProbe, ABurstOfSmallMessagesDoesNotRaiseTheBandwidth) {
  std::vector<CurvePoint> curve = {
      {1 << 16, 2e-4}, {1 << 18, 1e-3}, {1 << 20, 0.084}, {1 << 22, 0.336}};
  const LinkModel found = fit_link(curve, 2);
  EXPECT_NEAR(found.bandwidth, 1.25e7, 2e5);
  EXPECT_NEAR(found.latency, 1e-4, 1e-9);
  EXPECT_GT(found.error, 0.5);  // the model states its error at small sizes
}

TEST(LinkProbe, AllRanksGetTheSameMeasurements) {
  with_group(3, [](Group& group) {
    std::vector<CurvePoint> curve;
    std::vector<float> data(kSmallestProbe);
    ASSERT_TRUE(measure_all_reduce(group, data, 0, curve).ok());
    ASSERT_EQ(curve.back().bytes, 1 << 18);  // also without any budget
    curve.clear();
    ASSERT_TRUE(measure_all_reduce(group, data, 60, curve).ok());
    ASSERT_EQ(curve.back().bytes, 1 << 20);
    double rounding = 0;
    ASSERT_TRUE(measure_rounding(group, curve, rounding).ok());
    EXPECT_GT(rounding, 1e-11);
    EXPECT_LT(rounding, 1e-6);
    PairLink link;
    ASSERT_TRUE(measure_pair(group, 2, 1, 0.01, link).ok());
    std::vector<double> ahead;
    ASSERT_TRUE(measure_clocks(group, ahead).ok());
    ASSERT_EQ(ahead.size(), 3u);
    for (double seconds : ahead) EXPECT_LT(std::abs(seconds), 0.5);  // one host, one clock
    std::vector<double> values = {link.bandwidth, link.latency};
    for (const CurvePoint& p : curve) values.push_back(p.seconds);
    std::vector<double> sums = values;
    ASSERT_TRUE(group.sum(sums).wait().ok());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_GT(values[i], 0);
      EXPECT_DOUBLE_EQ(sums[i], 3 * values[i]);
    }
    EXPECT_TRUE(group.leave().ok());
  });
}

}  // namespace
}  // namespace reigen
