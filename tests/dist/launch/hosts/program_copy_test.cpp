// The copy is stored by a real shell, as it is on a host.
#include "dist/launch/hosts/program_copy.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/temp_dir.h"

namespace reigen {
namespace {

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class Host {
 public:
  Host() { std::filesystem::create_directory(home()); }
  std::string home() const { return dir_.path("home"); }

  // Bytes that the host took, or -1 if its command failed.
  long receive(const ProgramCopy& copy) const {
    write_text(dir_.path("command"), copy.receive());
    const std::string bytes = bytes_of(copy);
    const std::string command = "HOME='" + home() + "' sh '" + dir_.path("command") + "'";
    FILE* shell = popen(command.c_str(), "w");
    const size_t taken = fwrite(bytes.data(), 1, bytes.size(), shell);
    return pclose(shell) == 0 ? static_cast<long>(taken) : -1;
  }
  // The copy's path, as the host's shell understands it.
  std::string path(const ProgramCopy& copy) const {
    const std::string file = dir_.path("path");
    const std::string command =
        "HOME='" + home() + "'; printf %s " + copy.path() + " >'" + file + "'";
    return std::system(command.c_str()) == 0 ? content(file) : "";
  }

 private:
  static std::string bytes_of(const ProgramCopy& copy) {
    ProgramCopy::Stream stream(copy);
    std::string all;
    for (std::string block; !(block = stream.next()).empty();) all += block;
    return all;
  }

  TempDir dir_;
};

TEST(ProgramCopy, OfOneFileIsThatFile) {
  const TempDir here;
  const std::string bytes(3'000'000, 'r');  // more than a block
  write_text(here.path("reigen"), bytes);
  const ProgramCopy copy({.file = here.path("reigen"), .path = here.path("reigen")});
  const Host host;
  EXPECT_EQ(host.receive(copy), 3'000'000);
  EXPECT_EQ(content(host.path(copy)), bytes);
}

// Sizes at the edges of tar's blocks of 512 bytes and of the stream's of 1 MiB.
TEST(ProgramCopy, OfAnArchiveHasLauncherAndLibraries) {
  const TempDir here;
  std::filesystem::create_directories(here.path("bin"));
  std::filesystem::create_directories(here.path("lib/reigen"));
  write_text(here.path("bin/reigen"), "launcher");
  write_text(here.path("bin/other"), "not ours");
  for (const size_t size : {0, 1, 511, 512, 513, 1 << 20, (1 << 20) + 7}) {
    write_text(here.path("lib/reigen/" + std::to_string(size)), std::string(size, 'l'));
  }
  const OwnProgram program = {here.path("bin/reigen"), here.path("bin/reigen"), true};
  const ProgramCopy copy(program);
  const Host host;
  ASSERT_GT(host.receive(copy), 0);
  const std::filesystem::path launcher = host.path(copy);
  EXPECT_EQ(content(launcher), "launcher");
  const std::filesystem::path root = launcher.parent_path().parent_path();
  EXPECT_FALSE(std::filesystem::exists(root / "bin/other"));
  for (const auto& entry : std::filesystem::directory_iterator(here.path("lib/reigen"))) {
    EXPECT_EQ(content(root / "lib/reigen" / entry.path().filename()), content(entry.path()));
  }
}

TEST(ProgramCopy, OfADifferentProgramHasADifferentPlace) {
  const TempDir here;
  const OwnProgram program = {here.path("reigen"), here.path("reigen")};
  write_text(program.file, "one");
  const std::string first = ProgramCopy(program).path();
  EXPECT_EQ(ProgramCopy(program).path(), first);
  write_text(program.file, "two");
  EXPECT_NE(ProgramCopy(program).path(), first);
}

TEST(ProgramCopy, IsNotReplacedOnAHostThatHasIt) {
  const TempDir here;
  write_text(here.path("reigen"), "one");
  const ProgramCopy copy({.file = here.path("reigen"), .path = here.path("reigen")});
  const Host host;
  ASSERT_EQ(host.receive(copy), 3);
  const auto before = std::filesystem::last_write_time(host.path(copy));
  EXPECT_EQ(host.receive(copy), 3);
  EXPECT_EQ(std::filesystem::last_write_time(host.path(copy)), before);
}

}  // namespace
}  // namespace reigen
