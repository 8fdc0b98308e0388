// Files that are complete or absent: with full disks, crashes, concurrent writers, missing
// permissions.
#include "base/file/files.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file/own_file.h"
#include "support/full_disk.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;

template <class E, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  ADD_FAILURE() << "the expected error was not thrown";
  return "";
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

// Root may write anywhere, so a test of permissions drops root privileges for its duration.
class WithoutPrivilege {
 public:
  WithoutPrivilege() {
    if (was_root_) {
      EXPECT_EQ(seteuid(65534), 0);
    }
  }
  ~WithoutPrivilege() {
    if (was_root_) {
      EXPECT_EQ(seteuid(0), 0);
    }
  }

 private:
  bool was_root_ = geteuid() == 0;
};

TEST(ReadFile, ReturnsEveryByte) {
  TempDir dir;
  std::string text("a\0b\r\n\xFF", 6);
  text += std::string(3 << 20, 'x');
  write_text(dir.path("f"), text);
  EXPECT_EQ(read_file(dir.path("f")), text);
  EXPECT_EQ(file_size(dir.path("f")), text.size());
}

TEST(ReadFile, AMissingFileIsAnErrorThatNamesIt) {
  TempDir dir;
  std::string message = error_of<DataError>([&] { read_file(dir.path("gone")); });
  EXPECT_EQ(message, dir.path("gone") + ": No such file or directory");
  EXPECT_THROW(file_size(dir.path("gone")), DataError);
}

TEST(ReadFile, ADirectoryIsAnErrorAndNotAnEmptyFile) {
  TempDir dir;
  EXPECT_THROW(read_file(dir.path()), DataError);
}

