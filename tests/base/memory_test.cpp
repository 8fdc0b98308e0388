// Memory as the system tells it, and limits of control groups laid out as Linux does.
#include "base/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "support/temp_dir.h"

namespace reigen {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// A proc/ and sys/ of its own, on a machine with 1000 MiB available.
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
  uint64_t available() const { return available_memory(dir_.path()) / kMiB; }

 private:
  TempDir dir_;
};

TEST(ProcessMemory, GrowsWithWhatIsTouchedAndThePeakStays) {
  const ProcessMemory before = process_memory();
  ASSERT_GT(before.resident_bytes, 0u);
  ProcessMemory during;
  {
    std::vector<char> block(256 * kMiB);
    std::memset(block.data(), 1, block.size());
    during = process_memory();
    EXPECT_EQ(block[block.size() / 2], 1);
  }
  // The kernel counts pages in batches for each thread, so the numbers are a little off.
  EXPECT_GE(during.resident_bytes, before.resident_bytes + 250 * kMiB);
  EXPECT_GE(process_memory().peak_resident_bytes, before.resident_bytes + 250 * kMiB);
}

TEST(AvailableMemory, OfThisMachineIsKnown) { EXPECT_GT(available_memory(), kMiB); }

TEST(AvailableMemory, IsTheMachinesWithoutALimit) {
  Machine machine;
  EXPECT_EQ(machine.available(), 1000u);
  machine.write("proc/self/cgroup", "0::/job\n");
  machine.group("/job", "max", 100 * kMiB, 0);
  EXPECT_EQ(machine.available(), 1000u);
}

TEST(AvailableMemory, IsWhatTheGroupLeavesWhereThatIsLess) {
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

TEST(AvailableMemory, KnowsControlGroupsOfTheFirstVersion) {
  Machine machine;
  machine.write("proc/self/cgroup", "9:cpu,cpuacct:/x\n8:memory:/docker/abc\n0::/\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(400 * kMiB));
  machine.write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(150 * kMiB));
  machine.write("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 52428800\n");
  EXPECT_EQ(machine.available(), 300u);
}

}  // namespace
}  // namespace reigen
