// The preparation as a library call: its output, which depends only on its input.
#include "data/prepare/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file/files.h"
#include "data/dataset.h"
#include "support/sample_data.h"
#include "support/temp_dir.h"
#include "text/vocabulary.h"

namespace reigen {
namespace {

using ::testing::HasSubstr;

std::map<std::string, std::string> contents(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    files[entry.path().filename()] = read_file(entry.path());
  }
  return files;
}

TEST(Prepare, WritesTheSameBytesForAnyNumberOfThreads) {
  TempDir dir;
  CorpusSpec train = write_sample_corpus(dir.path(), "a", 5000);
  for (VocabType type : {VocabType::kBpe, VocabType::kUnigram}) {
    PrepareOptions options = sample_options(train, dir.path("one"));
    options.vocab.type = type;
    options.vocab.sample_pairs = 1500;
    options.shard_tokens = 20'000;
    options.overwrite = true;
    options.threads = 1;
    prepare(options);
    options.output = dir.path("five");
    options.threads = 5;
    prepare(options);
    EXPECT_EQ(contents(dir.path("one")), contents(dir.path("five")));
    EXPECT_GT(read_manifest(dir.path("one")).train[0].shards.size(), 2u);
  }
}

TEST(Prepare, DropsTheShareWithTheLowestScores) {
  TempDir dir;
  const CorpusSpec train = write_sample_corpus(dir.path(), "a", 1000);
  // A pair's score is its place, except that some have none.
  for (const bool given : {false, true}) {
    size_t seen = 0;
    const PairScoring scoring = [&](const std::vector<std::string>& sources,
                                    const std::vector<std::string>& targets,
                                    const std::string& to) {
      EXPECT_EQ(to, "de");
      EXPECT_EQ(sources.size(), targets.size());
      std::vector<double> scores;
      for (size_t i = 0; i < sources.size(); ++i, ++seen) {
        scores.push_back(seen % 100 == 99 ? NAN : static_cast<double>(seen));
      }
      return scores;
    };
    PrepareOptions options = sample_options(train, dir.path(given ? "given" : "trained"));
    options.clean.score = "a model";
    options.clean.score_share = 0.25;
    options.clean.max_ratio = 0;
    if (given) options.vocab.file = dir.path("trained/vocab.model");
    options.examples = 1000;
    const PrepareResult result = prepare(options, scoring);
    const auto rule = static_cast<size_t>(Rule::kScore);
    const size_t cleaned =
        result.manifest.train[0].lines_kept + result.manifest.train[0].dropped[rule];
    EXPECT_EQ(seen, cleaned);
    EXPECT_EQ(result.manifest.train[0].dropped[rule], cleaned / 4);
    // Those without a score, and the first of the others.
    size_t last = 0;
    for (const DroppedExample& one : result.examples[rule]) {
      if (one.line % 100 != 0) last = std::max(last, static_cast<size_t>(one.line));
    }
    EXPECT_LT(last, cleaned / 4 + 1);
    EXPECT_EQ(read_manifest(options.output).train[0].dropped[rule], cleaned / 4);
    EXPECT_EQ(read_manifest(options.output).options.at("clean").at("score-share"), 0.25);
  }
  EXPECT_EQ(contents(dir.path("trained"))["train-00000.shard"],
            contents(dir.path("given"))["train-00000.shard"]);
}

TEST(Prepare, CountsTrainingPairsThatAreHeldOutWhereItKeepsThem) {
  TempDir dir;
  TempDir other;
  PrepareOptions options =
      sample_options(write_sample_corpus(dir.path(), "a", 300), dir.path("dropped"));
  options.valid = {write_sample_corpus(other.path(), "a", 20)};  // its first pairs
  const Manifest dropped = prepare(options).manifest;
  const uint64_t both = dropped.train[0].dropped[static_cast<size_t>(Rule::kHeldout)];
  EXPECT_GT(both, 0U);
  EXPECT_EQ(dropped.train[0].heldout_kept, 0U);
  options.clean.heldout = false;
  options.output = dir.path("kept");
  prepare(options);
  EXPECT_EQ(read_manifest(options.output).train[0].heldout_kept, both);
}

TEST(Prepare, WithoutANewRuleTheManifestIsAsBefore) {
  TempDir dir;
  prepare(sample_options(write_sample_corpus(dir.path(), "a", 300), dir.path("out")));
  const std::string manifest = read_file(dir.path("out/manifest.json"));
  for (const char* word : {"score", "byte-fallback", "user-symbols", "heldout_kept"}) {
    EXPECT_EQ(manifest.find(word), std::string::npos) << word;
  }
  EXPECT_NE(manifest.find("\"coverage\": 1.0"), std::string::npos);
}

TEST(Prepare, WritesTheSameShardsWithTheVocabularyItTrained) {
  TempDir dir;
  CorpusSpec train = write_sample_corpus(dir.path(), "a", 2000);
  PrepareOptions options = sample_options(train, dir.path("trained"));
  prepare(options);
  options.vocab.file = dir.path("trained/vocab.model");
  options.output = dir.path("given");
  prepare(options);
  auto trained = contents(dir.path("trained"));
  auto given = contents(dir.path("given"));
  EXPECT_EQ(trained["train-00000.shard"], given["train-00000.shard"]);
  EXPECT_EQ(trained["vocab.model"], given["vocab.model"]);
}

TEST(Prepare, StoresTheIdsOfTheEncoder) {
  TempDir dir;
  CorpusSpec train = write_sample_corpus(dir.path(), "a", 300);
  prepare(sample_options(train, dir.path("out")));
  Manifest manifest = read_manifest(dir.path("out"));
  Dataset dataset(dir.path("out"), manifest.train, manifest.vocab.size);
  Vocabulary vocabulary = Vocabulary::load(dir.path("out/vocab.model"));
  ASSERT_EQ(dataset.pairs(), 300u);
  std::vector<uint32_t> ids;
  dataset.append_target(17, ids);
  ASSERT_EQ(ids.back(), vocabulary.eos());
  ids.pop_back();
  EXPECT_THAT(vocabulary.decode(ids), HasSubstr("Nummer 17"));
  EXPECT_EQ(manifest.train[0].target.lengths.sentences(), 300u);
  EXPECT_EQ(manifest.train[0].target.lengths.pieces(), manifest.train[0].target.pieces);
}

TEST(Prepare, CountsEveryDropUnderItsRuleAndShowsExamples) {
  TempDir dir;
  std::string rows =
      "good one\tgut eins\ngood one\tgut eins\nonly one column\n\tleer\nsame\tsame\n"
      "bad \xFF\tschlecht\nbell\a\tGlocke\nПривет мир\tHallo Welt\nheld out\tgehalten\n"
      "x\ta b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n\n"
      "good two\tgut zwei\n";
  write_text(dir.path("t.tsv"), rows);
  write_text(dir.path("v.tsv"), "held  out\tgehalten\n");
  write_text(dir.path("p.vocab"), "</s>\n<unk>\ngood\none\ngut\neins\ntwo\nzwei\n");
  PrepareOptions options =
      sample_options({.name = "t", .paths = {dir.path("t.tsv")}}, dir.path("out"));
  options.valid = {{.name = "v", .paths = {dir.path("v.tsv")}}};
  options.vocab.file = dir.path("p.vocab");
  options.examples = 1;
  PrepareResult result = prepare(options);
  const CorpusFacts& train = result.manifest.train[0];
  EXPECT_EQ(train.lines_read, 11u);
  EXPECT_EQ(train.lines_kept, 2u);
  for (Rule rule : {Rule::kMalformed, Rule::kUtf8, Rule::kControl, Rule::kEmpty, Rule::kCopy,
                    Rule::kScript, Rule::kHeldout, Rule::kDuplicate, Rule::kRatio}) {
    EXPECT_EQ(train.dropped[static_cast<size_t>(rule)], 1u) << rule_name(rule);
    EXPECT_EQ(result.examples[static_cast<size_t>(rule)].size(), 1u) << rule_name(rule);
  }
  EXPECT_EQ(result.examples[static_cast<size_t>(Rule::kDuplicate)][0].line, 2u);
}

TEST(Prepare, WritesHeldOutTextCompleteAndUnchanged) {
  TempDir dir;
  CorpusSpec train = write_sample_corpus(dir.path(), "a", 500);
  write_text(dir.path("v.en"), "  two  spaces\n\nﬁne\n");
  write_text(dir.path("v.de"), "zwei\nleer\nﬁne\n");
  PrepareOptions options = sample_options(train, dir.path("out"));
  options.test = {{.name = "v", .paths = {dir.path("v.en"), dir.path("v.de")}}};
  prepare(options);
  EXPECT_EQ(read_file(dir.path("out/test.en")), "  two  spaces\n\nﬁne\n");
  EXPECT_EQ(read_file(dir.path("out/test.de")), "zwei\nleer\nﬁne\n");
  Manifest manifest = read_manifest(dir.path("out"));
  Dataset dataset(dir.path("out"), manifest.test, manifest.vocab.size);
  EXPECT_EQ(dataset.pairs(), 3u);
  EXPECT_EQ(dataset.source_length(1), 1u);  // the end of sentence alone
}

TEST(Prepare, NamesTheRulesThatDroppedEveryPair) {
  TempDir dir;
  write_text(dir.path("t.tsv"), "same\tsame\nother\tother\n");
  PrepareOptions options =
      sample_options({.name = "t", .paths = {dir.path("t.tsv")}}, dir.path("out"));
  try {
    prepare(options);
    FAIL() << "expected an error";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("2 by copy"));
  }
  EXPECT_FALSE(path_exists(dir.path("out")));
  EXPECT_FALSE(path_exists(dir.path("out.partial")));
}

