#include "base/process/own_program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace reigen {
namespace {

constexpr const char* kLink = "/proc/self/exe";

class Launcher {
 public:
  explicit Launcher(const std::string& value) { setenv(kLauncherVariable, value.c_str(), 1); }
  ~Launcher() { unsetenv(kLauncherVariable); }
};

TEST(OwnProgram, IsTheFileOfThisProcess) {
  const OwnProgram found = find_own_program(kLink);
  EXPECT_EQ(found.file, kLink);
  EXPECT_EQ(found.path, std::filesystem::read_symlink(kLink));
}

TEST(OwnProgram, IsTheSameWithoutProc) {
  const OwnProgram found = find_own_program("/nonexistent/self/exe");
  EXPECT_EQ(found.path, std::filesystem::read_symlink(kLink));
  EXPECT_EQ(found.file, found.path);
}

TEST(OwnProgram, IsTheLauncherThatNamesThisProcess) {
  const Launcher launcher(std::to_string(getpid()) + ":/opt/a:b/reigen");
  EXPECT_EQ(find_own_program(kLink).file, "/opt/a:b/reigen");
  EXPECT_EQ(find_own_program(kLink).path, "/opt/a:b/reigen");
  EXPECT_TRUE(find_own_program(kLink).launched);
}

TEST(OwnProgram, IsNotTheLauncherOfTheParent) {
  const Launcher launcher(std::to_string(getppid()) + ":/opt/reigen");
  EXPECT_EQ(find_own_program(kLink).file, kLink);
  EXPECT_FALSE(find_own_program(kLink).launched);
}

}  // namespace
}  // namespace reigen
