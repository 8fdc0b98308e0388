#include "doctor/doctor_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ParameterLayout nine_million() {
  ParameterLayout layout;
  for (int i = 0; i < 112; ++i) layout.add("m", 256, 256);
  layout.add("embedding", 8000, 256);
  return layout;
}

// Two equal hosts, joined by a link of so many megabits per second.
Examination two_machines(double megabits, const char* method = "none") {
  Examination e;
  Measured& m = e.preflight.measured;
  m.workers = 2;
  m.compute = {.forward = 0.3, .backward = 0.5, .optimizer = 0.05, .last_backward = 0.5};
  m.compress = {.powersgd_base = 1e-9, .powersgd_per_rank = 1e-10};
  m.link = {.latency = 2e-4, .bandwidth = megabits * kMegabit};
  for (int rank : {0, 1}) {
    WorkerFacts w;
    w.rank = rank;
    w.host = rank == 0 ? "anna" : "bert";
    w.interface = "eth0";
    w.compute = m.compute.all();
    e.workers.push_back(w);
  }
  e.links = {{.from = 0, .to = 1, .bandwidth = m.link.bandwidth},
             {.from = 1, .to = 0, .bandwidth = m.link.bandwidth}};
  e.sentences = 100;
  e.setting = parse_compress(method);
  e.predictions = {predict_step(m, nine_million(), e.setting)};
  e.verdict = verdict(e.predictions[0]);
  return e;
}

std::vector<Finding::Kind> kinds_of(const Examination& e) {
  std::vector<Finding::Kind> kinds;
  for (const Finding& f : e.findings) kinds.push_back(f.kind);
  return kinds;
}

const Suggestion* find(const Examination& e, Suggestion::Kind kind) {
  for (const Suggestion& s : e.suggestions) {
    if (s.kind == kind) return &s;
  }
  return nullptr;
}