// Pairs of two target languages, German and, by its name alone, French.
PrepareOptions two_languages(const TempDir& dir, const std::string& output) {
  PrepareOptions options =
      sample_options(write_sample_corpus(dir.path(), "a", 600), dir.path(output));
  CorpusSpec french = write_sample_corpus(dir.path(), "b", 200);
  french.to = "fr";
  options.train.push_back(french);
  CorpusSpec valid = write_sample_corpus(dir.path(), "v", 20);
  options.valid = {valid};
  valid.to = "fr";
  options.valid.push_back(valid);
  options.vocab.size = 140;
  return options;
}

TEST(PrepareTagged, EachSourceBeginsWithTheTagOfItsLanguage) {
  TempDir dir;
  prepare(two_languages(dir, "out"));
  EXPECT_EQ(verify_directory(dir.path("out")), 10u);
  const Manifest manifest = read_manifest(dir.path("out"));
  EXPECT_EQ(manifest.target_languages, (std::vector<std::string>{"de", "fr"}));
  EXPECT_EQ(manifest.train.at(0).to, "de");
  EXPECT_EQ(manifest.train.at(1).to, "fr");
  EXPECT_TRUE(path_exists(dir.path("out/valid.en-fr.fr")));
  EXPECT_FALSE(path_exists(dir.path("out/valid.shard")));
  const Vocabulary vocabulary = open_vocabulary(dir.path("out"), manifest);
  for (const auto* split : {&manifest.train, &manifest.valid}) {
    const Dataset dataset(dir.path("out"), *split, vocabulary.pieces());
    for (size_t c = 0; c < split->size(); ++c) {
      const Dataset::CorpusRange& range = dataset.corpora()[c];
      EXPECT_GT(range.pairs, 0u);
      for (uint64_t p = range.first; p < range.first + range.pairs; ++p) {
        std::vector<uint32_t> source;
        std::vector<uint32_t> target;
        dataset.append_source(p, source);
        dataset.append_target(p, target);
        ASSERT_EQ(source.at(0), vocabulary.tag(split->at(c).to));
        for (const auto language : {"de", "fr"}) {
          const uint32_t tag = *vocabulary.tag(language);
          ASSERT_EQ(std::count(source.begin() + 1, source.end(), tag), 0);
          ASSERT_EQ(std::count(target.begin(), target.end(), tag), 0);
        }
      }
    }
  }
}

