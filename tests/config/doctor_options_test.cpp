#include "config/doctor_options.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace reigen {
namespace {

TEST(DoctorOptions, ParseASimulatedJob) {
  const SimulateSetting s = parse_simulate("workers=64,link=10gbit,latency=50us,batch=grows");
  EXPECT_EQ(s.workers, 64);
  EXPECT_DOUBLE_EQ(s.bandwidth, 1.25e9);
  EXPECT_DOUBLE_EQ(s.latency, 5e-5);
  EXPECT_TRUE(s.same_share);
  EXPECT_DOUBLE_EQ(parse_simulate("workers=2,link=100mbit").bandwidth, 1.25e7);
  EXPECT_EQ(parse_simulate("").workers, 0);
}

TEST(DoctorOptions, RefuseAnIncompleteOrUnknownJob) {
  for (const char* text :
       {"64", "workers=0", "link=10gbit", "workers=2,link=10", "workers=2,speed=3",
        "workers=2,latency=5", "workers=2,batch=large", "workers=2,"}) {
    EXPECT_THROW(parse_simulate(text), ConfigError) << text;
  }
}

}  // namespace
}  // namespace reigen
