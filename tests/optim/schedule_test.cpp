// Every kind of schedule against values computed by hand, its continuity, its peak, and refused
// settings.
#include "optim/schedule.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

using Kind = ScheduleKind;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Args = std::vector<std::string>;

constexpr int64_t kModelWidth = 512;

ScheduleOptions ready(const ScheduleOptions& given) {
  ScheduleOptions options = resolve_schedule(given, kModelWidth);
  check_schedule(options);
  return options;
}

std::vector<double> rates(const ScheduleOptions& given, const std::vector<uint64_t>& steps) {
  const ScheduleOptions options = ready(given);
  std::vector<double> found;
  for (uint64_t step : steps) found.push_back(learning_rate(options, step));
  return found;
}

void expect_rates(const ScheduleOptions& given, const std::vector<uint64_t>& steps,
                  const std::vector<double>& expected) {
  const std::vector<double> found = rates(given, steps);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], std::abs(expected[i]) * 1e-12) << "step " << steps[i];
  }
}

// One of each kind, with and without a warm-up, a floor and a start above 0.
std::vector<ScheduleOptions> a_range_of_schedules() {
  std::vector<ScheduleOptions> all;
  for (int64_t warmup : {0, 1, 2, 7, 40}) {
    for (double start : {0.0, 0.0004, 0.001}) {
      for (double least : {0.0, 0.0002, 0.001}) {
        ScheduleOptions o{.warmup_steps = warmup, .start_rate = start, .min_rate = least};
        for (Kind kind : {Kind::kFixed, Kind::kPiecewise, Kind::kExponential, Kind::kPolynomial,
                          Kind::kCosine, Kind::kInversePolynomial, Kind::kWsd}) {
          o.kind = kind;
          o.last_step = 100;
          o.decay_steps = 30;
          o.boundaries = {40, 44, 77};
          o.values = {0.001, 0.0002, 0.003, 0.0001};
          all.push_back(o);
        }
        o.kind = Kind::kExponential;
        o.staircase = true;
        all.push_back(o);
      }
    }
    all.push_back({.kind = Kind::kNoam, .warmup_steps = warmup});
    all.push_back({.kind = Kind::kNoam, .warmup_steps = 20, .min_rate = 0.005});
  }
  return all;
}

std::string named(const ScheduleOptions& options) { return one_line(schedule_json(options)); }

