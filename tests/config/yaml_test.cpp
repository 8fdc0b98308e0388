// YAML that users write, mistyped YAML, and hostile YAML.
#include "config/yaml.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace reigen {
namespace {

std::string yaml_error(const std::string& text) {
  try {
    parse_yaml(text, "run.yaml");
  } catch (const ConfigError& e) {
    return e.what();
  }
  ADD_FAILURE() << "accepted: " << text.substr(0, 80);
  return "";
}

TEST(Yaml, BecomesMapsListsAndStringsInTheOrderOfTheFile) {
  Json tree = parse_yaml(
      "zebra: 32_000\n"
      "ant:\n"
      "  yes: [a, 'b c', \"d\\te\"]\n"
      "list:\n"
      "  - 1.50\n"
      "  - {k: v}\n",
      "run.yaml");
  Json expected = {{"zebra", "32_000"},
                   {"ant", {{"yes", {"a", "b c", "d\te"}}}},
                   {"list", Json::array({"1.50", {{"k", "v"}}})}};
  EXPECT_EQ(tree.dump(), expected.dump());
}

TEST(Yaml, ScalarsStayAsWritten) {
  EXPECT_EQ(parse_yaml("a: 007\nb: true\nc: 1e3\nd: ''", "run.yaml").dump(),
            R"({"a":"007","b":"true","c":"1e3","d":""})");
}

TEST(Yaml, AnEmptyFileOrValueIsNull) {
  EXPECT_TRUE(parse_yaml("", "run.yaml").is_null());
  EXPECT_TRUE(parse_yaml("# nothing yet\n", "run.yaml").is_null());
  EXPECT_TRUE(parse_yaml("seed:\n", "run.yaml")["seed"].is_null());
}

TEST(Yaml, FollowsAliases) {
  Json tree = parse_yaml("a: &x [1, 2]\nb: *x\n", "run.yaml");
  EXPECT_EQ(tree["b"], Json({"1", "2"}));
}

TEST(Yaml, ADuplicateKeyIsAnErrorAtItsSecondLine) {
  EXPECT_EQ(yaml_error("seed: 1\noutput: x\nseed: 2\n"), "run.yaml:3:1: 'seed' is given twice");
  EXPECT_EQ(yaml_error("vocab:\n  size: 1\n  size: 2\n"), "run.yaml:3:3: 'size' is given twice");
}

TEST(Yaml, MalformedTextIsAnErrorWithLineAndColumn) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "run.yaml:3:1: ", yaml_error("a: 1\nb: [1, 2\n"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "run.yaml:2:4: ", yaml_error("a: 1\n  b: 2\n"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "run.yaml:2:4: ", yaml_error("a: 1\nb: *nobody\n"));
}

TEST(Yaml, AKeyMustBeText) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "a key must be text", yaml_error("? [a, b]\n: c\n"));
}

TEST(Yaml, ASecondDocumentIsAnErrorAndNotIgnored) {
  for (const char* text :
       {"seed: 1\n---\nseed: 2\n", "seed: 1\n...\nseed: 2\n", "{seed: 1}\n, threads: 2\n"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "text after the end of its document",
                        yaml_error(text));
  }
  EXPECT_EQ(parse_yaml("seed: 1\n...\n", "run.yaml")["seed"], "1");
  EXPECT_EQ(parse_yaml("---\nseed: 1\n", "run.yaml")["seed"], "1");
}

std::string nested(const std::string& open, size_t times, const std::string& close) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += open;
  text += "x";
  for (size_t i = 0; i < times; ++i) text += close;
  return text;
}

TEST(Yaml, DeepNestingIsRefusedInEveryForm) {
  for (size_t times : {40, 1'000, 100'000}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "run.yaml", yaml_error(nested("[", times, "]")));
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "run.yaml", yaml_error(nested("{a: ", times, "}")));
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "run.yaml", yaml_error(nested("- ", times, "")));
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "run.yaml", yaml_error(nested("? ", times, "")));
  }
  // Brackets that only a comment closes do not count as closed.
  yaml_error("# " + std::string(10'000, ']') + "\n" + std::string(10'000, '['));
}

TEST(Yaml, OrdinaryNestingIsAccepted) {
  Json tree = parse_yaml(nested("[", 30, "]"), "run.yaml");
  for (int i = 0; i < 30; ++i) tree = Json(tree.at(0));
  EXPECT_EQ(tree, "x");
}

