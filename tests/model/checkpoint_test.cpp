// Checkpoints with damage and full disks: a change of any file is detected and named, and a
// checkpoint that could not be written completely is absent.
#include "model/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file/files.h"
#include "support/full_disk.h"
#include "support/small_model.h"
#include "support/teacher_forced.h"
#include "support/temp_dir.h"
#include "tensor/safetensors.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Opens a checkpoint as a resume does: every file is verified.
void open_fully(const std::string& directory) {
  const CheckpointFacts facts = read_checkpoint_facts(directory);
  for (const auto& file : facts.files) verify_checkpoint_file(directory, file);
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const CheckpointError& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

std::set<std::string> names_in(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.insert(entry.path().filename());
  }
  return names;
}

class CheckpointTest : public ::testing::Test {
 protected:
  TempDir dir;
  SmallModel small{tiny_variant("post")};
  std::string at = dir.path("step-7");
};

TEST_F(CheckpointTest, ReadsBackEveryFactAndEveryValue) {
  for (const char* variant : {"pre", "post", "swish"}) {
    const SmallModel written(tiny_variant(variant));
    const std::string path = dir.path(variant);
    const CheckpointFacts returned = written.write(path);
    const CheckpointFacts read = read_checkpoint_facts(path);
    EXPECT_EQ(read.step, 7u);
    EXPECT_EQ(one_line(model_json(read.model)), one_line(model_json(written.model.options())));
    EXPECT_EQ(read.parameters, written.model.layout().parameters());
    EXPECT_EQ(read.pieces, 29u);
    EXPECT_EQ(read.source_language, "en");
    EXPECT_EQ(read.target_language, "de");
    EXPECT_FALSE(read.nfkc);
    EXPECT_TRUE(read.whitespace);
    EXPECT_EQ(read.scores, written.facts(7).scores);
    EXPECT_EQ(read.training, written.facts(7).training);
    ASSERT_EQ(read.files.size(), returned.files.size());
    for (size_t f = 0; f < read.files.size(); ++f) {
      EXPECT_EQ(read.files[f].file, returned.files[f].file);
      EXPECT_EQ(read.files[f].sha256, returned.files[f].sha256);
      EXPECT_EQ(read.files[f].bytes, file_size(path + "/" + read.files[f].file));
    }
    open_fully(path);

    std::vector<float> values(written.parameters.size());
    read_buffer(path + "/model.safetensors", written.model.layout(), "", values);
    EXPECT_EQ(values, written.parameters);
    read_buffer(path + "/optimizer.safetensors", written.model.layout(), "first_moment.", values);
    EXPECT_EQ(values, written.first);
    read_buffer(path + "/optimizer.safetensors", written.model.layout(), "second_moment.", values);
    EXPECT_EQ(values, written.second);
  }
}

TEST_F(CheckpointTest, HasExactlyTheListedFilesAndTheVocabularysBytes) {
  small.write(at);
  EXPECT_EQ(names_in(at),
            (std::set<std::string>{".reigen", "SHA256SUMS", "manifest.json", "model.safetensors",
                                   "optimizer.safetensors", "pieces.vocab"}));
  EXPECT_EQ(read_file(at + "/pieces.vocab"), small.vocabulary.bytes());
}

TEST_F(CheckpointTest, NeedsNoMoments) {
  write_checkpoint(at, small.facts(7), small.model.layout(), small.parameters, {},
                   small.vocabulary);
  open_fully(at);
  const CheckpointFacts facts = read_checkpoint_facts(at);
  EXPECT_THAT(error_of([&] { find_file(facts, at, "optimizer.safetensors"); }),
              AllOf(HasSubstr(at), HasSubstr("optimizer.safetensors")));
}

TEST_F(CheckpointTest, IsReadFromACopyInAnotherDirectory) {
  small.write(at);
  fs::copy(at, dir.path("copy"), fs::copy_options::recursive);
  fs::remove_all(at);
  EXPECT_NO_THROW(open_fully(dir.path("copy")));
}

class DamagedFile : public CheckpointTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(DamagedFile, IsDetectedAndNamedForAnyChangedByte) {
  small.write(at);
  const std::string path = at + "/" + GetParam();
  const std::string whole = read_file(path);
  const size_t stride = std::max<size_t>(1, whole.size() / 40);
  for (size_t byte = 0; byte < whole.size(); byte += stride) {
    std::string changed = whole;
    changed[byte] = static_cast<char>(changed[byte] ^ 0x04);
    write_text(path, changed);
    EXPECT_THAT(error_of([&] { open_fully(at); }), HasSubstr(GetParam())) << "byte " << byte;
  }
  write_text(path, whole);
  open_fully(at);
}

