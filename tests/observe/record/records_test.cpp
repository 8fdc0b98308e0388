// Records of every kind, to JSON and back.
#include "observe/record/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
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
  StartRecord restarted = sample_start(100, 3);
  restarted.restart = 2;
  restarted.cause = "rank 1 (node-8): was killed by signal 9 (Killed)";
  without_gpu.memory_pressure.reset();
  without_gpu.clock.reset();
  without_gpu.throttled.reset();
  ProcessRecord hidden = sample_process(9);
  hidden.run_delay.reset();
  std::set<size_t> kinds;
  CheckpointRecord failed = sample_checkpoint(9);
  failed.error = "No space left on device";
  for (const Record& record : std::vector<Record>{sample_start(100, 3),    restarted,
                                                  sample_step(101),        skipped,
                                                  sample_evaluation(200),  undecoded,
                                                  sample_checkpoint(200),  failed,
                                                  sample_end(250),         sample_spans(20),
                                                  sample_machine(20),      without_gpu,
                                                  sample_prediction(0),    sample_decay(90),
                                                  sample_copy(200),        sample_shares(50),
                                                  sample_starting_point(), sample_membership(95),
                                                  sample_process(30),      hidden}) {
    EXPECT_EQ(round_trip(record), record) << one_line(to_json(record));
    kinds.insert(record.index());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Record>) << "a kind of record is not tested";
}

TEST(Records, BeginWithKindStepAndTime) {
  EXPECT_THAT(one_line(to_json(sample_end(4))),
              testing::StartsWith(R"({"kind":"end","step":4,"time":1700000002.25,)"));
  EXPECT_THAT(one_line(to_json(sample_step(1))), Not(HasSubstr("skipped")));
  EXPECT_THAT(one_line(to_json(sample_checkpoint(1))), Not(HasSubstr("error")));
}

TEST(Records, RoundTimesToTheMicrosecondAndWriteOtherNumbersInFull) {
  StepRecord step = sample_step(1);
  step.time = 1731672000.123456789;
  step.seconds = 0.12345678;
  step.loss = 0.1 + 0.2;
  const std::string line = one_line(to_json(step));
  EXPECT_THAT(line, HasSubstr("\"time\":1731672000.123457,"));
  EXPECT_THAT(line, HasSubstr("\"seconds\":0.123457,"));
  EXPECT_EQ(std::get<StepRecord>(round_trip(step)).loss, 0.1 + 0.2);
}

