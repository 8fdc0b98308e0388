// The test's own machine, and control groups in a folder laid out as Linux does.
#include "base/machine.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// A machine with 1000 MiB available, as a folder with its own proc/ and sys/.
class Machine {
 public:
  Machine() { write("proc/meminfo", "MemTotal: 4096000 kB\nMemAvailable: 1024000 kB\n"); }

  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(dir_.path(name)).parent_path());
    write_text(dir_.path(name), text);
  }
  void group(const std::string& path, const std::string& limit, uint64_t usage, uint64_t cache) {
    write("sys/fs/cgroup" + path + "/memory.max", limit + "\n");
    write("sys/fs/cgroup" + path + "/memory.current", std::to_string(usage) + "\n");
    write("sys/fs/cgroup" + path + "/memory.stat",
          "anon 1\ninactive_file " + std::to_string(cache) + "\n");
  }
  std::string path() const { return dir_.path(); }
  uint64_t available() const { return available_memory(dir_.path()) / kMiB; }

 private:
  TempDir dir_;
};

// Restricts this process to one core until the object is destroyed.
class Affinity {
 public:
  Affinity() { sched_getaffinity(0, sizeof before_, &before_); }
  ~Affinity() { sched_setaffinity(0, sizeof before_, &before_); }

  void restrict_to_one() const {
    int core = 0;
    while (!CPU_ISSET(core, &before_)) ++core;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  }
  int cores() const { return CPU_COUNT(&before_); }

 private:
  cpu_set_t before_;
};

TEST(CoreLimit, IsTheLeastOfAGroupAndItsAncestors) {
  Machine machine;
  EXPECT_EQ(core_limit(machine.path()), 0);
  machine.write("proc/self/cgroup", "0::/job/worker\n");
  machine.write("sys/fs/cgroup/job/worker/cpu.max", "max 100000\n");
  EXPECT_EQ(core_limit(machine.path()), 0);
  machine.write("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(core_limit(machine.path()), 1.5);
}

TEST(CoreLimit, IsReadFromControlGroupsOfVersion1) {
  Machine machine;
  machine.write("proc/self/cgroup", "4:cpu,cpuacct:/job\n");
  machine.write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  machine.write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(core_limit(machine.path()), 0);
  machine.write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "25000\n");
  EXPECT_DOUBLE_EQ(core_limit(machine.path()), 0.25);
}

TEST(ThrottledSeconds, AreThoseOfTheGroupThatStoppedItsThreadsLongest) {
  Machine machine;
  EXPECT_EQ(throttled_seconds(machine.path()), 0);
  machine.write("proc/self/cgroup", "0::/job/worker\n");
  machine.write("sys/fs/cgroup/job/worker/cpu.stat", "usage_usec 9\nthrottled_usec 1500000\n");
  machine.write("sys/fs/cgroup/job/cpu.stat", "usage_usec 9\nthrottled_usec 2500000\n");
  EXPECT_DOUBLE_EQ(throttled_seconds(machine.path()), 2.5);
}

// In a container the path is that of its host, and the group is mounted at the root.
TEST(ThrottledSeconds, AreReadFromControlGroupsOfVersion1InAContainer) {
  Machine machine;
  machine.write("proc/self/cgroup", "4:cpu,cpuacct:/docker/1234\n");
  machine.write("sys/fs/cgroup/cpu/cpu.stat",
                "nr_periods 8\nnr_throttled 3\nthrottled_time 750000000\n");
  EXPECT_DOUBLE_EQ(throttled_seconds(machine.path()), 0.75);
}

TEST(MemoryLimit, IsTheLeastBelowTheMemoryOfTheMachine) {
  Machine machine;
  machine.write("proc/meminfo", "MemTotal: 1000 kB\n");
  EXPECT_EQ(memory_limit(machine.path()), 0u);
  machine.write("proc/self/cgroup", "0::/job\n");
  machine.write("sys/fs/cgroup/job/memory.max", "max\n");
  EXPECT_EQ(memory_limit(machine.path()), 0u);
  machine.write("sys/fs/cgroup/memory.max", "600000\n");
  EXPECT_EQ(memory_limit(machine.path()), 600'000u);
  machine.write("proc/self/cgroup", "4:memory:/job\n");
  machine.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(memory_limit(machine.path()), 0u);
}

TEST(UsableCores, AreThoseThatTheProcessMayRunOn) {
  const Affinity affinity;
  EXPECT_EQ(usable_cores(), cores_within(affinity.cores(), core_limit()));
  affinity.restrict_to_one();
  EXPECT_EQ(usable_cores(), 1);
}

TEST(UsableCores, AreWholeCoresWithinAQuota) {
  EXPECT_EQ(cores_within(16, 0), 16);
  EXPECT_EQ(cores_within(16, 64), 16);
  EXPECT_EQ(cores_within(16, 4), 4);
  EXPECT_EQ(cores_within(16, 2.75), 2);
  EXPECT_EQ(cores_within(16, 0.25), 1);
  EXPECT_EQ(cores_within(0, 0), 1);
}

TEST(ThreadCount, OfZeroIsTheNumberOfUsableCores) {
  const Affinity affinity;
  EXPECT_EQ(thread_count(0), static_cast<unsigned>(usable_cores()));
  affinity.restrict_to_one();
  EXPECT_EQ(thread_count(0), 1u);
  EXPECT_EQ(thread_count(12), 12u);
}

TEST(HostName, IsNeverEmpty) { EXPECT_NE(host_name(), ""); }

TEST(ProcessState, DistinguishesAProcessFromALaterOneWithItsNumber) {
  const auto self = static_cast<uint64_t>(getpid());
  EXPECT_EQ(process_state(self, unix_now()), ProcessState::kRunning);
  EXPECT_EQ(process_state(self, unix_now() - 1e6), ProcessState::kReplaced);
}

TEST(ProcessState, IsEndedForANumberThatNoProcessHas) {
  constexpr uint64_t kAbovePidMax = 1 << 30;
  EXPECT_EQ(process_state(kAbovePidMax, unix_now()), ProcessState::kEnded);
}

TEST(ProcessState, IsEndedForAZombie) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(process_state(static_cast<uint64_t>(child), unix_now()), ProcessState::kEnded);
  waitpid(child, nullptr, 0);
}

