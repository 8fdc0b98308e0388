// Answers of a report about synthetic runs.
#include "report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "observe/record/measurement_log.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Two hosts that send `rate` bytes per second, a little more and less by turns, over a link that
// was measured at 10 MB/s. A step takes one second, `waiting` of it for the network.
void write_run(const std::string& directory, double rate, double waiting) {
  for (int rank = 0; rank < 2; ++rank) {
    MeasurementLog log(directory, rank, 0);
    if (rank == 0) log.append(StartRecord{.time = 1000, .workers = 2});
    if (rank == 0) log.append(PredictionRecord{.method = "none", .seconds = 1, .bandwidth = 1e7});
    for (uint64_t step = 1; step <= 40; ++step) {
      const Spans spans = {{"backward", 1 - waiting}, {"communication", waiting}};
      const CommunicationTimes times{
          .min_wait = waiting, .sent = 8'000'000, .inter_node_bytes = 8'000'000};
      const double now = 1000 + static_cast<double>(step);
      if (rank == 0) {
        log.append(StepRecord{.step = step,
                              .time = now,
                              .target_tokens = 100,
                              .seconds = 1 + 0.01 * static_cast<double>(step / 2 % 2),
                              .spans = spans,
                              .communication = times});
      } else {
        log.append(SpansRecord{.step = step,
                               .time = now,
                               .steps = 1,
                               .seconds = 1,
                               .spans = spans,
                               .communication = times});
      }
      const double out = rate * (1 + 0.01 * static_cast<double>(step % 2));
      log.append(SampleRecord{.step = step,
                              .time = now,
                              .seconds = 1,
                              .host = "one-name",
                              .cores = {50},
                              .interfaces = {{.name = "eth0", .out = out, .used = true}}});
    }
    if (rank == 0) log.append(EndRecord{.step = 40, .time = 1050, .reason = "x", .seconds = 50});
  }
}

Report report_of(const std::string& directory, const ReportSettings& settings = {}) {
  RunReader reader(directory);
  reader.refresh();
  return make_report(directory, reader, settings);
}

std::string answer_to(const Report& report, const std::string& id) {
  const auto found = std::find_if(report.answers.begin(), report.answers.end(),
                                  [&](const Answer& a) { return a.id == id; });
  return found == report.answers.end() ? "no such question" : found->answer;
}

TEST(Report, AFullLinkExplainsWhyNothingCorrelates) {
  TempDir run;
  write_run(run.path(), 9.9e6, 0.7);
  const Report report = report_of(run.path());
  EXPECT_EQ(answer_to(report, "network"), "yes");
  EXPECT_THAT(answer_to(report, "correlation"),
              StartsWith("the link carried 77 Mbit/s of 80 Mbit/s: it was full, "));
}

TEST(Report, ALinkThatStepsWaitForIsNotCalledFull) {
  TempDir run;
  write_run(run.path(), 2e6, 0.7);
  EXPECT_THAT(answer_to(report_of(run.path()), "correlation"),
              StartsWith("steps waited for the network (the link carried 15 Mbit/s of 80 Mbit/s)"));
}

TEST(Report, AnIdleLinkExplainsNothing) {
  TempDir run;
  write_run(run.path(), 2e6, 0.02);
  const Report report = report_of(run.path());
  EXPECT_THAT(answer_to(report, "correlation"), StartsWith("hardly: "));
  EXPECT_THAT(answer_to(report, "how-long"), Not(HasSubstr("cost")));
}

TEST(Report, ThePriceIsOfOneHostAndTheCostOfAll) {
  TempDir run;
  write_run(run.path(), 2e6, 0.02);
  const Report report = report_of(run.path(), {.price_per_hour = 36});
  EXPECT_DOUBLE_EQ(report.numbers["cost"].get<double>(), 1.0);  // 50 seconds of two
  EXPECT_EQ(report.numbers["machines"], 2);
  EXPECT_THAT(answer_to(report, "how-long"), HasSubstr("it cost 1.00"));
}

