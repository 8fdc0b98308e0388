// The best scores of a run and evaluations without a gain.
#include "train/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace reigen {
namespace {

EvaluationRecord noted(Counters& counters, double nll, double bleu, StopMetric stop_on) {
  ++counters.step;
  EvaluationRecord record;
  record.nll = nll;
  record.bleu = bleu;
  note_scores(record, stop_on, counters);
  EXPECT_EQ(counters.evaluated_step, counters.step);
  return record;
}

TEST(NoteScores, RemembersTheBestOfEachMetric) {
  Counters counters;
  EvaluationRecord record = noted(counters, 3, 10, StopMetric::kLoss);
  EXPECT_TRUE(record.is_best_loss && record.is_best_bleu);
  record = noted(counters, 2, 9, StopMetric::kLoss);
  EXPECT_TRUE(record.is_best_loss);
  EXPECT_FALSE(record.is_best_bleu);
  record = noted(counters, NAN, 11, StopMetric::kLoss);
  EXPECT_FALSE(record.is_best_loss);
  EXPECT_TRUE(record.is_best_bleu);
  EXPECT_EQ(counters.best_loss->step, 2u);
  EXPECT_EQ(counters.best_loss->value, 2);
  EXPECT_EQ(counters.best_bleu->step, 3u);
  EXPECT_EQ(counters.best_bleu->value, 11);
}

TEST(NoteScores, CountsEvaluationsWithoutAGainInTheChosenMetric) {
  Counters by_loss;
  Counters by_bleu;
  for (double bleu : {10, 11, 12}) {
    noted(by_loss, 3, bleu, StopMetric::kLoss);
    noted(by_bleu, 3, bleu, StopMetric::kBleu);
  }
  EXPECT_EQ(by_loss.evaluations_without_gain, 2u);
  EXPECT_EQ(by_bleu.evaluations_without_gain, 0u);
}

TEST(NoteScores, RemembersTheBestOfEachMetricOfACommand) {
  Counters counters;
  for (const auto& [comet, other] : {std::pair(0.5, 9.0), {0.7, 8.0}, {0.6, 10.0}}) {
    ++counters.step;
    EvaluationRecord record;
    record.nll = 1;
    record.metrics = {{"COMET", comet}, {"other", other}};
    note_scores(record, StopMetric::kCommand, counters);
  }
  EXPECT_EQ(counters.best_metrics.at("COMET").step, 2u);
  EXPECT_EQ(counters.best_metrics.at("COMET").value, 0.7);
  EXPECT_EQ(counters.best_metrics.at("other").step, 3u);
  EXPECT_EQ(counters.evaluations_without_gain, 1u);  // the first metric decides
  // Without its scores an evaluation is none with a gain.
  ++counters.step;
  EvaluationRecord failed;
  failed.nll = 0.5;
  note_scores(failed, StopMetric::kCommand, counters);
  EXPECT_EQ(counters.evaluations_without_gain, 2u);
}

TEST(NoteScores, CanWatchChrf) {
  Counters counters;
  for (const double chrf : {30.0, 31.0, 30.5}) {
    ++counters.step;
    EvaluationRecord record;
    record.nll = 1;
    record.chrf = chrf;
    note_scores(record, StopMetric::kChrf, counters);
  }
  EXPECT_EQ(counters.best_chrf->step, 2u);
  EXPECT_EQ(counters.evaluations_without_gain, 1u);
}

}  // namespace
}  // namespace reigen
