// A second copy is complete, verified and the only one at its place, or it is not there.
#include "train/directory/checkpoint_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file/files.h"
#include "support/temp_dir.h"
#include "train/directory/checkpoint_copier.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

void write_below(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  write_text(path, text);
}

// What a copy needs of a checkpoint: files and their SHA256SUMS.
void make_checkpoint(const std::string& path, const std::string& text) {
  write_below(path + "/model.safetensors", text);
  write_below(path + "/manifest.json", "{}");
  std::string sums;
  for (const char* name : {"manifest.json", "model.safetensors"}) {
    sums += sha256_of_file(path + "/" + name) + "  " + name + "\n";
  }
  write_below(path + "/SHA256SUMS", sums);
}

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) names.push_back(entry.path().filename());
  return names;
}

class CheckpointCopy : public testing::Test {
 protected:
  CopyPlace in_directory() const { return {{CopyTarget::Kind::kDirectory, "", at("copy")}, {}}; }
  std::string at(const std::string& name) const { return dir.path() + "/" + name; }
  void put(const CopyPlace& place, uint64_t step) const {
    const std::string name = RunDirectory::name_of(step);
    put_copy(place, at(name), name, [] { return false; });
  }
  std::string error_of(const CopyPlace& place, uint64_t step) const {
    try {
      put(place, step);
    } catch (const IoError& e) {
      return e.what();
    }
    return "";
  }

  TempDir dir;
};

TEST_F(CheckpointCopy, ReplacesTheOneBefore) {
  make_checkpoint(at("step-00000010"), "ten");
  make_checkpoint(at("step-00000020"), "twenty");
  put(in_directory(), 10);
  put(in_directory(), 20);
  EXPECT_THAT(names_in(at("copy")), UnorderedElementsAre(".reigen-copy", "last", "step-00000020"));
  EXPECT_EQ(read_file(at("copy/last/model.safetensors")), "twenty");
  put(in_directory(), 20);  // there already
  EXPECT_EQ(read_file(at("copy/last/model.safetensors")), "twenty");
}

TEST_F(CheckpointCopy, IsFoundByItsLink) {
  EXPECT_EQ(find_copy(in_directory()), std::nullopt);
  EXPECT_EQ(restore_if_copied(in_directory(), at("run")), std::nullopt);
  EXPECT_FALSE(fs::exists(at("run")));
  make_checkpoint(at("step-00000010"), "ten");
  put(in_directory(), 10);
  EXPECT_EQ(find_copy(in_directory()), 10u);
  EXPECT_THROW(restore_if_copied(in_directory(), at("run")),
               CheckpointError);  // it is not complete
  EXPECT_FALSE(fs::exists(at("run")));
  fs::remove(at("copy/last"));
  fs::create_symlink("/etc", at("copy/last"));
  EXPECT_EQ(find_copy(in_directory()), std::nullopt);
}

TEST_F(CheckpointCopy, StaysAsItWasWhenTheNextOneIsDamaged) {
  make_checkpoint(at("step-00000010"), "ten");
  make_checkpoint(at("step-00000020"), "twenty");
  put(in_directory(), 10);
  write_below(at("step-00000020/model.safetensors"), "changed");
  EXPECT_THAT(error_of(in_directory(), 20), HasSubstr("model.safetensors: FAILED"));
  EXPECT_EQ(read_file(at("copy/last/model.safetensors")), "ten");
  EXPECT_FALSE(fs::exists(at("copy/step-00000020")));
  make_checkpoint(at("step-00000030"), "thirty");
  put(in_directory(), 30);  // also removes what the failure has left
  EXPECT_THAT(names_in(at("copy")), UnorderedElementsAre(".reigen-copy", "last", "step-00000030"));
}

TEST_F(CheckpointCopy, RemovesNothingFromAnyOtherDirectory) {
  make_checkpoint(at("step-00000010"), "ten");
  write_below(at("copy/step-00000001/notes"), "mine");
  EXPECT_THAT(error_of(in_directory(), 10), HasSubstr("contains other files"));
  EXPECT_EQ(read_file(at("copy/step-00000001/notes")), "mine");
}