TEST(Report, JsonHasAVersionAndItsVerdictsAsIds) {
  TempDir run;
  write_run(run.path(), 9.9e6, 0.7);
  const Json json = to_json(report_of(run.path()));
  EXPECT_EQ(json["version"], kReportVersion);
  EXPECT_EQ(json["verdicts"]["bottleneck"]["cause"], "network");
  EXPECT_EQ(json["verdicts"]["bottleneck"]["rank"], -1);
  EXPECT_EQ(json["verdicts"]["trained"]["answer"], "unknown");  // no evaluations
  EXPECT_EQ(json["verdicts"]["overfitting"]["answer"], "unknown");
}

// The logs of other ranks arrive every --log-every steps; a killed job may have none.
TEST(Report, AJobWithoutTheLogsOfItsOtherRanksStillHasANetwork) {
  TempDir run;
  write_run(run.path(), 9.9e6, 0.7);
  std::filesystem::remove(run.path("measurements/rank-1.jsonl"));
  const Report report = report_of(run.path());
  EXPECT_EQ(report.bottleneck.cause, Cause::kNetwork);
  EXPECT_EQ(answer_to(report, "network"), "yes");
  EXPECT_THAT(answer_to(report, "correlation"), Not(HasSubstr("a single worker")));
}

TEST(Report, WithoutTheLogsOfOtherRanksASlowOneHasNoNumber) {
  TempDir run;
  MeasurementLog log(run.path(), 0, 0);
  log.append(StartRecord{.time = 1000, .workers = 2});
  for (uint64_t step = 1; step <= 40; ++step) {
    log.append(StepRecord{.step = step,
                          .time = 1000 + static_cast<double>(step),
                          .target_tokens = 100,
                          .seconds = 1,
                          .spans = {{"backward", 0.4}, {"communication", 0.6}},
                          .communication = CommunicationTimes{.min_wait = 0.01, .sent = 1000}});
  }
  log.flush();
  const Report report = report_of(run.path());
  EXPECT_EQ(report.bottleneck.cause, Cause::kStraggler);
  EXPECT_EQ(report.bottleneck.confidence, Confidence::kLow);
  EXPECT_EQ(report.bottleneck.rank, -1);
  EXPECT_THAT(report.verdicts[0].summary, HasSubstr("their logs have not arrived yet"));
}

TEST(Report, TheVerdictsComeFirstEachAsASentenceWithItsEvidenceAsAList) {
  TempDir run;
  write_run(run.path(), 9.9e6, 0.7);
  const std::string text = to_text(report_of(run.path()));
  const size_t verdict = text.find("bottleneck: network (confidence high)");
  const size_t sentence = text.find("Steps waited for the network for 70% of the time.");
  const size_t evidence = text.find("      - of all time in steps");
  const size_t question = text.find("How long did it take?");
  EXPECT_LT(verdict, sentence);
  EXPECT_LT(sentence, evidence);
  EXPECT_LT(evidence, question);
  EXPECT_NE(question, std::string::npos);
}

// The headline is of the last stretch; the use of the cores is of the whole run, and adds up.
TEST(Report, TheUseOfTheCoresIsOfTheWholeRunWhereTheHeadlineIsOfItsEnd) {
  TempDir run;
  MeasurementLog log(run.path(), 0, 0);
  log.append(StartRecord{.time = 1000, .workers = 1});
  double now = 1000;
  for (uint64_t step = 1; step <= 120; ++step) {
    const double reading = step <= 60 ? 0.0 : 0.7;
    now += 0.3 + reading;
    log.append(StepRecord{.step = step,
                          .time = now,
                          .target_tokens = 100,
                          .seconds = 0.3 + reading,
                          .spans = {{"input", reading}, {"backward", 0.3}}});
  }
  log.flush();
  const Report report = report_of(run.path());
  EXPECT_EQ(report.verdicts[0].summary,
            "From step 61 on, steps waited for input for 70% of the time.");
  EXPECT_THAT(answer_to(report, "busy"), StartsWith("no: 46% of the time was spent computing; the "
                                                    "rest was waiting for input 54%"));
}