TEST(PrepareTagged, WithAVocabularyThatHasTagsAllCorporaGetOne) {
  TempDir dir;
  prepare(two_languages(dir, "both"));
  PrepareOptions options = two_languages(dir, "one");
  options.train.pop_back();
  options.valid.pop_back();
  options.vocab.file = dir.path("both");
  prepare(options);
  const Manifest manifest = read_manifest(dir.path("one"));
  EXPECT_EQ(manifest.target_languages, (std::vector<std::string>{"de", "fr"}));
  EXPECT_EQ(manifest.train.at(0).to, "de");
  EXPECT_EQ(contents(dir.path("one"))["valid.en-de.shard"],
            contents(dir.path("both"))["valid.en-de.shard"]);
  options.train[0].to = "es";
  options.valid.clear();
  options.overwrite = true;
  try {
    prepare(options);
    FAIL() << "expected an error";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("only for de, fr"));
  }
}

TEST(PrepareTagged, TheSourceAloneHasTagsInTwoVocabularies) {
  TempDir dir;
  PrepareOptions options = two_languages(dir, "out");
  options.vocab.joint = false;
  options.vocab.size = 100;
  prepare(options);
  const Manifest manifest = read_manifest(dir.path("out"));
  const Vocabulary vocabulary = open_vocabulary(dir.path("out"), manifest);
  EXPECT_EQ(vocabulary.source().tagged_languages(), (std::vector<std::string>{"de", "fr"}));
  EXPECT_TRUE(vocabulary.tagged_languages().empty());
}

