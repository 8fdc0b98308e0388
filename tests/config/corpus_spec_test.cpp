// A corpus given as words on the command line and in each form of YAML.
#include "config/corpus_spec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

using Args = std::vector<std::string>;

std::vector<CorpusSpec> specs_of_words(const Args& args, size_t most = 100) {
  std::vector<CorpusSpec> specs;
  Schema schema("try", "Tries things.");
  schema.custom(corpus_list_option("train", specs, "what to read", most));
  schema.parse(args);
  return specs;
}

std::vector<CorpusSpec> specs_of_yaml(const std::string& text, size_t most = 100) {
  std::vector<CorpusSpec> specs;
  Schema schema("try", "Tries things.");
  schema.custom(corpus_list_option("train", specs, "what to read", most));
  schema.parse_yaml(text, "run.yaml");
  return specs;
}

template <class F>
std::string spec_error(F&& f) {
  try {
    f();
  } catch (const ConfigError& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

// All of a spec on one line, so that a difference shows at a glance.
std::string text(const CorpusSpec& s) {
  std::string out = s.name + ":";
  for (const auto& path : s.paths) out += " " + path;
  out += format(" weight={} format={} swap={}", s.weight, s.format, s.swap);
  return out;
}

Args texts(const std::vector<CorpusSpec>& specs) {
  Args out;
  for (const auto& spec : specs) out.push_back(text(spec));
  return out;
}

TEST(CorpusSpec, TakesItsWordsInAnyOrder) {
  EXPECT_EQ(texts(specs_of_words({"--train", "a.en", "a.de", "name=news", "weight=2"})),
            Args{"news: a.en a.de weight=2 format= swap=false"});
  EXPECT_EQ(texts(specs_of_words({"--train", "swap=true", "format=tsv", "b.txt", "weight=0.5"})),
            Args{"b: b.txt weight=0.5 format=tsv swap=true"});
}

TEST(CorpusSpec, MayBeGivenAgain) {
  EXPECT_EQ(
      texts(specs_of_words({"--train", "a.en", "a.de", "--train=b.tsv", "weight=3"})),
      (Args{"a: a.en a.de weight=1 format= swap=false", "b: b.tsv weight=3 format= swap=false"}));
}

TEST(CorpusSpec, IsNamedAfterItsFirstFile) {
  auto name = [](const std::string& path) { return specs_of_words({"--train", path})[0].name; };
  EXPECT_EQ(name("/data/news.v2.tsv.gz"), "news");
  EXPECT_EQ(name("news"), "news");
  EXPECT_EQ(name("../.hidden.tsv"), ".hidden");
  EXPECT_EQ(name("some.dir/plain"), "plain");
}

TEST(CorpusSpec, GetsANumberWhenItsNameIsTaken) {
  auto specs = specs_of_words({"--train", "a/train.tsv", "--train", "b/train.tsv", "--train",
                               "c.tsv", "name=train-2", "--train", "d/train.tsv"});
  Args names;
  for (const auto& spec : specs) names.push_back(spec.name);
  EXPECT_EQ(names, (Args{"train", "train-2", "train-2-2", "train-3"}));
}

TEST(CorpusSpec, AFileThatLooksLikeAnAttributeCanBeWrittenWithItsDirectory) {
  EXPECT_EQ(specs_of_words({"--train", "./weight=2"})[0].paths, Args{"./weight=2"});
  EXPECT_EQ(specs_of_words({"--train", "a=b.tsv"})[0].paths, Args{"a=b.tsv"});
}

TEST(CorpusSpecInYaml, APlainPathOrAListOfPathsIsOneCorpus) {
  EXPECT_EQ(texts(specs_of_yaml("train: a.tsv\n")), Args{"a: a.tsv weight=1 format= swap=false"});
  EXPECT_EQ(texts(specs_of_yaml("train: [a.en, a.de, weight=2]\n")),
            Args{"a: a.en a.de weight=2 format= swap=false"});
}

TEST(CorpusSpecInYaml, AListOfListsIsSeveralCorpora) {
  EXPECT_EQ(
      texts(specs_of_yaml("train:\n  - [a.en, a.de]\n  - [b.tsv, weight=2]\n")),
      (Args{"a: a.en a.de weight=1 format= swap=false", "b: b.tsv weight=2 format= swap=false"}));
}

TEST(CorpusSpecInYaml, AListOfMapsIsSeveralCorpora) {
  EXPECT_EQ(texts(specs_of_yaml("train:\n"
                                "  - paths: [a.en, a.de]\n"
                                "    name: news\n"
                                "    weight: 2.5\n"
                                "  - path: b.txt\n"
                                "    format: tsv\n"
                                "    swap: yes\n")),
            (Args{"news: a.en a.de weight=2.5 format= swap=false",
                  "b: b.txt weight=1 format=tsv swap=true"}));
}

TEST(CorpusSpecInYaml, AMapAloneIsOneCorpus) {
  EXPECT_EQ(texts(specs_of_yaml("train: {path: a.tmx}\n")),
            Args{"a: a.tmx weight=1 format= swap=false"});
}

TEST(CorpusSpecInYaml, TheFormsMixInAnyOrder) {
  const Args expected = {"a: a.tsv weight=1 format= swap=false",
                         "b: b.en b.de weight=1 format= swap=false",
                         "c: c.po weight=1 format= swap=false"};
  EXPECT_EQ(texts(specs_of_yaml("train: [a.tsv, [b.en, b.de], {path: c.po}]\n")), expected);
  EXPECT_EQ(texts(specs_of_yaml("train: [[a.tsv], [b.en, b.de], c.po]\n")), expected);
}

TEST(CorpusSpecInYaml, AnEmptyListIsNoCorpus) { EXPECT_TRUE(specs_of_yaml("train: []\n").empty()); }

TEST(CorpusSpec, MoreThanTwoFilesAreRefused) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "one file of pairs or two text files, not 3 files",
                      spec_error([] {
                        specs_of_words({"--train", "a", "b", "c"});
                      }));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "not 3 files",
                      spec_error([] { specs_of_yaml("train: [{paths: [a, b, c]}]\n"); }));
}

