// The options of `reigen prepare`: the manifest records those that can change the result.
#include "config/prepare_options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

using Args = std::vector<std::string>;

// "vocab.size" and so on: every key of a nested object.
Args keys_of(const Json& tree, const std::string& prefix = "") {
  Args keys;
  for (const auto& [key, value] : tree.items()) {
    if (value.is_object()) {
      for (auto& below : keys_of(value, prefix + key + ".")) keys.push_back(below);
    } else {
      keys.push_back(prefix + key);
    }
  }
  return keys;
}

PrepareOptions prepare_options(const Args& args) {
  PrepareOptions options;
  Schema schema("prepare", "Prepares.");
  describe(schema, options);
  Args all = {"--source", "en", "--target", "de", "--train", "a.tsv", "--output", "out"};
  all.insert(all.end(), args.begin(), args.end());
  schema.parse(all);
  return options;
}

TEST(RecordedOptions, LeavesOutOptionsThatCannotChangeTheResult) {
  const std::string plain = pretty(recorded_options(prepare_options({})));
  const std::vector<Args> immaterial = {{"--threads", "7"},
                                        {"--output", "elsewhere"},
                                        {"--overwrite"},
                                        {"--quiet"},
                                        {"--examples", "3"}};
  for (const auto& args : immaterial) {
    EXPECT_EQ(pretty(recorded_options(prepare_options(args))), plain) << args[0];
  }
}

TEST(RecordedOptions, HasAllOtherOptions) {
  const Json plain = recorded_options(prepare_options({}));
  const std::vector<Args> material = {{"--seed", "2"},
                                      {"--vocab-size", "100"},
                                      {"--vocab-type", "unigram"},
                                      {"--shard-tokens", "5000"},
                                      {"--no-clean.nfkc"},
                                      {"--max-pieces", "10"},
                                      {"--train", "a.tsv", "weight=2"},
                                      {"--valid", "v.tsv"}};
  for (const auto& args : material) {
    EXPECT_NE(recorded_options(prepare_options(args)), plain) << args[0];
  }
  PrepareOptions options;
  Schema schema("prepare", "Prepares.");
  describe(schema, options);
  Json everything = schema.current();
  for (const char* immaterial : {"threads", "output", "overwrite", "quiet", "examples"}) {
    ASSERT_TRUE(everything.contains(immaterial)) << immaterial;
    everything.erase(immaterial);
  }
  options.vocab.joint = false;
  options.vocab.byte_fallback = ByteFallback::kOn;
  options.vocab.user_symbols = {"<x>"};
  options.clean.score = "a model";
  options.temperature = 5;
  EXPECT_EQ(keys_of(recorded_options(options)), keys_of(everything));
  // Without these choices the record is as before there were any.
  options.vocab = {};
  options.clean = {};
  options.temperature = 1;
  everything.erase("temperature");
  for (const char* key : {"joint", "byte-fallback", "user-symbols"}) everything["vocab"].erase(key);
  for (const char* key : {"score", "score-reverse", "score-share"}) everything["clean"].erase(key);
  EXPECT_EQ(keys_of(recorded_options(options)), keys_of(everything));
}

TEST(RecordedOptions, DoesNotChangeTheOptions) {
  PrepareOptions options = prepare_options({"--threads", "3"});
  recorded_options(options);
  EXPECT_EQ(options.threads, 3);
  EXPECT_EQ(options.output, "out");
}

TEST(PrepareOptions, CanBeGivenAsOneYamlFile) {
  PrepareOptions options;
  Schema schema("prepare", "Prepares.");
  describe(schema, options);
  schema.parse_yaml(
      "source: en\n"
      "target: de\n"
      "train:\n"
      "  - [news.en, news.de, weight=2]\n"
      "  - web.tsv.gz\n"
      "valid: [dev.en, dev.de]\n"
      "output: data\n"
      "vocab:\n"
      "  size: 8_000\n"
      "  type: unigram\n"
      "clean:\n"
      "  copy: false\n"
      "  max-pieces: 100\n",
      "run.yaml");
  EXPECT_TRUE(schema.parse(Args{}));
  EXPECT_EQ(options.train.size(), 2u);
  EXPECT_EQ(options.train.at(0).weight, 2);
  EXPECT_EQ(options.valid.at(0).paths, (Args{"dev.en", "dev.de"}));
  EXPECT_EQ(options.vocab.size, 8000);
  EXPECT_EQ(options.vocab.type, VocabType::kUnigram);
  EXPECT_FALSE(options.clean.copy);
  EXPECT_EQ(options.clean.max_pieces, 100);
}

TEST(PrepareOptions, TakesOneValidationCorpusForEachTargetLanguage) {
  auto resolved = [](const Args& args) { return resolve(prepare_options(args)); };
  for (const char* split : {"--valid", "--test"}) {
    EXPECT_THROW(resolved({split, "a.tsv", split, "b.tsv"}), ConfigError);
    const Args french = {"--train", "f.tsv", "to=fr"};
    Args both = french;
    both.insert(both.end(), {split, "a.tsv", split, "b.tsv", "to=fr"});
    EXPECT_EQ(target_languages(resolved(both)), (Args{"de", "fr"}));
    both.insert(both.end(), {split, "c.tsv", "to=de"});
    EXPECT_THROW(resolved(both), ConfigError);
    Args other = french;
    other.insert(other.end(), {split, "a.tsv", "to=es"});
    EXPECT_THROW(resolved(other), ConfigError);
  }
}

TEST(PrepareOptions, ACorpusWithoutALanguageHasThatOfAllWhereOthersNameTheirs) {
  const PrepareOptions options = resolve(prepare_options({"--train", "f.tsv", "to=fr"}));
  EXPECT_EQ(options.train.at(0).to, "de");
  EXPECT_EQ(options.train.at(1).to, "fr");
  const PrepareOptions plain = resolve(prepare_options({"--train", "f.tsv"}));
  EXPECT_EQ(plain.train.at(1).to, "");
  EXPECT_TRUE(target_languages(plain).empty());
  EXPECT_THROW(resolve(prepare_options({"--train", "f.tsv", "to=en"})), ConfigError);
}

}  // namespace
}  // namespace reigen