TEST(PrepareTagged, EqualPairsOfTwoLanguagesAreNotDuplicates) {
  TempDir dir;
  PrepareOptions options = two_languages(dir, "out");
  options.train[1].paths = options.train[0].paths;
  options.valid.clear();
  prepare(options);
  const Manifest manifest = read_manifest(dir.path("out"));
  EXPECT_EQ(manifest.train.at(0).lines_kept, 600u);
  EXPECT_EQ(manifest.train.at(1).lines_kept, 600u);
}

TEST(PrepareTagged, WeightsFollowTheTemperature) {
  TempDir dir;
  PrepareOptions options = two_languages(dir, "out");
  options.temperature = 2;
  prepare(options);
  const Manifest manifest = read_manifest(dir.path("out"));
  EXPECT_EQ(manifest.train.at(0).weight, 1);
  EXPECT_NEAR(manifest.train.at(1).weight, std::sqrt(3), 1e-9);
  EXPECT_EQ(manifest.options.at("temperature"), 2);
}

TEST(VerifyDirectory, DetectsAnyChangedFileAndNamesIt) {
  TempDir dir;
  CorpusSpec train = write_sample_corpus(dir.path(), "a", 300);
  PrepareOptions options = sample_options(train, dir.path("out"));
  options.valid = {write_sample_corpus(dir.path(), "v", 20)};
  prepare(options);
  EXPECT_EQ(verify_directory(dir.path("out")), 6u);
  for (const auto& [name, bytes] : contents(dir.path("out"))) {
    if (name == "SHA256SUMS" || name == ".reigen") continue;
    std::string changed = bytes;
    changed[changed.size() / 2] = static_cast<char>(changed[changed.size() / 2] ^ 1);
    write_text(dir.path("out/" + name), changed);
    try {
      verify_directory(dir.path("out"));
      ADD_FAILURE() << name << " changed unnoticed";
    } catch (const DataError& e) {
      EXPECT_THAT(e.what(), HasSubstr(name));
    }
    write_text(dir.path("out/" + name), bytes);
  }
}

