#include "base/file/secret_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file/files.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

std::string file_with(const TempDir& dir, const std::string& text, mode_t mode) {
  const std::string path = dir.path() + "/token";
  std::ofstream(path) << text;
  chmod(path.c_str(), mode);
  return path;
}

TEST(SecretFile, ATokenIsReadWithoutWhiteSpaceAtItsEnds) {
  const TempDir dir;
  EXPECT_EQ(read_secret_file(file_with(dir, " two words\r\n\n", 0600)), "two words");
  EXPECT_EQ(read_secret_file(file_with(dir, "x", 0400)), "x");
}

TEST(SecretFile, AFileThatOthersMayAccessIsRefused) {
  const TempDir dir;
  for (const mode_t mode : {0644, 0640, 0604, 0620, 0601}) {
    EXPECT_THROW(read_secret_file(file_with(dir, "secret", mode)), ConfigError) << mode;
  }
}

TEST(SecretFile, AFileOfADifferentUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to a different user";
  const TempDir dir;
  const std::string path = file_with(dir, "secret", 0600);
  EXPECT_EQ(read_secret_file(path), "secret");
  constexpr uid_t kStranger = 54'321;
  ASSERT_EQ(chown(path.c_str(), kStranger, kStranger), 0);
  EXPECT_THROW(read_secret_file(path), ConfigError);
}

TEST(SecretFile, AMissingEmptyLongOrSpecialFileIsRefused) {
  const TempDir dir;
  EXPECT_THROW(read_secret_file(dir.path() + "/none"), ConfigError);
  EXPECT_THROW(read_secret_file(dir.path()), ConfigError);
  EXPECT_THROW(read_secret_file(file_with(dir, " \n", 0600)), ConfigError);
  EXPECT_THROW(read_secret_file(file_with(dir, std::string(kMostSecretBytes + 1, 'a'), 0600)),
               ConfigError);
  EXPECT_EQ(read_secret_file(file_with(dir, std::string(kMostSecretBytes, 'a'), 0600)).size(),
            kMostSecretBytes);
  const std::string pipe = dir.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(read_secret_file(pipe), ConfigError);  // and does not wait for a writer
}

TEST(SecretFile, AWrittenFileIsForItsOwnerAndReplacesALink) {
  const TempDir dir;
  const std::string victim = dir.path() + "/victim";
  std::ofstream(victim) << "unchanged";
  const std::string path = dir.path() + "/link";
  std::filesystem::create_symlink(victim, path);
  std::filesystem::create_symlink(victim, path + ".new");
  write_secret_file(path, "first");
  write_secret_file(path, "second");
  EXPECT_EQ(read_file(victim), "unchanged");
  EXPECT_EQ(read_secret_file(path), "second");
  struct stat facts = {};
  ASSERT_EQ(lstat(path.c_str(), &facts), 0);
  EXPECT_TRUE(S_ISREG(facts.st_mode));
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_FALSE(path_exists(path + ".new"));
}

TEST(SecretFile, AFolderThatIsMissingIsAnError) {
  const TempDir dir;
  EXPECT_THROW(write_secret_file(dir.path() + "/none/file", "x"), IoError);
}

}  // namespace
}  // namespace reigen
