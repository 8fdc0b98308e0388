// Readings of /proc and /sys, and the rates between two of them.
#include "observe/sample/host_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file/files.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using testing::ElementsAre;

class HostCountersTest : public testing::Test {
 protected:
  HostCountersTest() {
    for (const char* folder : {"proc/net", "sys/class/net/eth0", "sys/block/sda"}) {
      std::filesystem::create_directories(root.path(folder));
    }
    write_text(root.path("sys/class/net/eth0/speed"), "10000\n");
    write_text(root.path("sys/block/sda/stat"), "1\n");
    write_text(root.path("proc/meminfo"),
               "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n");
  }

  HostCounters read(int ticks, uint64_t bytes) {
    write_text(root.path("proc/stat"), "cpu  9 9 9 9\ncpu0 " + std::to_string(ticks) + " 0 0 " +
                                           std::to_string(3 * ticks) + " 0 0 0 0 0 0\ncpu1 0 0 0 " +
                                           std::to_string(4 * ticks) + " 0 0 0 0\nintr 1\n");
    const std::string b = std::to_string(bytes);
    write_text(root.path("proc/net/dev"),
               "Inter-| Receive\n face |bytes\n  eth0: " + b + " 1 0 0 0 0 0 0 " + b +
                   "0 1 0 0 0 0 0 0\n    lo:0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
    write_text(root.path("proc/net/snmp"),
               "Ip: Forwarding OutSegs\nIp: 1 9\nTcp: InSegs OutSegs RetransSegs\nTcp: 5 " + b +
                   " " + std::to_string(bytes / 100) + "\n");
    write_text(root.path("proc/diskstats"),
               "8 0 sda 1 0 " + b + " 0 1 0 " + b + " 0 0 0 0\n8 1 sda1 1 0 99 0 1 0 99 0 0 0 0\n");
    return read_host_counters(root.path());
  }

  TempDir root;
};

TEST_F(HostCountersTest, RatesAreDifferencesOfTwoReadings) {
  const HostCounters before = read(100, 1000);
  HostCounters now = read(200, 3000);
  now.when = before.when + std::chrono::seconds(2);
  const SampleRecord sample = sample_between(before, now, "eth0");
  EXPECT_DOUBLE_EQ(sample.seconds, 2);
  EXPECT_THAT(sample.cores, ElementsAre(25, 0));
  EXPECT_EQ(sample.memory_total, 1'024'000u);
  EXPECT_EQ(sample.memory_used, 614'400u);
  EXPECT_DOUBLE_EQ(sample.disk_read, 512'000);
  EXPECT_EQ(sample.tcp_sent, 2000u);
  EXPECT_EQ(sample.tcp_resent, 20u);
  ASSERT_EQ(sample.interfaces.size(), 1u);  // the other one has never been used
  EXPECT_EQ(sample.interfaces[0], (InterfaceSample{"eth0", 1000, 10'000, 1'250'000'000, true}));
}

TEST_F(HostCountersTest, FiguresThatTheSystemHidesAreAbsent) {
  HostCounters before = read(100, 1000);
  const SampleRecord hidden = sample_between(before, read(200, 2000), "");
  EXPECT_FALSE(hidden.memory_pressure.has_value());
  EXPECT_FALSE(hidden.clock.has_value());
  EXPECT_FALSE(hidden.throttled.has_value());
}

TEST_F(HostCountersTest, PressureClockAndThrottlingAreReadWhereTheyExist) {
  std::filesystem::create_directories(root.path("proc/pressure"));
  auto set = [&](int stalled, int throttled) {
    write_text(root.path("proc/pressure/memory"),
               "some avg10=0.00 avg60=0.00 avg300=0.00 total=" + std::to_string(stalled) +
                   "\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
    for (const char* core : {"cpu0", "cpu1"}) {
      const std::string folder = std::string("sys/devices/system/cpu/") + core;
      std::filesystem::create_directories(root.path(folder + "/cpufreq"));
      std::filesystem::create_directories(root.path(folder + "/thermal_throttle"));
      write_text(root.path(folder + "/cpufreq/scaling_cur_freq"), "2600000\n");
      write_text(root.path(folder + "/thermal_throttle/core_throttle_count"),
                 std::to_string(throttled) + "\n");
    }
  };
  set(1'000'000, 5);
  const HostCounters before = read(100, 1000);
  set(1'500'000, 7);
  HostCounters now = read(200, 2000);
  now.when = before.when + std::chrono::seconds(2);
  const SampleRecord sample = sample_between(before, now, "");
  EXPECT_DOUBLE_EQ(sample.memory_pressure.value(), 25);
  EXPECT_DOUBLE_EQ(sample.clock.value(), 2600);
  EXPECT_EQ(sample.throttled.value(), 4u);
}

TEST_F(HostCountersTest, ACounterThatDecreasedCountsAsZero) {
  const HostCounters before = read(200, 3000);
  HostCounters now = read(300, 1000);
  now.when = before.when + std::chrono::seconds(1);
  const SampleRecord sample = sample_between(before, now, "");
  EXPECT_EQ(sample.interfaces[0].in, 0);
  EXPECT_FALSE(sample.interfaces[0].used);
}

TEST(HostCounters, ThisHostHasCoresAndMemory) {
  const HostCounters counters = read_host_counters();
  EXPECT_FALSE(counters.cores.empty());
  EXPECT_GT(counters.memory_total, counters.memory_used);
}

TEST(HostCounters, AHostWithoutCountersGivesAnEmptySample) {
  TempDir nothing;
  const HostCounters counters = read_host_counters(nothing.path());
  const SampleRecord sample = sample_between(counters, counters, "eth0");
  EXPECT_TRUE(sample.cores.empty());
  EXPECT_TRUE(sample.interfaces.empty());
}

}  // namespace
}  // namespace reigen