TEST(VerifyDirectory, DetectsATruncatedListOfChecksums) {
  TempDir dir;
  prepare(sample_options(write_sample_corpus(dir.path(), "a", 300), dir.path("out")));
  std::string sums = read_file(dir.path("out/SHA256SUMS"));
  size_t line = sums.rfind('\n', sums.find("vocab.model")) + 1;
  write_text(dir.path("out/SHA256SUMS"), sums.substr(0, line));
  try {
    verify_directory(dir.path("out"));
    FAIL() << "expected an error";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("lacks vocab.model"));
  }
  size_t manifest = sums.rfind('\n', sums.find("manifest.json")) + 1;
  write_text(dir.path("out/SHA256SUMS"), sums.substr(0, manifest) + sums.substr(manifest + 80));
  EXPECT_THROW(verify_directory(dir.path("out")), DataError);
}

TEST(Prepare, RejectsInputInsideItsOutput) {
  TempDir dir;
  prepare(sample_options(write_sample_corpus(dir.path(), "a", 300), dir.path("out")));
  PrepareOptions options =
      sample_options(write_sample_corpus(dir.path("out"), "b", 300), dir.path("out"));
  options.overwrite = true;
  EXPECT_THROW(prepare(options), ConfigError);
  EXPECT_TRUE(path_exists(dir.path("out/b.en")));
}

TEST(Prepare, DropsALineThatIsTooLong) {
  TempDir dir;
  CorpusSpec train = write_sample_corpus(dir.path(), "a", 300);
  std::string huge(3'000'000, 'x');
  write_text(dir.path("b.en"), "one\n" + huge + "\nthree\n");
  write_text(dir.path("b.de"), "eins\nzwei\ndrei\n");
  PrepareOptions options = sample_options(train, dir.path("out"));
  options.train.push_back({.name = "b", .paths = {dir.path("b.en"), dir.path("b.de")}});
  PrepareResult result = prepare(options);
  EXPECT_EQ(result.manifest.train[1].lines_kept, 2u);
  EXPECT_EQ(result.manifest.train[1].dropped[static_cast<size_t>(Rule::kPieces)], 1u);
}

TEST(Prepare, SamplesExactlyTheRequestedNumberOfPairsForTheVocabulary) {
  TempDir dir;
  CorpusSpec train = write_sample_corpus(dir.path(), "a", 300);
  for (int64_t seed = 1; seed < 6;
       ++seed) {  // one pair is enough text for few pieces, not for none
    PrepareOptions options = sample_options(train, dir.path("out"));
    options.overwrite = true;
    options.vocab.sample_pairs = 1;
    options.vocab.size = 1000;
    options.seed = seed;
    try {
      prepare(options);
      FAIL() << "expected an error";
    } catch (const ConfigError& e) {
      EXPECT_THAT(e.what(), HasSubstr("too large for this text"));
    }
  }
}

TEST(Prepare, RejectsPlainTextWithAListOfPieces) {
  TempDir dir;
  CorpusSpec train = write_sample_corpus(dir.path(), "a", 300);
  write_text(dir.path("p.vocab"), "</s>\n<unk>\n▁the\n");
  PrepareOptions options = sample_options(train, dir.path("out"));
  options.vocab.file = dir.path("p.vocab");
  try {
    prepare(options);
    FAIL() << "expected an error";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("not in the vocabulary"));
  }
}

TEST(ReadManifest, NamesADirectoryThatIsNotADataset) {
  TempDir dir;
  EXPECT_THROW(read_manifest(dir.path()), DataError);
  write_text(dir.path("manifest.json"), "{\"format\": \"reigen-data\", \"version\": 99}");
  try {
    read_manifest(dir.path());
    FAIL() << "expected an error";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("version 99"));
  }
}

TEST(LengthHistogram, ComputesMeanAndPercentiles) {
  LengthHistogram lengths;
  for (uint32_t pieces = 1; pieces <= 100; ++pieces) lengths.add(pieces);
  EXPECT_EQ(lengths.sentences(), 100u);
  EXPECT_DOUBLE_EQ(lengths.mean(), 50.5);
  EXPECT_EQ(lengths.percentile(0.5), 50u);
  EXPECT_EQ(lengths.percentile(0.99), 99u);
  EXPECT_EQ(lengths.longest(), 100u);
  EXPECT_EQ(LengthHistogram().percentile(0.5), 0u);
}

}  // namespace
}  // namespace reigen
