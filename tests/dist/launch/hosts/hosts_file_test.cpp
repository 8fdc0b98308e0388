// The hosts of a job in a file, at its start and while it runs.
#include "dist/launch/hosts/hosts_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace reigen {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Hosts = std::vector<HostSlots>;

std::string error_of_hosts(const std::string& content) {
  try {
    parse_hosts_file(content, "hosts.txt");
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(HostsFile, HasOneHostOnEachLine) {
  EXPECT_EQ(parse_hosts_file("# two racks\nvm1:2\n\n  vm2\t# new\r\nuser@vm3:1024", "f"),
            (Hosts{{"vm1", 2}, {"vm2", 1}, {"user@vm3", 1024}}));
}

TEST(HostsFile, ErrorsNameFileLineAndLimit) {
  EXPECT_THAT(error_of_hosts("vm1\nvm2:1025\n"),
              testing::AllOf(HasSubstr("hosts.txt, line 2: "), HasSubstr("1024")));
  EXPECT_THAT(error_of_hosts("vm1:0"), HasSubstr("line 1"));
  EXPECT_THAT(error_of_hosts("vm1:two"), HasSubstr("'vm1:two'"));
  EXPECT_THAT(error_of_hosts("vm1,vm2"), HasSubstr("not one host"));
  EXPECT_THAT(error_of_hosts("-oProxyCommand=x"), HasSubstr("names no host"));
  EXPECT_THAT(error_of_hosts("vm1\n\nvm1:2"), HasSubstr("line 3: host vm1 is on line 1"));
  EXPECT_THAT(error_of_hosts("# none\n"), HasSubstr("hosts.txt names no host"));
}

TEST(HostsFile, ChangesAreAddedRemovedAndResizedHosts) {
  const Hosts before = {{"vm1", 2}, {"vm2", 1}, {"vm3", 1}};
  const HostChanges changes = changes_between(before, Hosts{{"vm4", 3}, {"vm2", 2}, {"vm1", 2}});
  EXPECT_THAT(changes.added, ElementsAre(HostSlots{"vm4", 3}));
  EXPECT_THAT(changes.removed, ElementsAre("vm3"));
  EXPECT_THAT(changes.resized, ElementsAre("vm2"));
  EXPECT_EQ(changes_between(before, before), HostChanges());
}

struct HostsOnDisk {
  HostsOnDisk() { write("vm1\n"); }
  ~HostsOnDisk() { std::filesystem::remove(path); }
  void write(const std::string& content) const { std::ofstream(path) << content; }
  std::optional<HostChanges> poll() { return watched.poll(now += std::chrono::seconds(1)); }

  std::string path = testing::TempDir() + "reigen-hosts-file-test";
  std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now();
  WatchedHosts watched{path, {{"vm1", 1}}};
};

TEST(WatchedHosts, ReportAChangeThatTwoReadsAgreeOnOnce) {
  HostsOnDisk disk;
  EXPECT_FALSE(disk.poll());
  EXPECT_FALSE(disk.poll());
  disk.write("vm2\n");
  EXPECT_FALSE(disk.poll());
  disk.write("vm2\nvm1\n");  // it was in the middle of being written
  EXPECT_FALSE(disk.poll());
  const auto changes = disk.poll();
  ASSERT_TRUE(changes);
  EXPECT_THAT(changes->added, ElementsAre(HostSlots{"vm2", 1}));
  EXPECT_TRUE(changes->removed.empty());
  EXPECT_FALSE(disk.poll());
}

TEST(WatchedHosts, DoNotChangeWithAFileThatCannotBeUsed) {
  HostsOnDisk disk;
  for (const char* bad : {"", "vm1:0\n", "vm2 vm3\n"}) {
    disk.write(bad);
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(disk.poll()) << bad;
  }
  std::filesystem::remove(disk.path);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(disk.poll());
  disk.write("vm3\n");
  EXPECT_FALSE(disk.poll());
  const auto changes = disk.poll();
  ASSERT_TRUE(changes);
  EXPECT_THAT(changes->removed, ElementsAre("vm1"));
}

TEST(WatchedHosts, AreNoneWithoutAFile) {
  EXPECT_FALSE(WatchedHosts("", {{"vm1", 1}}).poll(std::chrono::steady_clock::now()));
}

}  // namespace
}  // namespace reigen
