// Where the secret of a job comes from, and which sources are refused.
#include "dist/launch/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

const std::string kGoodSecret = "0123456789abcdef0123456789abcdef";

std::string token_file(const TempDir& dir, const std::string& text, mode_t mode) {
  const std::string path = dir.path("token");
  std::ofstream(path) << text;
  chmod(path.c_str(), mode);
  return path;
}

TEST(TokenFile, IsReadWithoutItsLastLineBreak) {
  const TempDir dir;
  EXPECT_EQ(read_token_file(token_file(dir, kGoodSecret + "\n", 0600)), kGoodSecret);
  EXPECT_EQ(read_token_file(token_file(dir, kGoodSecret, 0400)), kGoodSecret);
}

TEST(TokenFile, IsRefusedIfOthersHaveAccessOrItIsTooShort) {
  const TempDir dir;
  for (const mode_t mode : {0640, 0604, 0666, 0610}) {
    EXPECT_THROW(read_token_file(token_file(dir, kGoodSecret, mode)), ConfigError) << mode;
  }
  EXPECT_THROW(read_token_file(token_file(dir, std::string(21, 'x'), 0600)), ConfigError);
  EXPECT_THROW(read_token_file(token_file(dir, "", 0600)), ConfigError);
  EXPECT_THROW(read_token_file(dir.path("missing")), ConfigError);
  EXPECT_THROW(read_token_file(dir.path()), ConfigError);  // a directory
}

class LocalSecret : public ::testing::Test {
 protected:
  void SetUp() override { setenv("XDG_RUNTIME_DIR", dir.path().c_str(), 1); }
  void TearDown() override { unsetenv("XDG_RUNTIME_DIR"); }
  TempDir dir;
};

TEST_F(LocalSecret, IsMadeOnceForItsUserAlone) {
  const std::string first = local_secret();
  EXPECT_GE(first.size(), kShortestSecret);
  EXPECT_EQ(local_secret(), first);
  struct stat s = {};
  ASSERT_EQ(stat(dir.path("reigen/token").c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 07777, 0600U);
  std::filesystem::remove(dir.path("reigen/token"));
  EXPECT_NE(local_secret(), first);
}

// Without a runtime directory, as under cron or sudo: any user may take a name in /tmp.
TEST_F(LocalSecret, IsStoredBelowTheHomeDirectoryWithoutARuntimeDirectory) {
  const char* before = std::getenv("HOME");
  const std::string home = before == nullptr ? "" : before;
  unsetenv("XDG_RUNTIME_DIR");
  setenv("HOME", dir.path("home").c_str(), 1);
  std::filesystem::create_directories(dir.path("home/.cache/reigen"));  // as --copy-binary does
  chmod(dir.path("home/.cache/reigen").c_str(), 0755);
  const std::string first = local_secret();
  EXPECT_EQ(local_secret(), first);
  struct stat s = {};
  ASSERT_EQ(stat(dir.path("home/.cache/reigen/private").c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 07777, 0700U);
  ASSERT_EQ(stat(dir.path("home/.cache/reigen/private/token").c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 07777, 0600U);
  chmod(dir.path("home/.cache/reigen/private").c_str(), 0755);
  EXPECT_THROW(local_secret(), IoError);
  setenv("HOME", home.c_str(), 1);
}

TEST_F(LocalSecret, IsNotStoredWhereOthersCanWrite) {
  std::filesystem::create_directory(dir.path("reigen"));
  chmod(dir.path("reigen").c_str(), 0777);
  EXPECT_THROW(local_secret(), IoError);
  std::filesystem::remove(dir.path("reigen"));
  std::filesystem::create_directory(dir.path("elsewhere"));
  std::filesystem::create_symlink(dir.path("elsewhere"), dir.path("reigen"));
  EXPECT_THROW(local_secret(), IoError);
}

}  // namespace
}  // namespace reigen