TEST_P(DamagedFile, IsDetectedAndNamedWhenTruncatedOrLonger) {
  small.write(at);
  const std::string path = at + "/" + GetParam();
  const std::string whole = read_file(path);
  for (size_t left : {size_t{0}, size_t{1}, whole.size() / 2, whole.size() - 1}) {
    write_text(path, whole.substr(0, left));
    EXPECT_THAT(error_of([&] { open_fully(at); }), HasSubstr(GetParam())) << left << " bytes";
  }
  write_text(path, whole + "\n");
  EXPECT_THAT(error_of([&] { open_fully(at); }), HasSubstr(GetParam()));
}

TEST_P(DamagedFile, IsDetectedAndNamedWhenMissing) {
  small.write(at);
  fs::remove(at + "/" + GetParam());
  EXPECT_THAT(error_of([&] { open_fully(at); }), HasSubstr(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Every, DamagedFile,
                         ::testing::Values("manifest.json", "SHA256SUMS", "model.safetensors",
                                           "optimizer.safetensors", "pieces.vocab"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST_F(CheckpointTest, OtherDirectoriesAreNotCheckpoints) {
  EXPECT_FALSE(is_checkpoint(dir.path("nothing")));
  EXPECT_FALSE(is_checkpoint(dir.path()));
  EXPECT_THAT(error_of([&] { read_checkpoint_facts(dir.path()); }), HasSubstr(dir.path()));
  small.write(at);
  EXPECT_TRUE(is_checkpoint(at));
}

TEST_F(CheckpointTest, RefusesATensorThatIsMissingOrHasADifferentShape) {
  small.write(at);
  const std::string file = at + "/model.safetensors";
  auto error_with = [&](const ModelOptions& options, size_t pieces) {
    const Transformer other(options, {}, pieces);
    std::vector<float> values(other.layout().elements());
    return error_of([&] { read_buffer(file, other.layout(), "", values); });
  };
  ModelOptions options = tiny_variant("post");
  EXPECT_THAT(error_with(options, 30), AllOf(HasSubstr("[29, 16]"), HasSubstr("[30, 16]")));
  options.encoder_layers = 3;
  EXPECT_THAT(error_with(options, 29), HasSubstr("encoder.2."));
  options = tiny_variant("post");
  options.ffn_width = 32;
  EXPECT_THAT(error_with(options, 29), HasSubstr("[16, 32]"));
  std::vector<float> values(small.parameters.size());
  EXPECT_THAT(error_of([&] {
                read_buffer(at + "/optimizer.safetensors", small.model.layout(), "third.", values);
              }),
              AllOf(HasSubstr("optimizer.safetensors"), HasSubstr("third.")));
}

TEST_F(CheckpointTest, RefusesATransposedTensor) {
  ParameterLayout upright;
  upright.add("w", 2, 8);
  ParameterLayout turned;
  turned.add("w", 8, 2);
  std::vector<float> values(upright.elements());
  FileWriter file(dir.path("w.safetensors"));
  write_safetensors(file, {{"w", {2, 8}, std::span(values).first(16)}}, {});
  file.close();
  read_buffer(dir.path("w.safetensors"), upright, "", values);
  EXPECT_THAT(error_of([&] { read_buffer(dir.path("w.safetensors"), turned, "", values); }),
              AllOf(HasSubstr("[2, 8]"), HasSubstr("[8, 2]")));
}

TEST_F(CheckpointTest, RefusesAManifestOfADifferentFormatOrVersion) {
  small.write(at);
  auto rewritten = [&](const std::string& key, const Json& value) {
    Json json = read_json(at + "/manifest.json");
    json[key] = value;
    const std::string before = read_file(at + "/manifest.json");
    const std::string after = pretty(json);
    auto sum_of = [](const std::string& text) {
      Sha256 sum;
      sum.update(text.data(), text.size());
      return sum.hex();
    };
    std::string sums = read_file(at + "/SHA256SUMS");
    sums.replace(sums.find(sum_of(before)), 64, sum_of(after));
    write_text(at + "/manifest.json", after);
    write_text(at + "/SHA256SUMS", sums);
    std::string error = error_of([&] { read_checkpoint_facts(at); });
    fs::remove_all(at);
    small.write(at);
    return error;
  };
  EXPECT_THAT(rewritten("format", "a cake"), HasSubstr("manifest.json"));
  EXPECT_THAT(rewritten("version", 5), HasSubstr("version 5,"));
  EXPECT_THAT(rewritten("version", 4), HasSubstr("target_languages"));
  EXPECT_THAT(rewritten("version", 3), HasSubstr("quantized"));
  EXPECT_THAT(rewritten("step", "many"), HasSubstr("manifest.json: damaged"));
  EXPECT_THAT(rewritten("files", 3), HasSubstr("manifest.json: damaged"));
  EXPECT_THAT(rewritten("weights", "best"), HasSubstr("manifest.json: damaged"));
  EXPECT_THAT(rewritten("model", nullptr), HasSubstr("model"));
  EXPECT_THAT(rewritten("scores", "good"), HasSubstr("scores"));
  EXPECT_THAT(rewritten("scores", {{"bleu", "good"}}), HasSubstr("scores.bleu"));
  EXPECT_THAT(rewritten("training", 1), HasSubstr("training"));
  EXPECT_THAT(rewritten("training", {{"device", 1}}), HasSubstr("training.device"));
  EXPECT_THAT(rewritten("step", -1), HasSubstr("step"));
  EXPECT_THAT(rewritten("step", 1e300), HasSubstr("step"));
  EXPECT_THAT(rewritten("vocabulary_pieces", 1'000'000'000'000), HasSubstr("1,000,000,000,000"));
}

// A model of the manifest's shape would take terabytes.
TEST_F(CheckpointTest, RefusesParametersThatItsFileCannotHave) {
  small.write(at);
  const CheckpointFacts facts = read_checkpoint_facts(at);
  EXPECT_NO_THROW(check_parameter_count(facts, at, small.model.layout()));
  ParameterLayout large;
  large.add("embedding.weight", 1'000'000, 1'000'000);
  EXPECT_THROW(check_parameter_count(facts, at, large), CheckpointError);
}

// A resume continues from the checkpoint before it, whatever the reason.
TEST_F(CheckpointTest, AFileThatCannotBeReadIsABadCheckpoint) {
  for (const char* name : {"manifest.json", "SHA256SUMS", "model.safetensors"}) {
    small.write(at);
    fs::remove(at + "/" + name);
    fs::create_directory(at + "/" + name);  // open succeeds, read fails with EISDIR
    EXPECT_THROW(open_fully(at), CheckpointError) << name;
    fs::remove_all(at);
  }
}

TEST_F(CheckpointTest, OnAFullDiskIsAbsentAndThePreviousOneStays) {
  small.write(at);
  const std::string before = read_file(at + "/SHA256SUMS");
  const SmallModel other(tiny_variant("post"), 29, 5);
  for (uint64_t room : {0, 100, 5000, 40'000}) {
    FullDisk full(room);
    EXPECT_THROW(other.write(dir.path("new")), IoError) << room;
    EXPECT_THROW(write_checkpoint(at, other.facts(7), other.model.layout(), other.parameters,
                                  other.moments(), other.vocabulary, true),
                 IoError)
        << room;
  }
  EXPECT_EQ(names_in(dir.path()), std::set<std::string>{"step-7"});
  EXPECT_EQ(read_file(at + "/SHA256SUMS"), before);
  open_fully(at);
  other.write(dir.path("new"));
  open_fully(dir.path("new"));
}

TEST_F(CheckpointTest, LeavesNothingBehindWhereItCannotWrite) {
  write_text(dir.path("file"), "in the way");
  EXPECT_THROW(small.write(dir.path("file/new")), IoError);
  EXPECT_THROW(small.write("/proc/self/new"), IoError);
  EXPECT_EQ(names_in(dir.path()), std::set<std::string>{"file"});
}

TEST_F(CheckpointTest, ReplacesAnExistingOneOnlyWithOverwrite) {
  small.write(at);
  const SmallModel other(tiny_variant("post"), 29, 5);
  EXPECT_THROW(other.write(at), ConfigError);
  write_checkpoint(at, other.facts(8), other.model.layout(), other.parameters, {}, other.vocabulary,
                   true);
  EXPECT_EQ(read_checkpoint_facts(at).step, 8u);
  EXPECT_FALSE(names_in(at).contains("optimizer.safetensors"));
}

}  // namespace
}  // namespace reigen