TEST(ProcessMemory, GrowsWithTouchedPagesAndThePeakStays) {
  const ProcessMemory before = process_memory();
  ASSERT_GT(before.resident_bytes, 0u);
  ProcessMemory during;
  {
    std::vector<char> block(256 * kMiB);
    std::memset(block.data(), 1, block.size());
    during = process_memory();
    EXPECT_EQ(block[block.size() / 2], 1);
  }
  // The kernel counts pages in batches for each thread, so the numbers are slightly inexact.
  EXPECT_GE(during.resident_bytes, before.resident_bytes + 250 * kMiB);
  EXPECT_GE(process_memory().peak_resident_bytes, before.resident_bytes + 250 * kMiB);
}

TEST(AvailableMemory, OfThisMachineIsPositive) { EXPECT_GT(available_memory(), kMiB); }

TEST(AvailableMemory, WithoutAGroupLimitIsTheMachines) {
  Machine machine;
  EXPECT_EQ(machine.available(), 1000u);
  machine.write("proc/self/cgroup", "0::/job\n");
  machine.group("/job", "max", 100 * kMiB, 0);
  EXPECT_EQ(machine.available(), 1000u);
}

TEST(AvailableMemory, IsLimitedByTheTightestGroup) {
  Machine machine;
  machine.write("proc/self/cgroup", "0::/jobs/mine\n");
  machine.group("/jobs/mine", std::to_string(500 * kMiB), 100 * kMiB, 30 * kMiB);
  EXPECT_EQ(machine.available(), 430u);  // cached file pages can be dropped
  machine.group("/jobs", std::to_string(200 * kMiB), 150 * kMiB, 0);
  EXPECT_EQ(machine.available(), 50u);
  machine.group("/jobs", std::to_string(200 * kMiB), 250 * kMiB, 0);
  EXPECT_EQ(machine.available(), 0u);
}

TEST(AvailableMemory, FindsTheLimitOfAContainerAtTheMount) {
  Machine machine;
  machine.write("proc/self/cgroup", "0::/\n");
  machine.group("", std::to_string(300 * kMiB), 100 * kMiB, 0);
  EXPECT_EQ(machine.available(), 200u);
}

TEST(AvailableMemory, ReadsControlGroupsOfVersionOne) {
  Machine machine;
  machine.write("proc/self/cgroup", "9:cpu,cpuacct:/x\n8:memory:/docker/abc\n0::/\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(400 * kMiB));
  machine.write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(150 * kMiB));
  machine.write("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 52428800\n");
  EXPECT_EQ(machine.available(), 300u);
}

TEST(ProcessIdentity, IsThatOfOneProcess) {
  const std::string own = process_identity(static_cast<uint64_t>(getpid()));
  EXPECT_FALSE(own.empty());
  EXPECT_EQ(process_identity(static_cast<uint64_t>(getpid())), own);
  EXPECT_NE(process_identity(1), own);
  EXPECT_EQ(process_identity(uint64_t{1} << 30), "");  // above every pid_max
}

TEST(ProcessIsStopped, AfterSigstopUntilSigcont) {
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  const auto id = static_cast<uint64_t>(child);
  EXPECT_FALSE(process_is_stopped(id));
  kill(child, SIGSTOP);
  waitpid(child, nullptr, WUNTRACED);
  EXPECT_TRUE(process_is_stopped(id));
  kill(child, SIGCONT);
  waitpid(child, nullptr, WCONTINUED);
  EXPECT_FALSE(process_is_stopped(id));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(process_is_stopped(id));
}

TEST(IsLoopback, TakesNumbersAndLocalhostOnly) {
  for (const char* address : {"127.0.0.1", "127.8.0.2", "::1", "localhost"}) {
    EXPECT_TRUE(is_loopback(address)) << address;
  }
  for (const char* address : {"10.0.0.1", "0.0.0.0", "::", "127.0.0.1.example.org", "vm1", ""}) {
    EXPECT_FALSE(is_loopback(address)) << address;
  }
}

}  // namespace
}  // namespace reigen
