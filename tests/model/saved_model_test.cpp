// Loading a trained model: the choice of a run's checkpoint; a damaged one is never used.
#include "model/saved_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "support/small_model.h"
#include "support/teacher_forced.h"
#include "support/temp_dir.h"
#include "text/vocab_trainer.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

template <class F>
std::string load_error(F&& f) {
  try {
    f();
  } catch (const CheckpointError& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(LoadModel, ReturnsTheModelAsWritten) {
  for (const char* variant : {"pre", "post", "swish"}) {
    TempDir dir;
    SmallModel written(tiny_variant(variant));
    written.write(dir.path("a"));
    SavedModel read = load_model(dir.path("a"));
    EXPECT_EQ(read.path, dir.path("a"));
    EXPECT_EQ(read.facts.step, 7u);
    EXPECT_EQ(read.parameters, written.parameters);
    EXPECT_EQ(read.vocabulary.bytes(), written.vocabulary.bytes());
    PackedBatch batch;
    batch.source = {5, 9, 0};
    batch.target_in = {0, 6};
    batch.target_out = {6, 0};
    batch.source_offsets = {0, 3};
    batch.target_offsets = {0, 2};
    batch.first_source_token = batch.first_target_token = {0};
    Arena arena;
    const Device device = Device::cpu(1);
    EXPECT_EQ(read.model->evaluate(device, batch, read.parameters, 0, arena).nll,
              written.model.evaluate(device, batch, written.parameters, 0, arena).nll);
  }
}

// A checkpoint with a vocabulary of 64 pieces that has these tags.
SavedModel tagged_model(const TempDir& dir, const std::vector<std::string>& tags) {
  WordCounts words;
  for (int i = 0; i < 200; ++i) words.add(format("the number {} follows {}", i, i * i));
  VocabOptions options;
  options.size = 64;
  options.tags = tags;
  SmallModel small(tiny_variant("pre"), 64);
  small.vocabulary = Vocabulary::from_model_bytes(
      train_vocabulary(options, words, [] { return [](uint64_t) {}; }), "test");
  small.write(dir.path("a"));
  return load_model(dir.path("a"));
}

std::string rules_error(const SavedModel& saved, const std::string& to) {
  try {
    text_rules(saved, to);
  } catch (const ConfigError& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(TextRulesOfAModel, SeveralLanguagesNeedAChoice) {
  const TempDir dir;
  const SavedModel saved = tagged_model(dir, {">>de<<", ">>fr<<"});
  EXPECT_EQ(saved.facts.target_languages, (std::vector<std::string>{"de", "fr"}));
  const TextRules rules = text_rules(saved, "fr");
  EXPECT_EQ(rules.target_language, "fr");
  ASSERT_TRUE(rules.tag);
  EXPECT_EQ(saved.vocabulary.piece(*rules.tag), ">>fr<<");
  EXPECT_EQ(rules.line_tags(), LineTags::kText);
  EXPECT_THAT(rules_error(saved, ""), HasSubstr("--to: de, fr"));
  EXPECT_THAT(rules_error(saved, "es"), HasSubstr("its languages: de, fr"));
}

TEST(TextRulesOfAModel, OneLanguageNeedsNone) {
  const TempDir dir;
  EXPECT_TRUE(text_rules(tagged_model(dir, {">>fr<<"})).tag);
}

TEST(TextRulesOfAModel, AModelWithoutTagsHasNoChoice) {
  const TempDir dir;
  const SavedModel saved = tagged_model(dir, {});
  EXPECT_TRUE(saved.facts.target_languages.empty());
  EXPECT_FALSE(text_rules(saved).tag);
  EXPECT_THAT(rules_error(saved, saved.facts.target_language), HasSubstr("leave out --to"));
  EXPECT_NE(read_file(dir.path("a/manifest.json")).find("\"version\": 1"), std::string::npos);
}

TEST(LoadModel, UsesTheAverageWhereItScoredBetter) {
  for (bool better : {false, true}) {
    TempDir dir;
    const SmallModel small(tiny_variant("pre"));
    std::vector<float> average = small.parameters;
    for (float& x : average) x *= 0.5F;
    CheckpointFacts facts = small.facts(7);
    facts.use_average = better;
    write_checkpoint(dir.path("a"), facts, small.model.layout(), small.parameters, {},
                     small.vocabulary, false, {}, OutputName::kOfUser, average);
    const SavedModel read = load_model(dir.path("a"));
    EXPECT_EQ(read.facts.use_average, better);
    EXPECT_TRUE(has_average(read.facts));
    for (const ParameterSlice& slice : small.model.layout().slices()) {  // without the gaps
      EXPECT_EQ(read.parameters[slice.offset], (better ? average : small.parameters)[slice.offset]);
    }
    fs::remove(dir.path("a/average.safetensors"));
    if (better) {
      EXPECT_THAT(load_error([&] { load_model(dir.path("a")); }), HasSubstr("average"));
    } else {
      EXPECT_NO_THROW(load_model(dir.path("a")));
    }
  }
}

TEST(LoadModel, WorksWithoutRunAndMoments) {
  TempDir dir;
  const SmallModel small(tiny_variant("pre"));
  small.write(dir.path("a"));
  fs::remove(dir.path("a/optimizer.safetensors"));
  fs::create_directories(dir.path("else/where"));
  fs::rename(dir.path("a"), dir.path("else/where/b"));
  EXPECT_EQ(load_model(dir.path("else/where/b")).parameters, small.parameters);
}

TEST(LoadModel, RefusesADamagedFileAndNamesIt) {
  const SmallModel small(tiny_variant("pre"));
  for (const char* name : {"manifest.json", "SHA256SUMS", "model.safetensors", "pieces.vocab"}) {
    TempDir dir;
    small.write(dir.path("a"));
    const std::string path = dir.path("a/") + name;
    const std::string whole = read_file(path);
    std::string changed = whole;
    changed[whole.size() / 2] = static_cast<char>(changed[whole.size() / 2] ^ 1);
    write_text(path, changed);
    EXPECT_THAT(load_error([&] { load_model(dir.path("a")); }), HasSubstr(name));
    write_text(path, whole.substr(0, whole.size() - 1));
    EXPECT_THAT(load_error([&] { load_model(dir.path("a")); }), HasSubstr(name));
    write_text(path, whole);
    EXPECT_EQ(load_model(dir.path("a")).facts.step, 7u);
    fs::remove(path);
    EXPECT_THAT(load_error([&] { load_model(dir.path("a")); }), HasSubstr(dir.path("a")));
  }
}

TEST(LoadModel, RefusesAVocabularyOfADifferentSize) {
  TempDir dir;
  const SmallModel small(tiny_variant("pre"), 29);
  const Vocabulary other = numbered_pieces(28);
  // A manifest with 28 pieces for tensors of 29.
  write_checkpoint(dir.path("a"), small.facts(7), small.model.layout(), small.parameters, {},
                   other);
  EXPECT_THAT(load_error([&] { load_model(dir.path("a")); }),
              HasSubstr("the model needs [28, 16]"));
}

TEST(ResolveCheckpoint, PrefersBestBleuThenBestLossThenLast) {
  TempDir run;
  const SmallModel small(tiny_variant("pre"));
  fs::create_directory(run.path("checkpoints"));
  EXPECT_THAT(load_error([&] { resolve_checkpoint(run.path()); }),
              HasSubstr("looked for best-bleu, best-loss, last"));
  uint64_t step = 1;
  for (const char* name : {"last", "best-loss", "best-bleu"}) {
    const std::string checkpoint = "checkpoints/step-0000000" + std::to_string(step);
    small.write(run.path(checkpoint), step);
    fs::create_directory_symlink(checkpoint, run.path(name));
    EXPECT_EQ(resolve_checkpoint(run.path()), run.path(name));
    EXPECT_EQ(load_model(run.path()).facts.step, step);
    ++step;
  }
  // A link to a missing checkpoint is skipped.
  fs::remove_all(run.path("checkpoints/step-00000003"));
  EXPECT_EQ(resolve_checkpoint(run.path()), run.path("best-loss"));
}

TEST(ResolveCheckpoint, ReturnsACheckpointPathUnchanged) {
  TempDir dir;
  const SmallModel small(tiny_variant("pre"));
  small.write(dir.path("a"));
  EXPECT_EQ(resolve_checkpoint(dir.path("a")), dir.path("a"));
  EXPECT_EQ(resolve_checkpoint(dir.path("a") + "/"), dir.path("a") + "/");
}

TEST(ResolveCheckpoint, NamesAPathThatIsNotADirectory) {
  TempDir dir;
  write_text(dir.path("file"), "x");
  for (const std::string& path : {dir.path("nothing"), dir.path("file")}) {
    EXPECT_THAT(load_error([&] { resolve_checkpoint(path); }),
                HasSubstr(path + ": is not a directory"));
  }
}

}  // namespace
}  // namespace reigen