TEST(Records, HaveTheTimeAtWhichTheyWereMade) {
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

TEST(Records, PreserveTheOrderOfSpans) {
  StepRecord step = sample_step(1);
  step.spans = {{"zeta", 1}, {"alpha", 2}, {"mid", 3}};
  EXPECT_EQ(std::get<StepRecord>(round_trip(step)).spans, step.spans);
}

TEST(Records, ReplaceBytesThatAreNotUtf8) {
  CheckpointRecord checkpoint = sample_checkpoint(1);
  checkpoint.path = "run\xFF";
  EXPECT_EQ(std::get<CheckpointRecord>(round_trip(checkpoint)).path, "run\xEF\xBF\xBD");
}

TEST(Records, AcceptANumberOfBytesBeyondAnyInteger) {
  SampleRecord sample = sample_machine(1);
  sample.disk_written = 1.5e44;
  EXPECT_EQ(std::get<SampleRecord>(round_trip(sample)).disk_written, 1.5e44);
}

TEST(Records, ErrorsNameTheField) {
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

TEST(Records, OfVersion01AreReadByTheirOldKeys) {
  const auto step = std::get<StepRecord>(record_from_json(Json::parse(
      R"({"kind":"step","step":1,"time":7.5,"epoch":0.04,"loss":5.8,"nll":5.7,"rate":0.0005,)"
      R"("norm":0.5,"source_tokens":548,"target_tokens":569,"pairs":16,"micro_batches":1,)"
      R"("seconds":0.0105,"held_seconds":0.25,"spans":{"input":0.0001},)"
      R"("communication":{"least":0.0002,"busy":0.0082,"hidden":0.001,"hideable":0.002,)"
      R"("sent":4646,"sent_away":12}})")));
  EXPECT_EQ(step.descheduled_seconds, 0.25);
  const CommunicationTimes expected = {.min_wait = 0.0002,
                                       .busy = 0.0082,
                                       .hidden = 0.001,
                                       .hidden_at_best = 0.002,
                                       .sent = 4646,
                                       .inter_node_bytes = 12};
  EXPECT_EQ(step.communication, expected);
  const auto checkpoint = std::get<CheckpointRecord>(record_from_json(
      Json::parse(R"({"kind":"checkpoint","step":16,"time":8,"path":"run/checkpoints/step-16",)"
                  R"("bytes":421678,"held_seconds":0.017,"write_seconds":0.018})")));
  EXPECT_EQ(checkpoint.stall_seconds, 0.017);
  const auto start = std::get<StartRecord>(record_from_json(Json::parse(
      R"({"kind":"start","step":0,"time":7,"attempt":1,"version":"reigen 0.1.0",)"
      R"("host":"vm","process":6736,"threads":2,"workers":2,"device":"2 threads","lost_steps":0,)"
      R"("lost_seconds":0.0,"setup_seconds":1.4,"data_seconds":0.005})")));
  EXPECT_EQ(start.format, 1u);
}

TEST(Records, StepsAddUpToASpanRecord) {
  SpansRecord sum;
  StepRecord step = sample_step(4);
  add_step_to(sum, step);
  step = sample_step(5);
  step.spans = {{"forward", 0.5}, {"loss", 0.125}};
  step.communication = sample_spans(1).communication;
  add_step_to(sum, step);
  EXPECT_EQ(sum.step, 5u);
  EXPECT_EQ(sum.time, step.time);
  EXPECT_EQ(sum.steps, 2u);
  EXPECT_EQ(sum.seconds, 1);
  EXPECT_EQ(sum.descheduled_seconds, 1.5);
  EXPECT_EQ(sum.spans, (Spans{{"input", 0.001},
                              {"forward", 0.7},
                              {"backward", 0.25},
                              {"optimizer", 0.04},
                              {"loss", 0.125}}));
  EXPECT_EQ(sum.communication, sample_spans(1).communication);
  add_step_to(sum, step);
  EXPECT_EQ(sum.communication.sent, 2 * 123'456u);
}

// Bytes of a struct that no row of its table covers, beyond the padding between members.
template <class T>
size_t bytes_without_a_row() {
  const T object;
  std::map<size_t, size_t> covered;  // offset to size
  for_each_row(T::fields(), [&](const auto& f) {
    const auto& member = object.*f.member;
    covered[reinterpret_cast<const char*>(&member) - reinterpret_cast<const char*>(&object)] =
        sizeof(member);
  });
  covered[sizeof(T)] = 0;
  size_t gaps = 0;
  size_t end = 0;
  for (const auto& [offset, size] : covered) {
    const size_t gap = offset - end;
    if (gap >= alignof(double)) gaps += gap;
    end = offset + size;
  }
  return gaps;
}

template <class... Kinds>
void expect_rows_for_all_members(const std::variant<Kinds...>*) {
  const std::vector<size_t> uncovered = {bytes_without_a_row<Kinds>()...};
  EXPECT_THAT(uncovered, testing::Each(0u));
}

TEST(Records, HaveARowForEveryMember) {
  expect_rows_for_all_members(static_cast<const Record*>(nullptr));
  EXPECT_EQ(bytes_without_a_row<CommunicationTimes>(), 0u);
  EXPECT_EQ(bytes_without_a_row<InterfaceSample>(), 0u);
  EXPECT_EQ(bytes_without_a_row<GpuSample>(), 0u);
  EXPECT_EQ(bytes_without_a_row<SampleTranslation>(), 0u);
}

TEST(Records, LinesBeginWithTheirKind) {
  EXPECT_THAT(log_line(sample_step(1)), testing::StartsWith(line_start<StepRecord>() + ","));
  EXPECT_THAT(log_line(sample_machine(1)), testing::StartsWith(line_start<SampleRecord>() + ","));
}

}  // namespace
}  // namespace reigen
