// Runs held against each other.
#include "report/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reigen {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Report run_with(const std::string& name, int seed, double rate, double loss, double speed,
                const std::string& valid = "v") {
  Report r;
  r.name = name;
  r.settings = {{"seed", seed}, {"schedule.rate", rate}, {"model.width", 32}};
  r.numbers["machine"] = {{"threads", 2}};
  r.numbers["dataset"] = {{"validation set", valid}, {"vocabulary", "x"}};
  r.numbers["target_tokens_per_second"] = speed;
  r.numbers["evaluations"] = {{{"step", 100}, {"nll", loss + 1}}, {{"step", 200}, {"nll", loss}}};
  return r;
}

std::string text_of_all(const Comparison& c) {
  std::string text;
  for (const std::string& sentence : sentences_of(c)) text += sentence + "\n";
  return text;
}

TEST(Comparison, OnePairOfRunsCannotTell) {
  const std::vector<Report> runs = {run_with("a", 1, 0.001, 2, 1000),
                                    run_with("b", 1, 0.002, 1.9, 1010)};
  const Comparison c = compare(runs, {"runs/a", "runs/b"});
  ASSERT_EQ(c.differences.size(), 1U);
  EXPECT_EQ(c.differences[0].name, "schedule.rate");
  EXPECT_THAT(c.differences[0].values, ElementsAre("0.001", "0.002"));
  ASSERT_EQ(c.pairs.size(), 1U);
  EXPECT_EQ(c.pairs[0].loss.answer, Effect::Answer::kCannotTell);
  EXPECT_NEAR(c.pairs[0].loss.after - c.pairs[0].loss.before, -0.1, 1e-9);
  EXPECT_THAT(text_of_all(c), HasSubstr("cannot tell"));
  EXPECT_THAT(text_of_all(c), HasSubstr("`reigen train --config runs/b/config.yaml --run "
                                        "runs/b-seed-2 --seed 2`"));
}

TEST(Comparison, SeedsAreTheNoiseThatADifferenceHasToExceed) {
  std::vector<Report> runs = {
      run_with("a1", 1, 0.001, 2.00, 1000), run_with("a2", 2, 0.001, 2.01, 1002),
      run_with("a3", 3, 0.001, 1.99, 998),  run_with("b1", 1, 0.002, 1.80, 1001),
      run_with("b2", 2, 0.002, 1.81, 999),  run_with("b3", 3, 0.002, 1.79, 1000)};
  const std::vector<std::string> paths = {"a1", "a2", "a3", "b1", "b2", "b3"};
  const Comparison c = compare(runs, paths);
  ASSERT_EQ(c.variants.size(), 2U);
  EXPECT_THAT(c.variants[1].runs, ElementsAre(3, 4, 5));
  EXPECT_NEAR(c.loss_noise, 0.01, 1e-9);
  const Effect& loss = c.pairs[0].loss;
  EXPECT_EQ(loss.answer, Effect::Answer::kClear);
  // 2.776 (4 degrees of freedom) times 0.01 times sqrt(2/3).
  EXPECT_NEAR(loss.high, -0.2 + 2.776 * 0.01 * 0.8165, 1e-4);
  EXPECT_EQ(c.pairs[0].speed.answer, Effect::Answer::kNone);
  EXPECT_THAT(text_of_all(c), HasSubstr("clearly better"));
  EXPECT_THAT(text_of_all(c), Not(HasSubstr("cannot tell")));
}

TEST(Comparison, LossesOfDifferentValidationSetsAreNotCompared) {
  const std::vector<Report> runs = {run_with("a", 1, 0.001, 2, 1000),
                                    run_with("b", 1, 0.001, 1, 1000, "w")};
  const Comparison c = compare(runs, {"a", "b"});
  EXPECT_EQ(c.differences[0].kind, Difference::Kind::kData);
  EXPECT_EQ(c.pairs[0].loss.answer, Effect::Answer::kIncomparable);
}

