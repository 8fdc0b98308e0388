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

}  // namespace
}  // namespace reigen
