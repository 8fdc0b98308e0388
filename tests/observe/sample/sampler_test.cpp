// The thread that samples the host, and NVML when it is missing.
#include "observe/sample/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "observe/sample/nvml.h"

namespace reigen {
namespace {

TEST(Sampler, ReturnsEachSampleOnce) {
  Sampler sampler({.every = std::chrono::milliseconds(5)});
  sampler.at_step(7);
  std::vector<SampleRecord> all;
  Stopwatch watch;
  while (all.size() < 3 && watch.seconds() < 30) {
    for (SampleRecord& sample : sampler.take()) all.push_back(std::move(sample));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ASSERT_GE(all.size(), 3u);
  EXPECT_EQ(all.back().step, 7u);
  EXPECT_FALSE(all.back().host.empty());
  EXPECT_GT(all.back().seconds, 0);
}

TEST(Sampler, AShortRunIsSampledToItsEnd) {
  Sampler sampler({.every = std::chrono::milliseconds(1000)});
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  sampler.stop();
  const std::vector<SampleRecord> all = sampler.take();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_GE(all[0].seconds, 0.05);
}

TEST(Nvml, AMissingLibraryIsNamedAndGivesNoGpus) {
  const Nvml nvml("libsurely-not-there.so.9");
  EXPECT_THAT(nvml.absent(), testing::HasSubstr("libsurely-not-there.so.9"));
  EXPECT_TRUE(nvml.sample().empty());
}

TEST(Nvml, ALibraryWithoutItsFunctionsIsNamed) {
  const Nvml nvml("libm.so.6");
  EXPECT_THAT(nvml.absent(), testing::HasSubstr("lacks"));
}

}  // namespace
}  // namespace reigen
