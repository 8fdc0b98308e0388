// Records of every kind, to JSON text and back.
#include "observe/record/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "observe/record/sample_records.h"

namespace reigen {
namespace {

using testing::HasSubstr;
using testing::Not;

Record round_trip(const Record& record) {
  return record_from_json(Json::parse(one_line(to_json(record))));
}

std::string error_of(const Json& json) {
  try {
    record_from_json(json);
  } catch (const DataError& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(Records, OfEveryKindReadBackAsWritten) {
  StepRecord skipped = sample_step(9);
  skipped.skipped = true;
  EvaluationRecord undecoded = sample_evaluation(9);
  undecoded.bleu.reset();
  undecoded.chrf.reset();
  undecoded.samples.clear();
  undecoded.is_best_bleu = true;
  SampleRecord without_gpu = sample_machine(9);
  without_gpu.gpus.clear();
  std::set<size_t> kinds;
  CheckpointRecord failed = sample_checkpoint(9);
  failed.error = "No space left on device";
  for (const Record& record :
       std::vector<Record>{sample_start(100, 3), sample_step(101), skipped, sample_evaluation(200),
                           undecoded, sample_checkpoint(200), failed, sample_end(250),
                           sample_spans(20), sample_machine(20), without_gpu, sample_forecast(0)}) {
    EXPECT_EQ(round_trip(record), record) << one_line(to_json(record));
    kinds.insert(record.index());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Record>) << "a kind of record is not tried";
}

TEST(Records, BeginWithKindStepAndTime) {
  EXPECT_THAT(one_line(to_json(sample_end(4))),
              testing::StartsWith(R"({"kind":"end","step":4,"time":1700000002.25,)"));
  EXPECT_THAT(one_line(to_json(sample_step(1))), Not(HasSubstr("skipped")));
  EXPECT_THAT(one_line(to_json(sample_checkpoint(1))), Not(HasSubstr("error")));
}

TEST(Records, KeepTimesToTheMicrosecondAndMeasuresInFull) {
  StepRecord step = sample_step(1);
  step.time = 1731672000.123456789;
  step.seconds = 0.12345678;
  step.loss = 0.1 + 0.2;
  const std::string line = one_line(to_json(step));
  EXPECT_THAT(line, HasSubstr("\"time\":1731672000.123457,"));
  EXPECT_THAT(line, HasSubstr("\"seconds\":0.123457,"));
  EXPECT_EQ(std::get<StepRecord>(round_trip(step)).loss, 0.1 + 0.2);
}

TEST(Records, AreStampedWithTheTimeTheyAreMadeAt) {
  const double before = unix_now();
  const EndRecord record = {.step = 1, .reason = "max-steps"};
  EXPECT_GE(record.time, before);
  EXPECT_LE(record.time, unix_now());
}

TEST(Records, NumbersThatAreNotFiniteReadBackAsNaN) {
  StepRecord step = sample_step(5);
  step.loss = std::numeric_limits<double>::quiet_NaN();
  step.norm = std::numeric_limits<double>::infinity();
  step.nll = -std::numeric_limits<double>::infinity();
  EXPECT_THAT(one_line(to_json(step)), HasSubstr("\"loss\":null"));
  const auto back = std::get<StepRecord>(round_trip(step));
  EXPECT_TRUE(std::isnan(back.loss));
  EXPECT_TRUE(std::isnan(back.norm));
  EXPECT_TRUE(std::isnan(back.nll));
  EXPECT_EQ(back.rate, step.rate);

  EvaluationRecord evaluation = sample_evaluation(5);
  evaluation.bleu = std::numeric_limits<double>::quiet_NaN();
  const auto evaluated = std::get<EvaluationRecord>(round_trip(evaluation));
  ASSERT_TRUE(evaluated.bleu.has_value());
  EXPECT_TRUE(std::isnan(*evaluated.bleu));
}

TEST(Records, KeepTheOrderOfSpans) {
  StepRecord step = sample_step(1);
  step.spans = {{"zeta", 1}, {"alpha", 2}, {"mid", 3}};
  EXPECT_EQ(std::get<StepRecord>(round_trip(step)).spans, step.spans);
}

TEST(Records, TextThatIsNotUtf8DoesNotEndTheRun) {
  CheckpointRecord checkpoint = sample_checkpoint(1);
  checkpoint.path = "run\xFF";
  EXPECT_EQ(std::get<CheckpointRecord>(round_trip(checkpoint)).path, "run\xEF\xBF\xBD");
}

TEST(Records, SayWhichFieldIsWrong) {
  Json json = to_json(sample_step(1));
  json.erase("rate");
  EXPECT_EQ(error_of(json), "\"rate\" is missing");
  json["rate"] = "fast";
  EXPECT_EQ(error_of(json), "\"rate\" is not a number");
  json["rate"] = 0.1;
  json["step"] = -1;
  EXPECT_EQ(error_of(json), "\"step\" is not a whole number");
  json["kind"] = "stomp";
  EXPECT_EQ(error_of(json), "kind \"stomp\" is unknown to this version");
  EXPECT_EQ(error_of(Json::array()), "is not a JSON object");
}

}  // namespace
}  // namespace reigen