TEST(Yaml, AnAliasBombIsRefusedBeforeItGrows) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i <= 12; ++i) {  // 10^13 values if expanded
    std::string before = "*a" + std::to_string(i - 1);
    std::string name = "a" + std::to_string(i);
    bomb += name + ": &" + name + " [" + before;
    for (int j = 1; j < 10; ++j) bomb += ", " + before;
    bomb += "]\n";
  }
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "too many values", yaml_error(bomb));
}

TEST(Yaml, ARecursiveAliasIsRefused) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "run.yaml", yaml_error("a: &a [*a]\n"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "run.yaml", yaml_error("a: &a {b: *a, c: *a}\n"));
}

const std::vector<std::string> kOddStrings = {"",        " ",        " a ",
                                              "a: b",    ":",        "a:",
                                              "a #b",    "#",        "'",
                                              "\"",      "it's",     "\"q\" 'r'",
                                              "\\",      "a\\nb",    "true",
                                              "null",    "~",        "1e3",
                                              "007",     "0x1F",     ".inf",
                                              "-",       "- a",      "---",
                                              "...",     "?",        "? a",
                                              "[",       "]",        "a, b",
                                              "{x}",     "&a",       "*a",
                                              "!a",      "!!str a",  "%a",
                                              "@a",      "`a`",      "|",
                                              ">",       "a\nb",     "\n",
                                              "a\n",     "\na",      "a\n\nb",
                                              "\t",      "a\tb",     "\r",
                                              "a\r\nb",  "\x01",     "\x7F",
                                              "Größe",   "日本語",   "🙂",
                                              "\u00A0",  "\u0085",   "\u2028",
                                              "\uFEFFa", "a\u200Bb", "<<",
                                              "=",       "y",        "a:b",
                                              "/a/b c",  "a  b",     "a, [b]",
                                              "x: [y",   "key: - a", std::string(3000, 'x')};

TEST(ToYaml, RoundTripsUnusualStrings) {
  for (const std::string& text : kOddStrings) {
    const Json tree = {{"plain", text},
                       {"list", Json::array({text, "between", text})},
                       {"below", {{"deeper", text}, {"last", "x"}}}};
    EXPECT_EQ(parse_yaml(to_yaml(tree), "run.yaml"), tree) << to_yaml(tree);
  }
}

TEST(ToYaml, RoundTripsKeysThatNeedQuotes) {
  for (const char* key : {"a: b", "#", "true", "", "- a", "[a", "Größe", "a b", "'"}) {
    const Json tree = {{"first", "1"}, {key, "2"}, {"map", {{key, "3"}}}};
    EXPECT_EQ(parse_yaml(to_yaml(tree), "run.yaml"), tree) << to_yaml(tree);
  }
}

TEST(ToYaml, RoundTripsNestedMapsAndListsInOrder) {
  const Json tree = {{"z", {{"y", {{"x", {{"w", "1"}}}, {"v", Json::array()}}}}},
                     {"a", Json::array({"1", Json::array({"2", Json::array()}), "3"})},
                     {"m", Json::array({{{"k", "v"}, {"l", Json::array({"n"})}}})},
                     {"empty", Json::object()},
                     {"nothing", nullptr}};
  const Json read = parse_yaml(to_yaml(tree), "run.yaml");
  EXPECT_EQ(read.dump(), tree.dump()) << to_yaml(tree);
}

TEST(ToYaml, RoundTripsNumbersAndSwitches) {
  const Json tree = {{"a", 1}, {"b", 0.1}, {"c", 1e-9}, {"d", true}, {"e", {1.5, 2}}, {"f", -3}};
  EXPECT_EQ(parse_yaml(to_yaml(tree), "run.yaml").dump(),
            R"({"a":"1","b":"0.1","c":"1e-09","d":"true","e":["1.5","2"],"f":"-3"})");
}

TEST(ToYaml, ReadsTopDownWithListsOnOneLine) {
  const Json tree = {{"seed", 1}, {"model", {{"width", 8}}}, {"values", {1, 2}}};
  EXPECT_EQ(to_yaml(tree), "seed: 1\nmodel:\n  width: 8\nvalues: [1, 2]\n");
}

}  // namespace
}  // namespace reigen