TEST(DoctorAdvice, EqualHostsHaveNoFindings) {
  Examination e = two_machines(10'000);
  examine_hosts(e, 1e6);
  name_straggler(e);
  EXPECT_THAT(e.findings, IsEmpty());
  EXPECT_EQ(e.verdict.cause, Cause::kCompute);
}

TEST(DoctorAdvice, ASlowHostIsFoundAndIsTheStraggler) {
  Examination e = two_machines(10'000);
  e.workers[1].compute *= 2;
  examine_hosts(e, 1e6);
  name_straggler(e);
  ASSERT_THAT(kinds_of(e), ElementsAre(Finding::Kind::kSlowWorker));
  EXPECT_EQ(e.findings[0].rank, 1);
  EXPECT_DOUBLE_EQ(e.findings[0].value, 2 * e.findings[0].usual);
  EXPECT_EQ(e.verdict.cause, Cause::kStraggler);
  EXPECT_EQ(e.verdict.rank, 1);
}

TEST(DoctorAdvice, ASlowHostIsNotTheBottleneckOfASlowLink) {
  Examination e = two_machines(100);
  e.workers[1].compute *= 2;
  name_straggler(e);
  EXPECT_EQ(e.verdict.cause, Cause::kNetwork);
}

TEST(DoctorAdvice, ClockDiskAndInterfaceAreSeparateFindings) {
  Examination e = two_machines(10'000);
  e.workers[0].disk_rate = 1e5;
  e.workers[1].clock_ahead = -300;
  e.workers[1].interface_note = "eth1 does not lead to the others";
  examine_hosts(e, 1e6);
  EXPECT_THAT(kinds_of(e), ElementsAre(Finding::Kind::kSlowDisk, Finding::Kind::kInterface,
                                       Finding::Kind::kClock));
  EXPECT_EQ(e.findings[0].rank, 0);
  EXPECT_EQ(e.findings[2].rank, 1);
  EXPECT_EQ(e.findings[2].value, -300);
}

TEST(DoctorAdvice, ALinkFarBelowItsReportedSpeedIsFoundOnceForEachDirection) {
  Examination e = two_machines(100);
  for (WorkerFacts& w : e.workers) w.speed = 10'000;
  examine_hosts(e, 0);
  ASSERT_THAT(kinds_of(e), ElementsAre(Finding::Kind::kSlowLink, Finding::Kind::kSlowLink));
  EXPECT_EQ(e.findings[0].rank, 0);
  EXPECT_EQ(e.findings[0].peer, 1);
  EXPECT_DOUBLE_EQ(e.findings[0].usual, 10'000 * kMegabit);
}

TEST(DoctorAdvice, CompressionForASlowLinkComesBeforeSuggestionsThatCost) {
  Examination e = two_machines(100);
  e.machines = 2;
  suggest(e, nine_million());
  ASSERT_FALSE(e.suggestions.empty());
  EXPECT_EQ(e.suggestions[0].kind, Suggestion::Kind::kCompress);
  EXPECT_EQ(text_of(e.suggestions[0].setting), "int4");
  EXPECT_GT(e.suggestions[0].gain, 3);
  EXPECT_EQ(e.suggestions.back().kind, Suggestion::Kind::kMoreWorkers);
  EXPECT_EQ(e.suggestions.back().count, 4);
  EXPECT_GT(e.suggestions.back().gain, e.suggestions[0].gain);
}

TEST(DoctorAdvice, FewerCoresAreSuggestedWhereTheyHardlyHelp) {
  Examination e = two_machines(10'000);
  e.half = {.threads = 4, .of = 8, .seconds = 0.82};
  suggest(e, nine_million());
  ASSERT_NE(find(e, Suggestion::Kind::kFewerThreads), nullptr);
  EXPECT_EQ(find(e, Suggestion::Kind::kFewerThreads)->count, 4);
}

TEST(DoctorAdvice, MoreCoresAreSuggestedWhereEachHelps) {
  Examination e = two_machines(10'000);
  e.half = {.threads = 4, .of = 8, .seconds = 1.6};
  suggest(e, nine_million());
  EXPECT_EQ(find(e, Suggestion::Kind::kFewerThreads), nullptr);
  ASSERT_NE(find(e, Suggestion::Kind::kMoreThreads), nullptr);
  EXPECT_EQ(find(e, Suggestion::Kind::kMoreThreads)->count, 16);
}

TEST(DoctorAdvice, WorkersBeyondTheSentencesOfABatchAreIdle) {
  Examination e = two_machines(1000);
  SimulateSetting setting;
  setting.workers = 130;
  extrapolate(e, nine_million(), setting);
  EXPECT_THAT(e.simulated_workers, ElementsAre(1, 2, 4, 8, 16, 32, 64, 128, 130));
  EXPECT_EQ(e.simulated_idle.back(), 30U);
  ASSERT_THAT(kinds_of(e), ElementsAre(Finding::Kind::kIdleWorkers));
  EXPECT_EQ(e.findings[0].value, 30);
}

TEST(DoctorAdvice, OneWorkerNeedsALinkSpeedToSimulate) {
  SimulateSetting setting;
  setting.workers = 4;
  EXPECT_THROW(check_simulation(setting, 1), ConfigError);
  EXPECT_NO_THROW(check_simulation(setting, 2));
  setting.bandwidth = 1e8;
  EXPECT_NO_THROW(check_simulation(setting, 1));
}

TEST(DoctorAdvice, APortFarBelowTheOthersIsFound) {
  Examination e = two_machines(1000);
  WorkerFacts carl = e.workers[0];
  carl.rank = 2;
  carl.host = "carl";
  e.workers.push_back(carl);
  for (int rank : {0, 1}) {
    e.links.push_back({.from = rank, .to = 2, .bandwidth = 100 * kMegabit});
    e.links.push_back({.from = 2, .to = rank, .bandwidth = 100 * kMegabit});
  }
  examine_hosts(e, 0);
  ASSERT_THAT(kinds_of(e), ElementsAre(Finding::Kind::kSlowPort));
  EXPECT_EQ(e.findings[0].rank, 2);
}

TEST(DoctorAdvice, RemovingASlowWorkerGainsItsDelay) {
  Examination e = two_machines(10'000);
  Measured& m = e.preflight.measured;
  for (int rank : {2, 3}) {
    e.workers.push_back(e.workers[0]);
    e.workers.back().rank = rank;
  }
  m.workers = 4;
  e.machines = 4;
  m.compute.forward *= 3;
  m.compute.backward *= 3;
  e.workers[3].compute = m.compute.all();
  e.predictions = {predict_step(m, nine_million(), e.setting)};
  suggest(e, nine_million());
  EXPECT_EQ(e.suggestions[0].kind, Suggestion::Kind::kWithoutWorker);
  EXPECT_EQ(e.suggestions[0].rank, 3);
  EXPECT_NEAR(e.suggestions[0].gain, 3 * 3 / 4.0, 0.3);
}

// The wording itself; all other tests look at values.
TEST(DoctorWording, SentencesNameWorkerFigureAndRemedy) {
  Examination e = two_machines(100);
  e.workers[1].compute *= 2;
  EXPECT_EQ(
      text_of({.kind = Finding::Kind::kSlowWorker, .rank = 1, .value = 1.7, .usual = 0.85}, e),
      "rank 1 (bert) needs 1.7 s to compute its share of a step, the median worker 0.85 s: all "
      "workers "
      "wait for it; remove it, or stop other work on that host");
  EXPECT_EQ(
      text_of({.kind = Finding::Kind::kClock, .rank = 1, .value = -300}, e),
      "the clock of rank 1 (bert) is 5m 00s behind rank 0's: time stamps in their logs do not "
      "match; synchronise the clocks (NTP)");
  EXPECT_EQ(text_of({.kind = Suggestion::Kind::kCompress, .setting = parse_compress("int4")}, e),
            "--compress int4, which approximates gradients: compare the losses of a short run");
  e.verdict = {.cause = Cause::kStraggler, .rank = 1};
  EXPECT_THAT(verdict_text(e), HasSubstr("bottleneck: straggler; rank 1 (bert) needs 1.7 s"));
}

}  // namespace
}  // namespace reigen