TEST_F(CheckpointCopy, GoesThroughSsh) {
  make_checkpoint(at("step-00000010"), "ten");
  write_below(
      at("ssh"),
      "#!/bin/sh\nwhile [ $# -gt 2 ]; do shift; done\n[ $1 = vm2 ] || exit 255\nsh -c \"$2\"\n");
  fs::permissions(at("ssh"), fs::perms::owner_all);
  setenv("REIGEN_SSH", at("ssh").c_str(), 1);
  put({{CopyTarget::Kind::kHost, "vm2", at("a folder's copy")}, {}}, 10);
  EXPECT_EQ(read_file(at("a folder's copy/last/model.safetensors")), "ten");
  EXPECT_NE(error_of({{CopyTarget::Kind::kHost, "vm3", at("copy")}, {}}, 10), "");
  unsetenv("REIGEN_SSH");
}

TEST_F(CheckpointCopy, ByACommandIsVerifiedByItsSums) {
  make_checkpoint(at("step-00000010"), "ten");
  const std::string script = at("copy.sh");
  write_below(script,
              "set -eu\ncd \"$(dirname \"$0\")\"\necho \"$1\" >> calls\ncase $1 in\n"
              "put) mkdir -p there; cp -r \"$2\" there/$3; [ ! -e break ] || echo x >> "
              "there/$3/model.safetensors;;\n"
              "sums) cd there/$2; sha256sum *;;\n"
              "keep) ln -sfn $2 there/last;;\n"
              "esac\n");
  const CopyPlace place = {{CopyTarget::Kind::kCommand, "", "sh " + script}, {}};
  write_below(at("break"), "");
  EXPECT_THAT(error_of(place, 10), HasSubstr("the copy differs"));
  EXPECT_FALSE(fs::exists(at("there/last")));
  fs::remove(at("break"));
  fs::remove_all(at("there"));
  put(place, 10);
  EXPECT_EQ(read_file(at("there/last/model.safetensors")), "ten");
  EXPECT_EQ(read_file(at("calls")), "put\nsums\nput\nsums\nkeep\n");
}

TEST_F(CheckpointCopy, IsGivenUpOnRequest) {
  make_checkpoint(at("step-00000010"), "ten");
  const CopyPlace place = {{CopyTarget::Kind::kCommand, "", "sleep 600 #"}, {}};
  EXPECT_THROW(put_copy(place, at("step-00000010"), "step-00000010", [] { return true; }), IoError);
}

TEST_F(CheckpointCopy, OfARunSkipsCheckpointsThatCameMeanwhile) {
  RunDirectory run(at("run"));
  for (uint64_t step : {10, 20, 30}) make_checkpoint(run.checkpoint(step), std::to_string(step));
  // Waits for the file `go` before its first copy.
  write_below(at("copy.sh"),
              "cd \"$(dirname \"$0\")\"\ncase $1 in\n"
              "put) echo $3 >> puts; while [ ! -e go ]; do sleep 0.05; done; cp -r \"$2\" here;;\n"
              "sums) cd here; sha256sum *; cd ..; rm -r here;;\n"
              "esac\n");
  CheckpointCopier copier(run, {{CopyTarget::Kind::kCommand, "", "sh " + at("copy.sh")}, {}}, "x");
  EXPECT_THAT(copier.needed(), ElementsAre());
  copier.copy(10);
  while (!fs::exists(at("puts"))) std::this_thread::yield();
  copier.copy(20);
  copier.copy(30);
  EXPECT_THAT(copier.needed(), UnorderedElementsAre(10, 30));
  EXPECT_FALSE(copier.finished());
  EXPECT_FALSE(copier.wait([] { return true; }));
  write_below(at("go"), "");
  EXPECT_TRUE(copier.wait([] { return false; }));
  EXPECT_THAT(copier.needed(), ElementsAre());
  EXPECT_EQ(read_file(at("puts")), "step-00000010\nstep-00000030\n");
  const auto record = copier.finished();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->step, 30u);
  EXPECT_EQ(record->error, "");
  EXPECT_GT(record->bytes, 0u);
  EXPECT_FALSE(copier.finished());
}

TEST_F(CheckpointCopy, ThatFailsIsARecordAndNoError) {
  RunDirectory run(at("run"));
  make_checkpoint(run.checkpoint(10), "ten");
  CheckpointCopier copier(run, {{CopyTarget::Kind::kCommand, "", "echo no bucket >&2; false"}, {}},
                          "x");
  copier.copy(10);
  EXPECT_TRUE(copier.wait([] { return false; }));
  const auto record = copier.finished();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->error, "no bucket");
}

}  // namespace
}  // namespace reigen
