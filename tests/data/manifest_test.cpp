// Manifests from elsewhere: every field that is wrong is an error which names it, and a dataset is
// opened only if its files are those of its manifest.
#include "data/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file/files.h"
#include "data/dataset.h"
#include "data/prepare/prepare.h"
#include "support/sample_data.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using ::testing::HasSubstr;

class ManifestTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new TempDir;
    PrepareOptions options =
        sample_options(write_sample_corpus(dir_->path(), "a", 300), dir_->path("out"));
    options.valid = {write_sample_corpus(dir_->path(), "v", 20)};
    prepare(options);
    json_ = new Json(read_json(dir_->path("out/manifest.json")));
  }
  static void TearDownTestSuite() {
    delete json_;
    delete dir_;
  }
  static std::string error_of(const Json& json) {
    try {
      parse_manifest(pretty(json), "m.json");
      return "no error";
    } catch (const DataError& e) {
      return e.what();
    }
  }
  // Opens the dataset as `train` does, by a changed manifest.
  static std::string error_of_opening(const std::function<void(Manifest&)>& change) {
    const std::string data = dir_->path("out");
    Manifest manifest = read_manifest(data);
    change(manifest);
    try {
      check_files(data, manifest);
      const Vocabulary vocabulary = open_vocabulary(data, manifest);
      Dataset(data, manifest.train, vocabulary.size());
      Dataset(data, manifest.valid, vocabulary.size());
      return "no error";
    } catch (const DataError& e) {
      return e.what();
    }
  }
  static TempDir* dir_;
  static Json* json_;
};
TempDir* ManifestTest::dir_ = nullptr;
Json* ManifestTest::json_ = nullptr;

TEST_F(ManifestTest, EveryFieldWithAWrongValueIsNamedOrHarmless) {
  Json whole = *json_;
  for (const char* split : {"train", "valid"}) {
    for (const char* side : {"source", "target"}) {  // one bar of a histogram is like the next
      Json& bars = whole[split][0][side]["length_histogram"];
      bars = Json::array({bars[0]});
    }
  }
  const Json flat = whole.flatten();
  const std::vector<Json> values = {nullptr,       "text",         -1,        1e300, true,
                                    Json::array(), Json::object(), UINT64_MAX};
  size_t refused = 0;
  for (const auto& [pointer, unused] : flat.items()) {
    for (const Json& value : values) {
      Json changed = whole;
      changed[Json::json_pointer(pointer)] = value;
      const std::string error = error_of(changed);
      if (error == "no error") continue;
      ++refused;
      EXPECT_TRUE(error.starts_with("m.json: ")) << error;
    }
  }
  EXPECT_GT(refused, flat.size() * values.size() / 2);
}

TEST_F(ManifestTest, AMissingFieldIsNamed) {
  auto without = [](const char* pointer, const char* key) {
    Json changed = *json_;
    changed[Json::json_pointer(pointer)].erase(key);
    return error_of(changed);
  };
  EXPECT_THAT(without("/options", "clean"), HasSubstr("options.clean"));
  EXPECT_THAT(without("/options/clean", "nfkc"), HasSubstr("options.clean.nfkc"));
  EXPECT_THAT(without("/train/0/shards/0", "bytes"), HasSubstr("train[0].shards[0].bytes"));
  EXPECT_THAT(without("/vocabulary", "size"), HasSubstr("vocabulary.size"));
}

TEST_F(ManifestTest, NamesThatLeaveTheDirectoryAreRefused) {
  for (const char* name : {"../x", "/etc/passwd", "..", ".", "", "a/b", "a\nb"}) {
    EXPECT_FALSE(is_plain_file_name(name)) << name;
    for (const char* pointer : {"/train/0/shards/0/file", "/vocabulary/file", "/texts/0/file",
                                "/source_language", "/target_language"}) {
      Json changed = *json_;
      changed[Json::json_pointer(pointer)] = name;
      EXPECT_NE(error_of(changed), "no error") << pointer << " " << name;
    }
  }
  EXPECT_TRUE(is_plain_file_name("train-00000.shard"));
}

TEST_F(ManifestTest, WeightsOutsideOfTheLimitsOfPrepareAreRefused) {
  for (const double weight : {-1.0, 0.0, 1e9}) {
    Json changed = *json_;
    changed["train"][0]["weight"] = weight;
    EXPECT_THAT(error_of(changed), HasSubstr("train[0].weight"));
  }
}

TEST_F(ManifestTest, ALanguageThatTheDatasetLacksIsRefused) {
  Json json = *json_;
  json["valid"][0]["to"] = "fr";
  EXPECT_THAT(error_of(json), HasSubstr("to"));
  json["version"] = 3;
  EXPECT_THAT(error_of(json), HasSubstr("target_languages"));
  json["target_languages"] = {"fr"};
  EXPECT_THAT(error_of(json), HasSubstr("corpus a"));  // which has none
  json["train"][0]["to"] = "fr";
  EXPECT_EQ(error_of(json), "no error");
  json["target_languages"] = Json::array();
  EXPECT_THAT(error_of(json), HasSubstr("target_languages"));
  json["target_languages"] = {"../x", "fr"};
  EXPECT_THAT(error_of(json), HasSubstr("target_languages"));
}

TEST_F(ManifestTest, FilesThatDifferFromTheManifestAreNamed) {
  EXPECT_EQ(error_of_opening([](Manifest&) {}), "no error");
  EXPECT_THAT(error_of_opening([](Manifest& m) { ++m.vocab.size; }), HasSubstr("vocab.model"));
  EXPECT_THAT(error_of_opening([](Manifest& m) { m.vocab.cuts_text = false; }),
              HasSubstr("vocab.model"));
  EXPECT_THAT(error_of_opening([](Manifest& m) { m.vocab.file.sha256[0] ^= 1; }),
              HasSubstr("vocab.model"));
  EXPECT_THAT(error_of_opening([](Manifest& m) { ++m.train[0].shards[0].bytes; }),
              HasSubstr("train-00000.shard"));
  EXPECT_THAT(error_of_opening([](Manifest& m) { ++m.train[0].shards[0].pairs; }),
              HasSubstr("train-00000.shard"));
  EXPECT_THAT(error_of_opening([](Manifest& m) { ++m.valid[0].shards[0].source_tokens; }),
              HasSubstr("valid.shard"));
  EXPECT_THAT(error_of_opening([](Manifest& m) { ++m.train[0].lines_kept; }),
              HasSubstr(dir_->path("out")));
}

// The longest sentence decides whether a model accepts the data: a sentence beyond the last
// position would read outside of its table.
TEST_F(ManifestTest, LengthsThatDifferFromTheShardsAreRefused) {
  EXPECT_NE(error_of_opening([](Manifest& m) {
              auto& counts = m.train[0].source.lengths.counts;
              const uint64_t longest = counts.rbegin()->second;
              counts.erase(std::prev(counts.end()));
              counts.begin()->second += longest;
            }),
            "no error");
  EXPECT_NE(error_of_opening([](Manifest& m) { m.train[0].target.lengths.counts.clear(); }),
            "no error");
}

TEST_F(ManifestTest, ShardsOfALargerVocabularyAreRefused) {
  const Manifest manifest = read_manifest(dir_->path("out"));
  EXPECT_NO_THROW(Dataset(dir_->path("out"), manifest.train, manifest.vocab.size));
  EXPECT_THROW(Dataset(dir_->path("out"), manifest.train, manifest.vocab.size / 2), DataError);
}

}  // namespace
}  // namespace reigen