TEST(CorpusSpec, NoFileAtAllIsRefused) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "not 0 files", spec_error([] {
                        specs_of_words({"--train", "weight=2"});
                      }));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "not 0 files",
                      spec_error([] { specs_of_yaml("train: [{name: a}]\n"); }));
}

TEST(CorpusSpec, AWeightOutOfRangeIsRefusedWithTheLimits) {
  for (const char* bad : {"0", "-1", "0.0001", "1001"}) {
    std::string message = spec_error([&] {
      specs_of_words({"--train", "a.tsv", std::string("weight=") + bad});
    });
    EXPECT_PRED_FORMAT2(testing::IsSubstring, std::string("weight=") + bad, message);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "must be from 0.001 to 1000", message);
  }
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "expected a number", spec_error([] {
                        specs_of_words({"--train", "a.tsv", "weight=much"});
                      }));
}

TEST(CorpusSpec, AnUnknownFormatIsRefusedWithTheKnownOnes) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "unknown format 'csv'; use one of text, tsv, tmx, po, mo", spec_error([] {
                        specs_of_words({"--train", "a.csv", "format=csv"});
                      }));
}

TEST(CorpusSpecInYaml, AnUnknownKeyIsRefusedWithTheNearest) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "unknown key 'wieght' (did you mean 'weight'?)",
                      spec_error([] { specs_of_yaml("train: [{path: a, wieght: 2}]\n"); }));
}

TEST(CorpusSpecInYaml, AValueOfTheWrongShapeIsRefused) {
  for (const char* bad : {"train:\n", "train: [[[a]]]\n", "train: [{paths: [[a]]}]\n",
                          "train: [{path: a, weight: [1]}]\n", "train: [~]\n"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "expected a single value",
                        spec_error([&] { specs_of_yaml(bad); }));
  }
}

TEST(CorpusSpec, MoreCorporaThanAllowedAreRefused) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "2 corpora given, at most 1 allowed", spec_error([] {
                        specs_of_words({"--train", "a", "--train", "b"}, 1);
                      }));
  EXPECT_EQ(specs_of_words({"--train", "a.en", "a.de"}, 1).size(), 1u);
}

TEST(CorpusSpec, IsRecordedInFull) {
  std::vector<CorpusSpec> specs;
  Option option = corpus_list_option("train", specs, "what to read", 10);
  option.assign(Json::parse(R"([["a.en", "a.de", "weight=2"]])"));
  EXPECT_EQ(one_line(option.current()),
            R"([{"name":"a","paths":["a.en","a.de"],"weight":2.0,"format":"","swap":false}])");
  option.assign(Json::parse(R"([["a.tsv", "to=pt-BR"]])"));
  EXPECT_EQ(option.current().at(0).at("to"), "pt-BR");
}

TEST(CorpusSpec, ALanguageThatCannotBePartOfAFileNameIsRefused) {
  for (const char* to : {"to=", "to=../x", "to=a b", "to=a,b", "to=<<"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "is not a language code", spec_error([&] {
                          specs_of_words({"--train", "a.tsv", to});
                        }));
  }
}

}  // namespace
}  // namespace reigen
