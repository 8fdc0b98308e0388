// The two modes of `reigen evaluate`, and errors for options that fit neither.
#include "config/evaluate_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace reigen {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

EvaluateOptions evaluate_options(const std::vector<std::string>& args) {
  EvaluateOptions options;
  Schema schema("evaluate", "Evaluates.");
  describe(schema, options);
  schema.parse(args);
  check_evaluate_options(options);
  return options;
}

std::string evaluate_error(const std::vector<std::string>& args) {
  try {
    evaluate_options(args);
  } catch (const ConfigError& e) {
    return e.what();
  }
  ADD_FAILURE() << "accepted: " << ::testing::PrintToString(args);
  return "";
}

TEST(EvaluateOptions, ScoresHypothesesOrTranslatesWithAModel) {
  EXPECT_THAT(evaluate_options({"--hypotheses", "h", "--references", "r"}).references,
              ElementsAre("r"));
  EXPECT_EQ(evaluate_options({"--model", "run"}).split, "test");
  EXPECT_EQ(evaluate_options({"--model", "run", "--data", "d", "--split", "valid"}).data, "d");
  EXPECT_EQ(evaluate_options({"--model", "run", "--sources", "s", "--references", "r"}).sources,
            "s");
}

TEST(EvaluateOptions, RefusesBothOrNeitherOfHypothesesAndModel) {
  for (const auto& args : {std::vector<std::string>{},
                           {"--references", "r"},
                           {"--hypotheses", "h", "--references", "r", "--model", "run"}}) {
    EXPECT_THAT(evaluate_error(args),
                AllOf(HasSubstr("either --hypotheses FILE"), HasSubstr("--model DIR")));
  }
}

TEST(EvaluateOptions, RefusesOptionsOfTheOtherMode) {
  EXPECT_THAT(evaluate_error({"--hypotheses", "h"}), HasSubstr("--references"));
  for (const char* option : {"--data", "--sources", "--output"}) {
    EXPECT_THAT(evaluate_error({"--hypotheses", "h", "--references", "r", option, "x"}),
                HasSubstr("need --model"));
  }
  EXPECT_THAT(evaluate_error({"--model", "run", "--sources", "s"}),
              AllOf(HasSubstr("--sources"), HasSubstr("--references")));
  EXPECT_THAT(evaluate_error({"--model", "run", "--references", "r"}),
              AllOf(HasSubstr("--sources"), HasSubstr("--references")));
  EXPECT_THAT(
      evaluate_error({"--model", "run", "--sources", "s", "--references", "r", "--data", "d"}),
      HasSubstr("either --data or --sources"));
  EXPECT_THAT(evaluate_error({"--model", "run", "--split", "train"}),
              AllOf(HasSubstr("'train'"), HasSubstr("test or valid")));
}

TEST(EvaluateOptions, TakesMetricsByCommasOrSeveralValuesEachOnce) {
  const std::vector<std::string> way = {"--hypotheses", "h", "--references", "r", "--metric"};
  auto metrics = [&](std::vector<std::string> values) {
    values.insert(values.begin(), way.begin(), way.end());
    return evaluate_options(values).metrics;
  };
  EXPECT_THAT(metrics({"chrf++,bleu"}),
              ElementsAre(ScoreMetric::kChrfPlusPlus, ScoreMetric::kBleu));
  EXPECT_THAT(metrics({"bleu", "chrf,bleu"}), ElementsAre(ScoreMetric::kBleu, ScoreMetric::kChrf));
  for (const char* bad : {"bleu,", "", "ter", "BLEU", "bleu, chrf"}) {
    EXPECT_THROW(metrics({bad}), ConfigError) << bad;
  }
}

TEST(EvaluateOptions, TakesSeveralReferences) {
  EXPECT_THAT(evaluate_options({"--hypotheses", "h", "--references", "a", "b"}).references,
              ElementsAre("a", "b"));
}

}  // namespace
}  // namespace reigen
