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

// Two machines with nothing odd about them, joined by a link of so many megabits.
Examination two_machines(double megabits, const char* method = "none") {
  Examination e;
  Measured& m = e.preflight.measured;
  m.workers = 2;
  m.compute = {.forward = 0.3, .backward = 0.5, .optimizer = 0.05, .last_backward = 0.5};
  m.compress = {.element = 1e-9, .element_rank = 1e-10};
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
  e.forecasts = {forecast(m, nine_million(), e.setting)};
  e.verdict = verdict(e.forecasts[0], m.link);
  return e;
}

TEST(DoctorAdvice, NothingOddIsNotWarnedOf) {
  Examination e = two_machines(10'000);
  warn_of_hosts(e, 1e6);
  name_straggler(e);
  EXPECT_THAT(e.warnings, IsEmpty());
  EXPECT_EQ(e.verdict.bottleneck, "compute");
}

TEST(DoctorAdvice, ASlowMachineIsNamedAndBlamed) {
  Examination e = two_machines(10'000);
  e.workers[1].compute *= 2;
  warn_of_hosts(e, 1e6);
  name_straggler(e);
  EXPECT_THAT(e.warnings, ElementsAre(HasSubstr("bert")));
  EXPECT_EQ(e.verdict.bottleneck, "straggler");
  EXPECT_THAT(e.verdict.sentence, HasSubstr("bert"));
}

TEST(DoctorAdvice, ASlowMachineIsNotToBlameForASlowLink) {
  Examination e = two_machines(100);
  e.workers[1].compute *= 2;
  name_straggler(e);
  EXPECT_EQ(e.verdict.bottleneck, "network");
}

TEST(DoctorAdvice, AClockADiskAndAnInterfaceAreEachNamed) {
  Examination e = two_machines(10'000);
  e.workers[0].disk_rate = 1e5;
  e.workers[1].clock_ahead = -300;
  e.workers[1].interface_note = "eth1 does not lead to the others";
  warn_of_hosts(e, 1e6);
  ASSERT_EQ(e.warnings.size(), 3U);
  EXPECT_THAT(e.warnings[0], HasSubstr("the disk of rank 0"));
  EXPECT_THAT(e.warnings[1], HasSubstr("eth1 does not lead to the others"));
  EXPECT_THAT(e.warnings[2], HasSubstr("behind"));
}

TEST(DoctorAdvice, APortThatCarriesLessThanItClaimsIsNamedOnceForEachWay) {
  Examination e = two_machines(100);
  for (WorkerFacts& w : e.workers) w.speed = 10'000;
  warn_of_hosts(e, 0);
  EXPECT_THAT(e.warnings, ElementsAre(HasSubstr("10,000 Mbit/s, but 100"), HasSubstr("capped")));
}

TEST(DoctorAdvice, ASlowLinkIsToldToCompressBeforeAnythingThatCosts) {
  Examination e = two_machines(100);
  e.machines = 2;
  advise(e, nine_million());
  ASSERT_FALSE(e.advice.empty());
  EXPECT_EQ(e.advice[0].change, "--compress int4");
  EXPECT_GT(e.advice[0].gain, 3);
  EXPECT_THAT(e.advice.back().change, HasSubstr("4 such workers"));
  EXPECT_GT(e.advice.back().gain, e.advice[0].gain);
}

TEST(DoctorAdvice, CoresThatHardlyHelpAreToldToBeSaved) {
  Examination e = two_machines(10'000);
  e.half = {.threads = 4, .of = 8, .seconds = 0.82};
  advise(e, nine_million());
  EXPECT_THAT(e.advice.back().change, HasSubstr("half the cores (--threads 4)"));
  // Where each core counts, more are worth it.
  e = two_machines(10'000);
  e.half = {.threads = 4, .of = 8, .seconds = 1.6};
  advise(e, nine_million());
  bool more = false;
  for (const Advice& a : e.advice) {
    EXPECT_THAT(a.change, Not(HasSubstr("half the cores")));
    more = more || a.change == "machines with twice the cores (--threads 16)";
  }
  EXPECT_TRUE(more);
}

TEST(DoctorAdvice, MoreWorkersThanSentencesHaveNothingToDo) {
  Examination e = two_machines(1000);
  SimulateSetting setting;
  setting.workers = 130;
  extrapolate(e, nine_million(), setting);
  EXPECT_THAT(e.simulated_workers, ElementsAre(1, 2, 4, 8, 16, 32, 64, 128, 130));
  EXPECT_EQ(e.simulated_idle.back(), 30U);
  EXPECT_THAT(e.warnings, ElementsAre(HasSubstr("30 of 130 workers would have nothing to do")));
}

TEST(DoctorAdvice, OneWorkerKnowsNoLinkToExtrapolateFrom) {
  SimulateSetting setting;
  setting.workers = 4;
  EXPECT_THROW(check_simulation(setting, 1), ConfigError);
  EXPECT_NO_THROW(check_simulation(setting, 2));
  setting.bandwidth = 1e8;
  EXPECT_NO_THROW(check_simulation(setting, 1));
}

TEST(DoctorAdvice, OnePortFarBelowTheOthersIsNamed) {
  Examination e = two_machines(1000);
  WorkerFacts carl = e.workers[0];
  carl.rank = 2;
  carl.host = "carl";
  e.workers.push_back(carl);
  for (int rank : {0, 1}) {
    e.links.push_back({.from = rank, .to = 2, .bandwidth = 100 * kMegabit});
    e.links.push_back({.from = 2, .to = rank, .bandwidth = 100 * kMegabit});
  }
  warn_of_hosts(e, 0);
  EXPECT_THAT(e.warnings, ElementsAre(HasSubstr("carl) has 100 Mbit/s at most")));
}

TEST(DoctorAdvice, WithoutASlowOneTheOthersGainWhatItsShareCostsThem) {
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
  e.forecasts = {forecast(m, nine_million(), e.setting)};
  advise(e, nine_million());
  EXPECT_THAT(e.advice[0].change, HasSubstr("without rank 3"));
  EXPECT_NEAR(e.advice[0].gain, 3 * 3 / 4.0, 0.3);
}

}  // namespace
}  // namespace reigen
