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
  std::vector<ProcessRecord> own;
  Stopwatch watch;
  while (all.size() < 3 && watch.seconds() < 30) {
    for (const Record& record : sampler.take()) {
      if (const auto* sample = std::get_if<SampleRecord>(&record)) all.push_back(*sample);
      if (const auto* process = std::get_if<ProcessRecord>(&record)) own.push_back(*process);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ASSERT_GE(all.size(), 3u);
  EXPECT_EQ(all.back().step, 7u);
  EXPECT_FALSE(all.back().host.empty());
  EXPECT_GT(all.back().seconds, 0);
  ASSERT_FALSE(own.empty());
  EXPECT_EQ(own.back().step, 7u);
  EXPECT_GT(own.back().core_count, 0u);
}

TEST(Sampler, AShortRunIsSampledToItsEnd) {
  Sampler sampler({.every = std::chrono::milliseconds(1000)});
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  sampler.stop();
  const std::vector<Record> all = sampler.take();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_GE(std::get<SampleRecord>(all[0]).seconds, 0.05);
  EXPECT_GE(std::get<ProcessRecord>(all[1]).seconds, 0.05);
}

TEST(Sampler, OnlyOneRankOfAHostSamplesTheHost) {
  Sampler sampler({.host = false, .every = std::chrono::milliseconds(1000)});
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  sampler.stop();
  const std::vector<Record> all = sampler.take();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<ProcessRecord>(all[0]));
}

TEST(Nvml, AMissingLibraryIsNamedAndGivesNoGpus) {
  const Nvml nvml("libsurely-not-there.so.9");
  EXPECT_THAT(nvml.absent(), testing::HasSubstr("libsurely-not-there.so.9"));
  EXPECT_TRUE(nvml.sample().empty());
}

TEST(Nvml, ThrottlingAndOtherProcessesOfAGpuAreSampled) {
  const Nvml nvml(REIGEN_NVML_STAND_IN);
  ASSERT_EQ(nvml.absent(), "");
  const std::vector<GpuSample> gpus = nvml.sample({4242});
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0], (GpuSample{.name = "stand-in",
                                .utilisation = 70,
                                .memory_used = 600,
                                .memory_total = 1000,
                                .watts = 350,
                                .megahertz = 1200,
                                .max_megahertz = 1980,
                                .slowed_by = "power-cap thermal",
                                .other_processes = 2,
                                .other_memory = 200,
                                .other_use = 45}));
  const SampleRecord sample{.seconds = 1, .gpus = gpus};
  EXPECT_NEAR(sample.gpu_lost_clock(), 1 - 1200 / 1980.0, 1e-9);
  EXPECT_DOUBLE_EQ(sample.gpu_other_use(), 0.45);
  // NVML has nothing newer for the others.
  EXPECT_EQ(nvml.sample({4242}).at(0).other_use, 0);
}

TEST(Nvml, OnlyGpusThatTheJobUsesCountAsSlowed) {
  const GpuSample slow{.utilisation = 90, .megahertz = 600, .max_megahertz = 1800};
  GpuSample mine{.utilisation = 90, .megahertz = 1700, .max_megahertz = 1800};
  mine.other_processes = 0;
  EXPECT_DOUBLE_EQ((SampleRecord{.gpus = {slow, mine}}).gpu_lost_clock(), 0);
  EXPECT_NEAR((SampleRecord{.gpus = {slow}}).gpu_lost_clock(), 2 / 3.0, 1e-9);
  GpuSample idle = slow;
  idle.utilisation = 5;
  EXPECT_DOUBLE_EQ((SampleRecord{.gpus = {idle}}).gpu_lost_clock(), 0);
}

// Process ids of a different namespace: NVML lists processes, and none of them is a worker.
TEST(Nvml, OtherProcessesAreUnknownWhereTheWorkersAreHidden) {
  const Nvml nvml(REIGEN_NVML_STAND_IN);
  const std::vector<GpuSample> gpus = nvml.sample({1});
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_FALSE(gpus[0].other_processes.has_value());
  EXPECT_EQ(gpus[0].other_memory, 0u);
}

TEST(Nvml, ALibraryWithoutItsFunctionsIsNamed) {
  const Nvml nvml("libm.so.6");
  EXPECT_THAT(nvml.absent(), testing::HasSubstr("lacks"));
}

}  // namespace
}  // namespace reigen