TEST(Comparison, SeveralChangesShareTheirEffect) {
  std::vector<Report> runs = {run_with("a", 1, 0.001, 2, 1000), run_with("b", 1, 0.002, 2, 1000)};
  runs[1].numbers["machine"]["threads"] = 1;
  const Comparison c = compare(runs, {"a", "b"});
  EXPECT_EQ(c.pairs[0].changed.size(), 2U);
  EXPECT_THAT(text_of_all(c), HasSubstr("2 things changed at once"));
}

TEST(Comparison, RunsOfOneVariantShowTheNoise) {
  const Comparison c =
      compare({run_with("a", 1, 0.001, 2, 1000), run_with("b", 2, 0.001, 2.1, 900)}, {"a", "b"});
  EXPECT_EQ(c.variants.size(), 1U);
  EXPECT_THAT(text_of_all(c), HasSubstr("nothing but their seeds"));
}

TEST(Comparison, LossesAreComparedUpToACommonStep) {
  std::vector<Report> runs = {run_with("a", 1, 0.001, 2, 1000), run_with("b", 1, 0.002, 2, 1000)};
  runs[0].numbers["evaluations"].push_back({{"step", 900}, {"nll", 0.1}});
  const Comparison c = compare(runs, {"a", "b"});
  EXPECT_EQ(c.common_step, 200);
  EXPECT_EQ(c.pairs[0].loss.before, 2);
}

// A, B: the rate. C: rate and threads, so that it is held against B, too, which differs in one.
TEST(Comparison, ThreeVariantsAreRankedAndEachChangeIsIsolated) {
  std::vector<Report> runs = {
      run_with("a", 1, 0.001, 2.0, 1000), run_with("a2", 2, 0.001, 2.01, 990),
      run_with("b", 1, 0.002, 1.8, 1000), run_with("b2", 2, 0.002, 1.81, 1010),
      run_with("c", 1, 0.002, 1.8, 500),  run_with("c2", 2, 0.002, 1.79, 505)};
  for (size_t i : {4, 5}) runs[i].numbers["machine"]["threads"] = 1;
  const Comparison c = compare(runs, {"a", "a2", "b", "b2", "c", "c2"});
  ASSERT_EQ(c.variants.size(), 3U);
  ASSERT_EQ(c.pairs.size(), 3U);
  EXPECT_EQ(c.pairs[1].base, 0U);
  EXPECT_EQ(c.pairs[1].changed.size(), 2U);
  const VariantPair& isolated = c.pairs[2];
  EXPECT_EQ(isolated.base, 1U);
  EXPECT_EQ(isolated.variant, 2U);
  ASSERT_EQ(isolated.changed.size(), 1U);
  EXPECT_EQ(c.differences[isolated.changed[0]].kind, Difference::Kind::kMachine);
  EXPECT_EQ(isolated.loss.answer, Effect::Answer::kNone);
  EXPECT_EQ(isolated.speed.answer, Effect::Answer::kClear);
  EXPECT_EQ(c.pairs[0].loss.answer, Effect::Answer::kClear);
  const std::string text = text_of_all(c);
  EXPECT_THAT(text,
              HasSubstr("the lowest first: c, c2 1.7950 (502 target tokens per second), b, b2"));
  EXPECT_THAT(text, HasSubstr("c, c2 against b, b2: threads 1 instead of 2"));
  // Three comparisons share their 5%: the interval of one alone is narrower.
  const Comparison two = compare({runs[0], runs[1], runs[2], runs[3]}, {"a", "a2", "b", "b2"});
  EXPECT_NEAR(two.pairs[0].loss.high - two.pairs[0].loss.low, 2 * 4.303 * two.loss_noise, 1e-4);
  EXPECT_NEAR(c.pairs[0].loss.high - c.pairs[0].loss.low, 2 * student_t(3, 3) * c.loss_noise * 1.0,
              1e-9);
}

TEST(Comparison, QuantilesOfStudentsT) {
  EXPECT_NEAR(student_t(1), 12.706, 0.001);
  EXPECT_NEAR(student_t(4), 2.776, 0.001);
  EXPECT_NEAR(student_t(3, 3), 4.857, 0.001);  // 0.05 / 3
  EXPECT_NEAR(student_t(20), 2.086, 0.002);
  EXPECT_NEAR(student_t(1000), 1.962, 0.001);
}

}  // namespace
}  // namespace reigen
