// Links, FIFOs, devices and foreign files in place of a file of ours are refused, and stay
// unchanged.
#include "base/file/own_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file/append_file.h"
#include "base/file/files.h"
#include "base/hash.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;

bool is_number(std::string_view text) {
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

TEST(OwnFile, ALinkIsNeverFollowedForWriting) {
  TempDir dir;
  write_text(dir.path("precious"), "1");
  fs::create_symlink(dir.path("precious"), dir.path("link"));
  fs::create_symlink(dir.path("nowhere"), dir.path("dangling"));
  for (const char* name : {"link", "dangling"}) {
    EXPECT_THROW(open_own_file(dir.path(name), O_WRONLY | O_CREAT | O_TRUNC), IoError) << name;
    EXPECT_THROW(FileWriter{dir.path(name)}, IoError) << name;
    EXPECT_THROW(AppendFile{dir.path(name)}, IoError) << name;
    EXPECT_THROW(truncate_own_file(dir.path(name), 0), IoError) << name;
    EXPECT_THROW(open_lock_file(dir.path(name), is_number), IoError) << name;
  }
  EXPECT_EQ(read_file(dir.path("precious")), "1");
  EXPECT_FALSE(path_exists(dir.path("nowhere")));
}

TEST(OwnFile, ALinkIsFollowedForReadingOnlyOutsideOfARun) {
  TempDir dir;
  write_text(dir.path("precious"), "1");
  fs::create_symlink(dir.path("precious"), dir.path("link"));
  EXPECT_EQ(read_file(dir.path("link")), "1");
  EXPECT_THROW(read_own_file(dir.path("link")), DataError);
  EXPECT_EQ(read_own_file(dir.path("precious")), "1");
}

TEST(OwnFile, AFifoIsRefusedAtOnceForWritingAndForReading) {
  TempDir dir;
  const std::string path = dir.path("fifo");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THROW(open_own_file(path, O_WRONLY | O_CREAT), IoError);
  EXPECT_THROW(open_lock_file(path, is_number), IoError);
  EXPECT_THROW(open_for_reading(path), DataError);
  EXPECT_THROW(read_file(path), DataError);
  EXPECT_THROW(read_own_file(path), DataError);
  EXPECT_THROW(MappedFile{path}, DataError);
  EXPECT_THROW(sha256_of_file(path), DataError);
}

TEST(OwnFile, ADeviceIsRefused) {
  EXPECT_THROW(open_own_file("/dev/full", O_WRONLY), IoError);
  EXPECT_THROW(open_own_file("/dev/null", O_RDWR), IoError);
  TempDir dir;
  fs::create_symlink("/dev/zero", dir.path("endless"));
  EXPECT_THROW(read_file(dir.path("endless")), DataError);
  EXPECT_THROW(sha256_of_file(dir.path("endless")), DataError);
}

TEST(OwnFile, ALockIsTakenOverIfItIsEmptyOrOurs) {
  TempDir dir;
  for (const char* text : {"", "4711"}) {
    write_text(dir.path("lock"), text);
    const int fd = open_lock_file(dir.path("lock"), is_number);
    EXPECT_EQ(lock_text(fd), text);
    EXPECT_TRUE(take_lock(fd, dir.path("lock")));
    close(fd);
  }
  write_text(dir.path("lock"), "my notes");
  EXPECT_THROW(open_lock_file(dir.path("lock"), is_number), ConfigError);
  EXPECT_EQ(read_file(dir.path("lock")), "my notes");
}

TEST(OwnFile, ALockWhoseFileWasRemovedOrReplacedIsNotTaken) {
  TempDir dir;
  const std::string path = dir.path("lock");
  const int removed = open_lock_file(path, is_number);
  fs::remove(path);
  EXPECT_FALSE(take_lock(removed, path));
  const int second = open_lock_file(path, is_number);
  EXPECT_FALSE(take_lock(removed, path));
  EXPECT_TRUE(take_lock(second, path));
  const int third = open_lock_file(path, is_number);
  EXPECT_FALSE(take_lock(third, path));
  for (int fd : {removed, second, third}) close(fd);
}

TEST(OwnFile, AReaderFollowsLinks) {
  TempDir dir;
  write_text(dir.path("file"), "1");
  fs::create_symlink("file", dir.path("link"));
  EXPECT_EQ(read_file(dir.path("link")), "1");
}

TEST(OwnFile, ReadingStopsAtALimit) {
  TempDir dir;
  write_text(dir.path("file"), std::string(3 << 20, 'x'));
  EXPECT_EQ(read_file(dir.path("file"), 3 << 20).size(), 3u << 20);
  EXPECT_THROW(read_file(dir.path("file"), (3 << 20) - 1), DataError);
}

}  // namespace
}  // namespace reigen