TEST(Report, NamesCheckpointsThatCouldNotBeWritten) {
  TempDir run;
  write_run(run.path(), 2e6, 0.02);
  MeasurementLog log(run.path(), 0, 40);
  log.append(CheckpointRecord{.step = 20, .bytes = 100});
  log.append(CheckpointRecord{.step = 40, .error = "model: No space left on device"});
  log.flush();
  const Report report = report_of(run.path());
  const auto note = std::find_if(report.notes.begin(), report.notes.end(), [](const auto& n) {
    return n.first == "checkpoints that could not be written";
  });
  ASSERT_NE(note, report.notes.end());
  EXPECT_EQ(note->second, "1 of 2, the last after step 40: model: No space left on device");
}

TEST(Report, JsonNamesTheStepOfADivergence) {
  Report report;
  report.trained = {.answer = Trained::Answer::kDiverged, .step = 101};
  report.overfitting.answer = Overfitting::Answer::kYes;
  report.overfitting.trend.best_step = 40;
  const Json verdicts = to_json(report)["verdicts"];
  EXPECT_EQ(verdicts["trained"]["answer"], "diverged");
  EXPECT_EQ(verdicts["trained"]["diverged_step"], 101);
  EXPECT_EQ(verdicts["overfitting"]["answer"], "yes");
  EXPECT_EQ(verdicts["overfitting"]["best_step"], 40);
}

TEST(Report, NamesTheCostOfLostWorkers) {
  const TempDir dir;
  write_run(dir.path("run"), 1e6, 0.1);
  MeasurementLog log(dir.path("run"), 0, 40);
  log.append(MembershipChangeRecord{.step = 40,
                                    .workers = 2,
                                    .lost = {{.worker = 2}},
                                    .seconds = 1.5,
                                    .settled = "rolled_forward"});
  log.append(MembershipChangeRecord{
      .step = 40, .workers = 1, .lost = {{.worker = 1}}, .seconds = 1.6, .settled = "kept"});
  log.flush();
  const auto note = [&] {
    for (const auto& [name, text] : report_of(dir.path("run")).notes) {
      if (name == "elastic") return text;
    }
    return std::string();
  };
  EXPECT_EQ(note(), "lost 2 workers, 3.1 s in all, no step repeated");
  log.append(MembershipChangeRecord{.step = 40,
                                    .workers = 2,
                                    .joined = {{.worker = 2}},
                                    .left = {{.worker = 0, .why = "SIGTERM"}},
                                    .seconds = 0,
                                    .settled = "kept"});
  log.flush();
  EXPECT_EQ(note(),
            "lost 2 workers, 1 worker left, 1 worker joined, 3.1 s in all, no step repeated");
  log.append(MembershipChangeRecord{.step = 40,
                                    .workers = 1,
                                    .lost = {{.worker = 0}},
                                    .seconds = 0.9,
                                    .settled = "repeated",
                                    .lost_residuals = true});
  log.flush();
  EXPECT_THAT(note(), StartsWith("lost 3 workers, 1 worker left, 1 worker joined, 4.0 s in all, 1 "
                                 "unfinished step begun again"));
  EXPECT_THAT(note(), HasSubstr("rounding errors"));
  log.append(MembershipChangeRecord{.step = 40,
                                    .workers = 1,
                                    .settled = "kept",
                                    .earlier_run = "/runs/a",
                                    .earlier_host = "vm1"});
  log.flush();
  EXPECT_THAT(note(), HasSubstr("the steps up to 40 are in /runs/a on host vm1"));
}

}  // namespace
}  // namespace reigen
