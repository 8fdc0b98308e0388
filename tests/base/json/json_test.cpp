// JSON files: errors name the file, and output is byte-identical every time.
#include "base/json/json.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

TEST(ReadJson, ReadsTheOutputOfPretty) {
  TempDir dir;
  Json json = {{"zebra", 1}, {"ant", {1, 2}}, {"text", "Grüße"}};
  write_text(dir.path("a.json"), pretty(json));
  EXPECT_EQ(read_json(dir.path("a.json")), json);
}

TEST(ReadJson, MalformedTextIsADataErrorThatNamesTheFileAndTheLine) {
  TempDir dir;
  write_text(dir.path("bad.json"), "{\"a\": 1,\n \"b\": }\n");
  try {
    read_json(dir.path("bad.json"));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const DataError& e) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, dir.path("bad.json"), e.what());
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "line 2", e.what());
  }
}

TEST(ReadJson, AMissingOrEmptyFileIsADataError) {
  TempDir dir;
  EXPECT_THROW(read_json(dir.path("gone.json")), DataError);
  write_text(dir.path("empty.json"), "");
  EXPECT_THROW(read_json(dir.path("empty.json")), DataError);
}

TEST(ReadJson, DeepNestingIsAnErrorAndNotACrash) {
  TempDir dir;
  write_text(dir.path("deep.json"), std::string(100'000, '['));
  EXPECT_THROW(read_json(dir.path("deep.json")), DataError);
}

// Complete text, not only open brackets: copies and dumps of the result would recurse.
TEST(ParseJson, RefusesTooManyLevels) {
  auto nested = [](size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_NO_THROW(parse_json(nested(kMostJsonLevels), "j"));
  EXPECT_THROW(parse_json(nested(kMostJsonLevels + 1), "j"), DataError);
  EXPECT_THROW(parse_json(nested(1'000'000), "j"), DataError);
}

TEST(ParseJson, RefusesTooManyMembersOfOneObject) {
  auto object = [](size_t members) {
    std::string text = "{";
    for (size_t i = 0; i < members; ++i) text += (i ? ",\"" : "\"") + std::to_string(i) + "\":0";
    return text + "}";
  };
  EXPECT_EQ(parse_json("[" + object(kMostJsonMembers) + "," + object(3) + "]", "j")[1].size(), 3u);
  EXPECT_THROW(parse_json(object(kMostJsonMembers + 1), "j"), DataError);
  EXPECT_THROW(parse_json(object(1'000'000), "j"), DataError);
}

TEST(Pretty, PreservesTheOrderOfKeysAndEndsWithANewline) {
  Json json = {{"zebra", 1}, {"ant", Json::array({true})}};
  EXPECT_EQ(pretty(json), "{\n  \"zebra\": 1,\n  \"ant\": [\n    true\n  ]\n}\n");
}

TEST(Pretty, APathThatIsNotUtf8IsWrittenWithReplacementCharacters) {
  Json json = {{"path", "caf\xE9.txt"}};
  EXPECT_EQ(pretty(json), "{\n  \"path\": \"caf\xEF\xBF\xBD.txt\"\n}\n");
  EXPECT_EQ(one_line(json), "{\"path\":\"caf\xEF\xBF\xBD.txt\"}");
}

}  // namespace
}  // namespace reigen