std::string refusal(const ScheduleOptions& options) {
  try {
    check_schedule(options);
  } catch (const ConfigError& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown for " << named(options);
  return "";
}

ScheduleOptions parsed(const Args& args) {
  ScheduleOptions options;
  Schema schema("try", "Tries things.");
  describe(schema, options);
  schema.parse(args);
  return options;
}

TEST(Noam, IsThatOfTheOriginalRun) {
  // 2 / sqrt(512) = 0.08838834764831845; 8000^1.5 = 715541.7527999327; sqrt(8000)
  // = 89.44271909999159
  expect_rates({}, {1, 2, 4000, 8000, 32'000, 50'000},
               {1.2352647110032733e-07, 2.4705294220065466e-07, 4.941058844013093e-04,
                9.882117688026186e-04, 4.941058844013093e-04, 3.952847075210474e-04});
}

TEST(Noam, IsTheFormulaToTheLastBit) {
  const ScheduleOptions options = ready({});
  for (double s : {1.0, 3.0, 7999.0, 8000.0, 8001.0, 123'456.0}) {
    const double expected =
        2.0 * std::pow(512.0, -0.5) * std::min(std::pow(s, -0.5), s * std::pow(8000.0, -1.5));
    EXPECT_EQ(learning_rate(options, static_cast<uint64_t>(s)), expected) << s;
  }
}

TEST(Noam, ScalesWithFactorAndWidth) {
  const ScheduleOptions narrow = {.warmup_steps = 100, .factor = 1, .width = 4};
  expect_rates(narrow, {1, 100, 400}, {0.5 / 1000, 0.5 / 10, 0.5 / 20});
}

TEST(Noam, HasNoFloorInItsWarmUp) {
  const ScheduleOptions floored = {.warmup_steps = 100, .min_rate = 0.04, .factor = 1, .width = 4};
  expect_rates(floored, {1, 100, 121, 400}, {0.0005, 0.05, 0.5 / 11, 0.04});
}

TEST(Fixed, StaysAtItsRate) {
  expect_rates({.kind = Kind::kFixed, .rate = 0.002}, {1, 2, 1'000'000}, {0.002, 0.002, 0.002});
}

TEST(WarmUp, RisesInAStraightLineFromItsStart) {
  expect_rates({.kind = Kind::kFixed, .rate = 0.001, .warmup_steps = 4}, {1, 2, 3, 4, 5},
               {0.00025, 0.0005, 0.00075, 0.001, 0.001});
  expect_rates({.kind = Kind::kFixed, .rate = 0.001, .warmup_steps = 4, .start_rate = 0.0002},
               {1, 2, 3, 4}, {0.0004, 0.0006, 0.0008, 0.001});
}

TEST(Piecewise, HasEachValueUpToItsBoundary) {
  const ScheduleOptions options = {.kind = Kind::kPiecewise,
                                   .warmup_steps = 2,
                                   .boundaries = {10, 20},
                                   .values = {0.004, 0.002, 0.003}};
  expect_rates(options, {1, 2, 10, 11, 20, 21, 1000},
               {0.002, 0.004, 0.004, 0.002, 0.002, 0.003, 0.003});
  expect_rates({.kind = Kind::kPiecewise, .values = {0.1}}, {1, 99}, {0.1, 0.1});
}

TEST(Exponential, LosesTheSameShareEachTime) {
  ScheduleOptions options = {
      .kind = Kind::kExponential, .rate = 0.008, .warmup_steps = 10, .decay_steps = 100};
  expect_rates(options, {5, 10, 60, 110, 210}, {0.004, 0.008, 0.005656854249492381, 0.004, 0.002});
  options.staircase = true;
  expect_rates(options, {10, 109, 110, 209, 210}, {0.008, 0.008, 0.004, 0.004, 0.002});
  options.decay_rate = 0.1;
  options.min_rate = 0.0005;
  expect_rates(options, {109, 110, 210, 9999}, {0.008, 0.0008, 0.0005, 0.0005});
}

TEST(Polynomial, FallsToItsFloorAndStays) {
  ScheduleOptions options = {.kind = Kind::kPolynomial,
                             .rate = 0.011,
                             .warmup_steps = 20,
                             .min_rate = 0.001,
                             .decay_steps = 100};
  expect_rates(options, {20, 45, 70, 119, 120, 121, 5000},
               {0.011, 0.0085, 0.006, 0.0011, 0.001, 0.001, 0.001});
  options.power = 2;
  expect_rates(options, {20, 70, 120}, {0.011, 0.0035, 0.001});
}

TEST(Cosine, FallsHalfAWaveAndStays) {
  const ScheduleOptions options = {.kind = Kind::kCosine,
                                   .rate = 0.005,
                                   .warmup_steps = 10,
                                   .min_rate = 0.001,
                                   .decay_steps = 90};
  expect_rates(options, {10, 40, 55, 70, 100, 101, 5000},
               {0.005, 0.004, 0.003, 0.002, 0.001, 0.001, 0.001});
}

TEST(InversePolynomial, IsByDefaultTheInverseSquareRoot) {
  const ScheduleOptions options = {
      .kind = Kind::kInversePolynomial, .rate = 0.0005, .warmup_steps = 4000};
  expect_rates(options, {1000, 4000, 16'000, 100'000}, {0.000125, 0.0005, 0.00025, 0.0001});
  expect_rates({.kind = Kind::kInversePolynomial, .rate = 0.3}, {1, 4, 9}, {0.3, 0.15, 0.1});
}

TEST(InversePolynomial, TakesAnyPowerAndTimeScale) {
  ScheduleOptions options = {.kind = Kind::kInversePolynomial,
                             .rate = 0.016,
                             .warmup_steps = 10,
                             .decay_steps = 50,
                             .power = 2};
  expect_rates(options, {10, 60, 160}, {0.016, 0.004, 0.001});
  options.min_rate = 0.002;
  expect_rates(options, {60, 160}, {0.004, 0.002});
}

TEST(InversePolynomial, EqualsNoamWherePeakAndWarmUpAgree) {
  const ScheduleOptions noam = ready({});
  const ScheduleOptions inverse = ready(
      {.kind = Kind::kInversePolynomial, .rate = learning_rate(noam, 8000), .warmup_steps = 8000});
  for (uint64_t step : {1, 10, 4000, 8000, 9000, 50'000}) {
    const double expected = learning_rate(noam, step);
    EXPECT_NEAR(learning_rate(inverse, step), expected, expected * 1e-12) << step;
  }
}

TEST(Wsd, WarmsUpStaysAndDecaysOverTheLastHalf) {
  ScheduleOptions options = {.kind = Kind::kWsd, .rate = 0.051, .warmup_steps = 10};
  expect_rates(options, {5, 10, 11, 100'000}, {0.0255, 0.051, 0.051, 0.051});  // no end yet
  options.last_step = 100;
  expect_rates(options, {10, 50, 51, 75, 99, 100, 101, 5000},
               {0.051, 0.051, 0.050, 0.026, 0.002, 0.001, 0, 0});
  options.min_rate = 0.00051;
  expect_rates(options, {50, 100, 101}, {0.051, 0.00051 + 0.05049 / 51, 0.00051});
}

TEST(Wsd, DecaysOverTheGivenStepsAndNeverInTheWarmUp) {
  ScheduleOptions options = {
      .kind = Kind::kWsd, .rate = 0.01, .warmup_steps = 20, .decay_steps = 9, .last_step = 100};
  expect_rates(options, {91, 92, 100}, {0.01, 0.009, 0.001});
  options.decay_steps = 1000;
  EXPECT_EQ(planned_decay(ready(options)).begin, 20u);
  EXPECT_EQ(planned_decay(ready(options)).steps, 80u);
  options.last_step = 20;
  EXPECT_FALSE(planned_decay(ready(options)).active());
}

TEST(Wsd, HasADefaultWarmUp) {
  expect_rates({.kind = Kind::kWsd, .rate = 0.004}, {1, 400, 401}, {1e-5, 0.004, 0.004});
}

TEST(Decay, LeadsFromTheCurveOfAnyKindToTheLowestRate) {
  for (const auto& given : a_range_of_schedules()) {
    const ScheduleOptions options = ready(given);
    for (uint64_t begin : {5, 30, 60}) {
      const Decay decay{begin, 9};
      const double from = learning_rate(options, begin);
      const double least = std::min(from, options.min_rate);
      EXPECT_EQ(learning_rate(options, begin, decay), from);
      EXPECT_NEAR(learning_rate(options, begin + 5, decay), (from + least) / 2, 1e-15);
      EXPECT_NEAR(learning_rate(options, begin + 9, decay), least + (from - least) / 10, 1e-15);
      EXPECT_EQ(learning_rate(options, begin + 10, decay), least);
      EXPECT_EQ(learning_rate(options, 3, decay), learning_rate(options, 3));
    }
  }
}

TEST(Decay, AfterAStallIsTheLastFifthUnlessItsLengthIsGiven) {
  EXPECT_EQ(stalled_decay({.kind = Kind::kWsd}, 400), 100u);
  EXPECT_EQ(stalled_decay({.kind = Kind::kWsd}, 3), 1u);
  EXPECT_EQ(stalled_decay({.kind = Kind::kWsd, .decay_steps = 7}, 400), 7u);
}

TEST(Decay, AfterAStallEndsByTheLastStepAndNotAfterThePlannedDecayHasBegun) {
  const ScheduleOptions options{.kind = Kind::kWsd, .decay_steps = 100, .last_step = 1000};
  EXPECT_EQ(stalled_decay(options, 899), 100u);
  EXPECT_EQ(stalled_decay(options, 900), 0u);
  const ScheduleOptions warm{.kind = Kind::kWsd, .warmup_steps = 1000, .last_step = 1000};
  EXPECT_EQ(stalled_decay(warm, 900), 100u);  // it has no planned decay
  EXPECT_EQ(stalled_decay(warm, 1000), 0u);
}

TEST(Decay, ThatIsPlannedIsTheSameWithItsLengthGiven) {
  const ScheduleOptions options{.kind = Kind::kWsd, .warmup_steps = 400, .last_step = 700};
  const ScheduleOptions given = with_planned_decay(options);
  EXPECT_EQ(given.decay_steps, 300);
  EXPECT_EQ(planned_decay(given).begin, planned_decay(options).begin);
  EXPECT_EQ(with_planned_decay({.kind = Kind::kWsd}).decay_steps, 0);
  EXPECT_EQ(with_planned_decay({.kind = Kind::kFixed, .last_step = 700}).decay_steps, 0);
}

TEST(Schedule, StartsDecayingAfterTheFirstStepWhenThereIsNoWarmUp) {
  expect_rates({.kind = Kind::kPolynomial, .rate = 0.01, .decay_steps = 10}, {1, 2, 10, 11},
               {0.01, 0.009, 0.001, 0.0});
}

TEST(Schedule, IsContinuousAtTheEndOfTheWarmUp) {
  for (const auto& given : a_range_of_schedules()) {
    const ScheduleOptions options = ready(given);
    const auto warmup = static_cast<uint64_t>(options.warmup_steps);
    if (warmup < 7) continue;
    const double peak = learning_rate(options, warmup);
    const double slope = peak / static_cast<double>(warmup);
    EXPECT_NEAR(learning_rate(options, warmup - 1), peak, slope * 1.0001) << named(options);
    if (options.kind == Kind::kPiecewise && options.boundaries[0] == options.warmup_steps) continue;
    EXPECT_NEAR(learning_rate(options, warmup + 1), peak, peak * 0.08) << named(options);
  }
}

TEST(Schedule, ReachesItsRateExactlyWhenTheWarmUpEnds) {
  for (const auto& given : a_range_of_schedules()) {
    if (given.kind == Kind::kNoam) continue;
    const ScheduleOptions options = ready(given);
    const auto at = static_cast<uint64_t>(std::max<int64_t>(options.warmup_steps, 1));
    EXPECT_EQ(learning_rate(options, at), 0.001) << named(options);
  }
}

TEST(Schedule, RisesOrFallsOnlyBetweenLandmarks) {
  constexpr uint64_t kSteps = 120;
  for (const auto& given : a_range_of_schedules()) {
    const ScheduleOptions options = ready(given);
    const std::vector<Landmark> marks = landmarks(options, kSteps);
    ASSERT_EQ(marks.front().step, 1u);
    ASSERT_EQ(marks.back().step, kSteps);
    for (size_t i = 1; i < marks.size(); ++i) {
      const double rise =
          learning_rate(options, marks[i].step) - learning_rate(options, marks[i - 1].step);
      for (uint64_t step = marks[i - 1].step + 1; step <= marks[i].step; ++step) {
        const double change = learning_rate(options, step) - learning_rate(options, step - 1);
        EXPECT_GE(change * (rise < 0 ? -1 : 1), -1e-17) << named(options) << " step " << step;
      }
    }
  }
}

TEST(Schedule, FindsThePeakAScanWouldFind) {
  for (const auto& given : a_range_of_schedules()) {
    const ScheduleOptions options = ready(given);
    for (uint64_t steps : {1, 5, 40, 41, 60, 120}) {
      uint64_t best = 1;
      for (uint64_t s = 1; s <= steps; ++s) {
        if (learning_rate(options, s) > learning_rate(options, best)) best = s;
      }
      EXPECT_EQ(peak_step(options, steps), best) << named(options) << " of " << steps;
    }
  }
  EXPECT_EQ(peak_step(ready({}), 50'000), 8000u);
  EXPECT_EQ(peak_step(ready({}), 500), 500u);
}

TEST(Schedule, NeverLeavesItsBounds) {
  for (const auto& given : a_range_of_schedules()) {
    const ScheduleOptions options = ready(given);
    const double peak = learning_rate(options, peak_step(options, 200));
    for (uint64_t step = 1; step <= 200; ++step) {
      const double rate = learning_rate(options, step);
      EXPECT_TRUE(rate >= 0 && rate <= peak) << named(options) << " step " << step;
    }
    EXPECT_TRUE(std::isfinite(learning_rate(options, uint64_t{1} << 40))) << named(options);
  }
}

TEST(Schedule, DescribesEachLandmark) {
  std::vector<std::string> found;
  const ScheduleOptions options =
      ready({.kind = Kind::kCosine, .warmup_steps = 10, .decay_steps = 20});
  for (const auto& mark : landmarks(options, 50)) {
    found.push_back(format("{} {}", mark.step, mark.what));
  }
  EXPECT_THAT(found,
              ElementsAre("1 first step", "10 warm-up ends", "30 decay ends", "50 last step"));
}

TEST(Schedule, DescribesTheDecayOfWsd) {
  std::vector<std::string> found;
  const ScheduleOptions options = ready({.kind = Kind::kWsd, .warmup_steps = 10, .last_step = 50});
  for (const auto& mark : landmarks(options, 50)) {
    found.push_back(format("{} {}", mark.step, mark.what));
  }
  EXPECT_THAT(found, ElementsAre("1 first step", "10 warm-up ends", "25 decay begins",
                                 "50 decay ends", "50 last step"));
}

TEST(Schedule, HasNoStepZero) { EXPECT_THROW(learning_rate(ready({}), 0), std::invalid_argument); }

TEST(CheckSchedule, NamesValueLimitAndFix) {
  EXPECT_EQ(refusal({.kind = Kind::kCosine}),
            "schedule.decay-steps is 0, but cosine needs at least 1; give the number of steps from "
            "the end of the warm-up to the lowest rate");
  EXPECT_EQ(refusal({.kind = Kind::kPiecewise, .boundaries = {5, 5}, .values = {3, 2, 1}}),
            "schedule.boundaries is 5, not above the 5 before it; list the steps in rising order");
}

TEST(CheckSchedule, RefusesSettingsThatMakeNoCurve) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const ScheduleOptions plain = {.kind = Kind::kExponential, .decay_steps = 10};
  check_schedule(plain);
  struct Bad {
    const char* key;
    std::function<void(ScheduleOptions&)> spoil;
  };
  const std::vector<Bad> cases = {
      {"rate", [](auto& o) { o.rate = 0; }},
      {"rate", [](auto& o) { o.rate = -0.1; }},
      {"rate", [&](auto& o) { o.rate = nan; }},
      {"rate", [&](auto& o) { o.rate = inf; }},
      {"warmup-steps", [](auto& o) { o.warmup_steps = -1; }},
      {"start-rate", [](auto& o) { o.start_rate = 0.0011; }},
      {"start-rate", [](auto& o) { o.start_rate = -0.1; }},
      {"min-rate", [](auto& o) { o.min_rate = 0.0011; }},
      {"min-rate", [&](auto& o) { o.min_rate = nan; }},
      {"decay-steps", [](auto& o) { o.decay_steps = 0; }},
      {"decay-steps", [](auto& o) { o.decay_steps = -5; }},
      {"decay-rate", [](auto& o) { o.decay_rate = 0; }},
      {"decay-rate", [](auto& o) { o.decay_rate = 1.01; }},
      {"power", [](auto& o) { o.kind = Kind::kPolynomial; }},
      {"power", [](auto& o) { o.kind = Kind::kInversePolynomial; }},
      {"width", [](auto& o) { o = {.warmup_steps = 10}; }},
      {"warmup-steps", [](auto& o) { o = {.width = 10}; }},
      {"factor", [](auto& o) { o = {.warmup_steps = 10, .factor = 0, .width = 10}; }},
      {"min-rate", [](auto& o) { o = {.warmup_steps = 10, .min_rate = 1, .width = 10}; }},
  };
  for (const auto& bad : cases) {
    ScheduleOptions options = plain;
    bad.spoil(options);
    EXPECT_THAT(refusal(options), HasSubstr(format("schedule.{} is ", bad.key)));
  }
}

TEST(CheckSchedule, RequiresBoundariesThatFitTheValues) {
  ScheduleOptions options = {.kind = Kind::kPiecewise};
  EXPECT_THAT(refusal(options), HasSubstr("schedule.values has 0 rates"));
  options.boundaries = {10, 20};
  options.values = {0.1, 0.2};
  EXPECT_THAT(refusal(options), AllOf(HasSubstr("2 rates"), HasSubstr("2 steps")));
  options.values = {0.1, 0.2, 0};
  EXPECT_THAT(refusal(options), HasSubstr("schedule.values is 0"));
  options.values = {0.1, 0.2, 0.3};
  options.boundaries = {20, 10};
  EXPECT_THAT(refusal(options), HasSubstr("schedule.boundaries is 10"));
  options.boundaries = {0, 10};
  EXPECT_THAT(refusal(options), HasSubstr("schedule.boundaries is 0"));
  options.boundaries = {10, 20};
  options.warmup_steps = 11;
  EXPECT_THAT(refusal(options), HasSubstr("step 11"));
  options.warmup_steps = 10;
  check_schedule(options);
}

TEST(ResolveSchedule, ReplacesZerosByTheDefaultsOfTheKind) {
  EXPECT_EQ(resolve_schedule({}, 256).warmup_steps, 8000);
  EXPECT_EQ(resolve_schedule({}, 256).width, 256);
  EXPECT_EQ(resolve_schedule({.warmup_steps = 7, .width = 64}, 256).warmup_steps, 7);
  EXPECT_EQ(resolve_schedule({.warmup_steps = 7, .width = 64}, 256).width, 64);
  EXPECT_EQ(resolve_schedule({.kind = Kind::kFixed}, 256).warmup_steps, 0);
  EXPECT_EQ(resolve_schedule({.kind = Kind::kPolynomial}, 256).power, 1);
  const ScheduleOptions inverse = {.kind = Kind::kInversePolynomial, .warmup_steps = 9};
  EXPECT_EQ(resolve_schedule(inverse, 256).power, 0.5);
  EXPECT_EQ(resolve_schedule(inverse, 256).decay_steps, 9);
  EXPECT_EQ(resolve_schedule({.kind = Kind::kInversePolynomial}, 256).decay_steps, 1);
}

TEST(ResolveSchedule, ChangesNothingTheSecondTime) {
  for (const auto& given : a_range_of_schedules()) {
    const ScheduleOptions once = resolve_schedule(given, 256);
    EXPECT_EQ(named(resolve_schedule(once, 1024)), named(once));
  }
}

TEST(ScheduleSection, TakesListsWithCommasAndAsYaml) {
  const ScheduleOptions words = parsed({"--schedule.kind", "piecewise", "--schedule.boundaries",
                                        "1_000,2000", "--schedule.values=1e-3, 5e-4,0.0001"});
  EXPECT_THAT(words.boundaries, ElementsAre(1000, 2000));
  EXPECT_THAT(words.values, ElementsAre(1e-3, 5e-4, 1e-4));
  for (const char* lists : {"boundaries: [1000, 2000]\n  values: [1e-3, 5e-4, 1e-4]\n",
                            "boundaries: 1000,2000\n  values: 1e-3, 5e-4, 1e-4\n"}) {
    ScheduleOptions yaml;
    Schema schema("try", "Tries things.");
    describe(schema, yaml);
    schema.parse_yaml(format("schedule:\n  kind: piecewise\n  {}", lists), "run.yaml");
    EXPECT_EQ(named(yaml), named(words));
  }
  EXPECT_THAT(parsed({"--schedule.values="}).values, IsEmpty());
}

TEST(ScheduleSection, NamesTheWrongItemOfAList) {
  for (const char* list : {"1000,x", "1000,", "1000,-5", "1000,1.5", "1000,9999999999"}) {
    try {
      parsed({"--schedule.boundaries", list});
      ADD_FAILURE() << list;
    } catch (const ConfigError& e) {
      EXPECT_THAT(e.what(), HasSubstr(format("--schedule.boundaries: '{}' cannot", list)));
      EXPECT_THAT(e.what(), HasSubstr("item 2 is '"));
    }
  }
  EXPECT_THROW(parsed({"--schedule.values", "nan"}), ConfigError);
  EXPECT_THROW(parsed({"--schedule.values", "0"}), ConfigError);
  EXPECT_THROW(parsed({"--schedule.kind", "linear"}), ConfigError);
}

TEST(ScheduleSection, ReportsSettingsThatTheKindIgnores) {
  EXPECT_THAT(ignored_settings({}), IsEmpty());
  EXPECT_THAT(ignored_settings(parsed({"--schedule.rate", "0.1", "--schedule.factor", "3"})),
              ElementsAre("schedule.rate"));
  EXPECT_THAT(ignored_settings({.kind = Kind::kFixed, .decay_steps = 3, .width = 9}),
              ElementsAre("schedule.decay-steps", "schedule.width"));
  EXPECT_THAT(ignored_settings({.kind = Kind::kPolynomial, .decay_steps = 3, .power = 2}),
              IsEmpty());
}

TEST(ScheduleSection, RecordsOnlySettingsThatTheKindUses) {
  EXPECT_EQ(one_line(schedule_json(ready({}))),
            R"({"kind":"noam","warmup-steps":8000,"min-rate":0.0,"factor":2.0,"width":512})");
  for (const auto& given : a_range_of_schedules()) {
    ScheduleOptions again;
    Schema schema("try", "Tries things.");
    describe(schema, again);
    schema.parse_yaml(pretty({{"schedule", schedule_json(ready(given))}}), "manifest.json");
    again.last_step = given.last_step;  // the run's
    for (uint64_t step : {1, 7, 39, 40, 41, 42, 70, 78, 500}) {
      EXPECT_EQ(learning_rate(again, step), learning_rate(ready(given), step)) << named(given);
    }
  }
}

}  // namespace
}  // namespace reigen
