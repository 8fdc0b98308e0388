// Readings of the process's own counters, and the rates between two of them.
#include "observe/sample/process_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ProcessCounters counters(double cpu, double busy, std::map<int, double> delays) {
  ProcessCounters c;
  c.cpu = cpu;
  c.busy = busy;
  c.run_delay = std::move(delays);
  c.cores = {0, 1};
  c.machine = "abcd";
  return c;
}

TEST(ProcessCounters, ARecordIsTheDifferenceOfTwoReadings) {
  const ProcessCounters before = counters(10, 100, {{1, 5.0}, {2, 1.0}, {3, 9.0}});
  ProcessCounters now = counters(11, 102, {{1, 5.5}, {2, 1.0}, {4, 0.25}});  // 3 ended, 4 began
  now.when = before.when + std::chrono::seconds(2);
  now.major_faults = 7;
  now.throttled = 0.5;
  const ProcessRecord record = process_between(before, now);
  EXPECT_DOUBLE_EQ(record.seconds, 2);
  EXPECT_DOUBLE_EQ(record.cpu, 1);
  EXPECT_DOUBLE_EQ(record.cores_busy, 2);
  EXPECT_DOUBLE_EQ(record.run_delay.value(), 0.75);
  EXPECT_EQ(record.major_faults, 7u);
  EXPECT_DOUBLE_EQ(record.throttled, 0.5);
  EXPECT_FALSE(record.input_cpu.has_value());
  EXPECT_EQ(record.cores, "0-1");
  EXPECT_EQ(record.core_count, 2u);
}

TEST(ProcessCounters, TheThreadThatReadsBatchesIsFoundByItsName) {
  TempDir root;
  auto write = [&](int thread, const char* name, const char* times) {
    const std::string folder = root.path("proc/self/task/" + std::to_string(thread));
    std::filesystem::create_directories(folder);
    write_text(folder + "/comm", std::string(name) + "\n");
    write_text(folder + "/schedstat", times);
  };
  write(7, "reigen", "5000000000 0 1\n");
  write(8, "reigen-input", "1000000000 2000000000 1\n");
  const ProcessCounters before = read_process_counters(root.path());
  ASSERT_TRUE(before.input.has_value());
  EXPECT_EQ(before.input->id, 8);
  write(8, "renamed", "1250000000 2500000000 1\n");  // the name is read once
  const ProcessRecord record =
      process_between(before, read_process_counters(root.path(), before.input->id));
  EXPECT_DOUBLE_EQ(record.input_cpu.value(), 0.25);
  EXPECT_DOUBLE_EQ(record.input_delay, 0.5);
}

TEST(ProcessCounters, AHiddenRunDelayIsAbsent) {
  ProcessCounters before = counters(1, 1, {});
  ProcessCounters now = counters(2, 2, {});
  before.run_delay.reset();
  EXPECT_FALSE(process_between(before, now).run_delay.has_value());
  TempDir empty;
  const ProcessCounters hidden = read_process_counters(empty.path());
  EXPECT_FALSE(hidden.run_delay.has_value());
  EXPECT_EQ(hidden.machine, "");
}

TEST(ProcessCounters, OtherCoresThanBeforeAreNotCompared) {
  const ProcessCounters before = counters(1, 100, {});
  ProcessCounters now = counters(2, 5, {});
  now.cores = {1};
  EXPECT_DOUBLE_EQ(process_between(before, now).cores_busy, 1);
}

TEST(ProcessCounters, CountOnlyTheCoresThatTheProcessMayUse) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  TempDir root;
  std::filesystem::create_directories(root.path("proc"));
  std::string stat = "cpu  9 9 9 9\n";
  for (int core = 0; core < 4; ++core) {  // ticks: 100 busy of each core, and steal by its number
    stat += "cpu" + std::to_string(first + core) + " 60 0 40 900 70 0 0 " +
            std::to_string(100 * (core + 1)) + " 0 0\n";
  }
  write_text(root.path("proc/stat"), stat);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const ProcessCounters c = read_process_counters(root.path());
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_THAT(c.cores, ElementsAre(first));
  EXPECT_DOUBLE_EQ(c.stolen, c.busy);  // both 100 ticks
  EXPECT_GT(c.busy, 0);
}

TEST(ProcessCounters, OfThisProcessGrow) {
  const ProcessCounters before = read_process_counters();
  const Stopwatch watch;
  volatile double sum = 0;
  while (read_process_counters().cpu < before.cpu + 0.02 && watch.seconds() < 60) sum = sum + 1;
  const ProcessRecord record = process_between(before, read_process_counters());
  EXPECT_GE(record.cpu, 0.02);
  EXPECT_GT(record.core_count, 0u);
}

TEST(ListOfCores, ReadsBackAsItWasWritten) {
  for (const std::vector<int>& cores :
       std::vector<std::vector<int>>{{}, {0}, {0, 1}, {0, 1, 2, 8}, {3, 5, 6, 7, 127}}) {
    EXPECT_EQ(cores_in(list_of_cores(cores)), cores);
  }
  EXPECT_EQ(list_of_cores({0, 1, 2, 8}), "0-2,8");
}

TEST(ListOfCores, OtherTextIsNoList) {
  for (const char* text : {"", "a", "3-", "-3", "5-2", "1,x", "0-99999999"}) {
    EXPECT_THAT(cores_in(text), IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace reigen