TEST(FileWriter, WritesAndHashesExactlyTheGivenBytes) {
  TempDir dir;
  // Writes of many sizes, also larger than the buffer of one MiB, so that some cross its end.
  std::string expected;
  FileWriter writer(dir.path("f"));
  for (size_t size : {1, 1000, 1 << 20, 0, 3, (1 << 20) + 1, 77'777}) {
    std::string piece(size, static_cast<char>('a' + size % 26));
    writer.write(piece);
    expected += piece;
  }
  writer.close();
  EXPECT_EQ(writer.bytes(), expected.size());
  EXPECT_TRUE(read_file(dir.path("f")) == expected);
  EXPECT_EQ(writer.sha256(), sha256_of_file(dir.path("f")));
}

TEST(Sha256OfFile, ReadsTheWholeFileInBlocks) {
  TempDir dir;
  write_text(dir.path("empty"), "");
  EXPECT_EQ(sha256_of_file(dir.path("empty")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  write_text(dir.path("large"), std::string(3 << 20, 'x'));  // three reads
  EXPECT_EQ(sha256_of_file(dir.path("large")),
            "3bea8a9a07c1e8dcaa4c1b816815c35a29b4fb585ba6ecc70ea44840a794cfb3");
}

TEST(Sha256OfFile, AMissingFileIsADataErrorThatNamesIt) {
  TempDir dir;
  try {
    sha256_of_file(dir.path("gone"));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const DataError& e) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, dir.path("gone"), e.what());
  }
}

TEST(Sha256OfFile, ADirectoryIsAnErrorAndNotAnEmptyFile) {
  TempDir dir;
  EXPECT_THROW(sha256_of_file(dir.path()), Error);
}

TEST(FileWriter, AgreesWithSha256sum) {
  TempDir dir;
  FileWriter abc(dir.path("abc"));
  abc.write("abc");
  abc.close();
  EXPECT_EQ(abc.sha256(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  FileWriter empty(dir.path("empty"));
  empty.close();
  EXPECT_EQ(empty.sha256(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(FileWriter, ReplacesALongerFileWithoutLeavingItsTail) {
  TempDir dir;
  write_text(dir.path("f"), "a long old text");
  FileWriter writer(dir.path("f"));
  writer.write("new");
  writer.close();
  EXPECT_EQ(read_file(dir.path("f")), "new");
}

TEST(FileWriter, AFullDiskIsAnErrorThatNamesTheFileAndTheFix) {
  TempDir dir;
  FileWriter writer(dir.path("f"));
  writer.write("fits in the buffer");
  FullDisk disk(0);
  std::string message = error_of<IoError>([&] { writer.close(); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, dir.path("f"), message);
  message = error_of<IoError>([&] { throw_write_error(dir.path("f"), ENOSPC); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, dir.path("f"), message);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "No space left on device", message);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "free some space", message);
}

TEST(FileWriter, AFullDiskIsNoticedWhileWritingAndNotOnlyAtTheEnd) {
  TempDir dir;
  FileWriter writer(dir.path("f"));
  FullDisk disk(0);
  EXPECT_THROW(writer.write(std::string(2 << 20, 'x')), IoError);
}

TEST(FileWriter, AFileThatCannotBeCreatedIsAnErrorThatNamesIt) {
  TempDir dir;
  std::string message = error_of<IoError>([&] { FileWriter(dir.path("no/such/f")); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, dir.path("no/such/f"), message);
}

TEST(StagedDirectory, AppearsCompleteWithoutTemporaryFiles) {
  TempDir dir;
  StagedDirectory staged(dir.path("out"), false);
  write_text(staged.file("a"), "1");
  EXPECT_FALSE(path_exists(dir.path("out"))) << "visible before it is complete";
  staged.commit();
  EXPECT_EQ(read_file(dir.path("out/a")), "1");
  EXPECT_FALSE(path_exists(dir.path("out.partial")));
}

TEST(StagedDirectory, ContainsTheWrittenFilesAndAListOfThem) {
  TempDir dir;
  {
    StagedDirectory staged(dir.path("out"), false);
    write_text(staged.file("a"), "1");
    staged.commit();
  }
  EXPECT_EQ(names_in(dir.path()), Names{"out"});
  EXPECT_EQ(names_in(dir.path("out")), (Names{".reigen", "a"}));
  EXPECT_EQ(read_file(dir.path("out/.reigen")), "a\n");
}

TEST(StagedDirectory, IsAbsentWithoutCommit) {
  TempDir dir;
  {
    StagedDirectory staged(dir.path("out"), false);
    write_text(staged.file("half"), "1");
  }
  EXPECT_EQ(names_in(dir.path()), Names{});
}

TEST(StagedDirectory, CreatesTheParentsOfItsOutput) {
  TempDir dir;
  StagedDirectory staged(dir.path("a/b/out"), false);
  staged.commit();
  EXPECT_TRUE(is_directory(dir.path("a/b/out")));
}

TEST(StagedDirectory, IgnoresATrailingSlash) {
  TempDir dir;
  {
    StagedDirectory staged(dir.path("out//"), false);
    staged.commit();
  }
  EXPECT_EQ(names_in(dir.path()), Names{"out"});
}

TEST(StagedDirectory, RefusesAnExistingOutputAndLeavesItAlone) {
  TempDir dir;
  fs::create_directory(dir.path("out"));
  write_text(dir.path("out/precious"), "1");
  std::string message =
      error_of<ConfigError>([&] { StagedDirectory staged(dir.path("out"), false); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, dir.path("out"), message);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "--overwrite", message);
  EXPECT_EQ(names_in(dir.path("out")), Names{"precious"});
  EXPECT_EQ(names_in(dir.path()), Names{"out"});
}

void make_output(const std::string& path, const std::string& file) {
  StagedDirectory staged(path, false);
  write_text(staged.file(file), "1");
  staged.commit();
}

TEST(StagedDirectory, TheOldOutputStaysUntilTheNewOneIsComplete) {
  TempDir dir;
  make_output(dir.path("out"), "old");
  {
    StagedDirectory staged(dir.path("out"), true);
    write_text(staged.file("new"), "2");
    EXPECT_EQ(names_in(dir.path("out")), (Names{".reigen", "old"}));
    staged.commit();
    EXPECT_EQ(names_in(dir.path("out")), (Names{".reigen", "new"}));
  }
  EXPECT_EQ(names_in(dir.path()), Names{"out"});
}

TEST(StagedDirectory, TheOldOutputStaysWithoutCommit) {
  TempDir dir;
  make_output(dir.path("out"), "old");
  { StagedDirectory staged(dir.path("out"), true); }
  EXPECT_EQ(names_in(dir.path("out")), (Names{".reigen", "old"}));
  EXPECT_EQ(names_in(dir.path()), Names{"out"});
}

TEST(StagedDirectory, RefusesToReplaceFilesItDidNotWrite) {
  TempDir dir;
  make_output(dir.path("out"), "old");
  write_text(dir.path("out/notes"), "precious");
  std::string message =
      error_of<ConfigError>([&] { StagedDirectory staged(dir.path("out"), true); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "contains notes", message);
  EXPECT_EQ(names_in(dir.path("out")), (Names{".reigen", "notes", "old"}));
  fs::create_directory(dir.path("home"));
  write_text(dir.path("home/precious"), "1");
  EXPECT_THROW(StagedDirectory(dir.path("home"), true), ConfigError);
}

TEST(StagedDirectory, RefusesAForeignPartialDirectory) {
  TempDir dir;
  fs::create_directory(dir.path("out.partial"));
  write_text(dir.path("out.partial/precious"), "1");
  EXPECT_THROW(StagedDirectory(dir.path("out"), true), ConfigError);
  EXPECT_EQ(names_in(dir.path("out.partial")), Names{"precious"});
  EXPECT_EQ(names_in(dir.path()), Names{"out.partial"});
}

TEST(StagedDirectory, RefusesADanglingLinkBeforeAnyWork) {
  TempDir dir;
  fs::create_symlink(dir.path("nowhere"), dir.path("link"));
  EXPECT_THROW(StagedDirectory(dir.path("link"), true), ConfigError);
}

TEST(StagedDirectory, DoesNotMistakeAForeignLockFileForItsOwn) {
  TempDir dir;
  write_text(dir.path("out.partial.lock"), "mine");
  fs::create_directory(dir.path("out.partial"));
  write_text(dir.path("out.partial/precious"), "1");
  EXPECT_THROW(StagedDirectory(dir.path("out"), true), ConfigError);
  EXPECT_EQ(names_in(dir.path("out.partial")), Names{"precious"});
}

TEST(StagedDirectory, NeverWritesThroughALinkInPlaceOfItsLock) {
  TempDir dir;
  write_text(dir.path("precious"), "");  // empty, so that its content does not refuse it
  fs::create_symlink(dir.path("precious"), dir.path("out.partial.lock"));
  EXPECT_THROW(StagedDirectory(dir.path("out"), true), IoError);
  EXPECT_EQ(read_file(dir.path("precious")), "");
  EXPECT_EQ(names_in(dir.path()), (Names{"out.partial.lock", "precious"}));
}

TEST(StagedDirectory, NeverOverwritesOrRemovesAFileInPlaceOfItsLock) {
  TempDir dir;
  write_text(dir.path("out.partial.lock"), "precious");
  EXPECT_THROW(StagedDirectory(dir.path("out"), true), ConfigError);
  EXPECT_EQ(read_file(dir.path("out.partial.lock")), "precious");
}

TEST(StagedDirectory, TakesOverTheEmptyLockOfACrash) {
  TempDir dir;
  write_text(dir.path("out.partial.lock"), "");
  make_output(dir.path("out"), "a");
  EXPECT_EQ(names_in(dir.path()), Names{"out"});
}

TEST(StagedDirectory, RemovesTheParentsItCreatedWithoutCommit) {
  TempDir dir;
  { StagedDirectory staged(dir.path("a/b/out"), false); }
  EXPECT_EQ(names_in(dir.path()), Names{});
}

TEST(StagedDirectory, ReplacesTheTargetOfALinkAndNotTheLink) {
  TempDir dir;
  make_output(dir.path("real"), "old");
  fs::create_symlink(dir.path("real"), dir.path("link"));
  {
    StagedDirectory staged(dir.path("link"), true);
    write_text(staged.file("new"), "2");
    staged.commit();
  }
  EXPECT_TRUE(fs::is_symlink(dir.path("link")));
  EXPECT_EQ(names_in(dir.path("real")), (Names{".reigen", "new"}));
}

TEST(StagedDirectory, RefusesALinkAtANameOfItsOwn) {
  TempDir dir;
  make_output(dir.path("real"), "old");
  const Names before = names_in(dir.path("real"));
  fs::create_symlink(dir.path("real"), dir.path("link"));
  EXPECT_THROW(StagedDirectory(dir.path("link"), true, OutputName::kOwn), IoError);
  EXPECT_EQ(names_in(dir.path()), (Names{"link", "real"}));
  fs::remove(dir.path("link"));
  {
    StagedDirectory staged(dir.path("link"), true, OutputName::kOwn);
    fs::create_symlink(dir.path("real"), dir.path("link"));
    EXPECT_THROW(staged.commit(), IoError);
  }
  fs::remove(dir.path("link"));
  fs::create_symlink("nowhere", dir.path("link"));
  EXPECT_THROW(StagedDirectory(dir.path("link"), true, OutputName::kOwn), IoError);
  EXPECT_EQ(names_in(dir.path("real")), before);
}

TEST(StagedDirectory, IsNeverAbsentWhileItIsReplaced) {
  TempDir dir;
  { StagedDirectory(dir.path("out"), false).commit(); }
  std::atomic<bool> stop = false;
  std::atomic<int> absent = 0;
  std::atomic<int> looks = 0;
  std::thread reader([&] {
    while (!stop) {
      if (!path_exists(dir.path("out"))) ++absent;
      ++looks;
    }
  });
  for (int i = 0; i < 50 || looks < 1000; ++i) {
    StagedDirectory staged(dir.path("out"), true);
    write_text(staged.file("a"), "1");
    staged.commit();
  }
  stop = true;
  reader.join();
  EXPECT_EQ(absent, 0);
}

TEST(StagedDirectory, NeverReplacesAFile) {
  TempDir dir;
  write_text(dir.path("out"), "precious");
  EXPECT_THROW(StagedDirectory(dir.path("out"), true), ConfigError);
  EXPECT_EQ(read_file(dir.path("out")), "precious");
}

TEST(StagedDirectory, DoesNotReplaceADirectoryCreatedMeanwhileWithoutOverwrite) {
  TempDir dir;
  {
    StagedDirectory staged(dir.path("out"), false);
    fs::create_directory(dir.path("out"));
    write_text(dir.path("out/precious"), "1");
    std::string message = error_of<ConfigError>([&] { staged.commit(); });
    EXPECT_PRED_FORMAT2(testing::IsSubstring, dir.path("out"), message);
  }
  EXPECT_EQ(names_in(dir.path("out")), Names{"precious"});
  EXPECT_EQ(names_in(dir.path()), Names{"out"});
}

TEST(StagedDirectory, RefusesASecondWriterAndLeavesTheFirstAlone) {
  TempDir dir;
  {
    StagedDirectory first(dir.path("out"), false);
    write_text(first.file("a"), "1");
    std::string message =
        error_of<ConfigError>([&] { StagedDirectory second(dir.path("out"), true); });
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "a different reigen process is writing it", message);
    first.commit();
  }
  EXPECT_EQ(names_in(dir.path("out")), (Names{".reigen", "a"}));
  { StagedDirectory(dir.path("out"), true).commit(); }
  EXPECT_EQ(names_in(dir.path("out")), Names{".reigen"})
      << "the lock must go with the first writer";
}

TEST(StagedDirectory, ReplacesTheRemainsOfACrashedWriter) {
  TempDir dir;
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      StagedDirectory staged(dir.path("out"), false);
      write_text(staged.file("ruin"), "1");
      _exit(0);  // no destructor runs, as after SIGKILL
    } catch (...) {
      _exit(1);
    }
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(path_exists(dir.path("out.partial/ruin")));
  {
    StagedDirectory staged(dir.path("out"), false);
    write_text(staged.file("a"), "1");
    staged.commit();
  }
  EXPECT_EQ(names_in(dir.path()), Names{"out"});
  EXPECT_EQ(names_in(dir.path("out")), (Names{".reigen", "a"}));
}

TEST(StagedDirectory, AParentWithoutWritePermissionIsAnIoErrorWithAHint) {
  TempDir dir;
  fs::permissions(dir.path(), fs::perms(0755));
  fs::create_directory(dir.path("locked"));
  fs::permissions(dir.path("locked"), fs::perms(0555));
  WithoutPrivilege step_down;
  std::string message =
      error_of<IoError>([&] { StagedDirectory staged(dir.path("locked/out"), false); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, dir.path("locked/out"), message);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "Permission denied", message);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "choose an --output with write permission", message);
}

TEST(StagedDirectory, AParentThatIsAFileIsAnIoError) {
  TempDir dir;
  write_text(dir.path("file"), "1");
  std::string message =
      error_of<IoError>([&] { StagedDirectory staged(dir.path("file/out"), false); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, dir.path("file"), message);
}

TEST(StagedDirectory, AnEmptyNameIsAConfigError) {
  EXPECT_THROW(StagedDirectory("", false), ConfigError);
}

TEST(MappedFile, HasTheBytesOfTheFile) {
  TempDir dir;
  write_text(dir.path("f"), "mapped");
  MappedFile first(dir.path("f"));
  MappedFile file(std::move(first));
  ASSERT_EQ(file.size(), 6u);
  EXPECT_EQ(std::memcmp(file.data(), "mapped", 6), 0);
}

TEST(MappedFile, ReadsForgottenBytesAgain) {
  TempDir dir;
  const std::string text(20'000, 'm');
  write_text(dir.path("f"), text);
  const MappedFile file(dir.path("f"));
  const std::span<const std::byte> all(file.data(), file.size());
  for (const auto& some : {all, all.subspan(100, 12'000), all.subspan(5, 1), all.subspan(0, 0)}) {
    file.forget(some);
    EXPECT_EQ(std::memcmp(file.data(), text.data(), text.size()), 0);
  }
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  TempDir dir;
  write_text(dir.path("f"), "");
  EXPECT_EQ(MappedFile(dir.path("f")).size(), 0u);
}

TEST(MappedFile, AMissingFileOrADirectoryIsADataErrorThatNamesIt) {
  TempDir dir;
  std::string missing = error_of<DataError>([&] { MappedFile(dir.path("gone")); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, dir.path("gone"), missing);
  std::string directory = error_of<DataError>([&] { MappedFile(dir.path()); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "not a regular file", directory);
}

}  // namespace
}  // namespace reigen
