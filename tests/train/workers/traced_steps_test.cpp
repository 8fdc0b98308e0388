// The trace of chosen steps, as one file of all ranks.
#include "train/workers/traced_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/terminal.h"
#include "dist/members/job_fixture.h"
#include "train/small_run.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;

class TracedStepsTest : public ::testing::Test {
 protected:
  TracedStepsTest() { set_quiet(true); }
  ~TracedStepsTest() override { set_quiet(false); }

  // Traces steps 1 to `last` of the run, and its end there.
  static void trace(TracedSteps& traced, RunWriter* to, uint64_t last) {
    for (uint64_t step = 1; step <= last; ++step) {
      traced.begin(step);
      traced.timeline().lap("input");
      traced.after(step, to);
    }
  }
  bool written(const std::string& name) const { return std::filesystem::exists(run.file(name)); }
  std::set<int> values_of(const std::string& name, const std::string& key) const {
    std::set<int> values;
    const Json trace = read_json(run.file(name));
    for (const Json& event : trace.at("traceEvents")) {
      if (event.at("ph") != "X") continue;
      values.insert((key == "step" ? event.at("args") : event).at(key).get<int>());
    }
    return values;
  }

  SmallRun small;
  RunDirectory run{small.options.run};
  RunWriter writer{run, small.options, small.data, small.model};
  Job alone;
};

TEST_F(TracedStepsTest, AreWrittenOnceAfterTheLastOfThem) {
  EXPECT_EQ(TracedSteps::of(alone, ""), nullptr);
  const std::unique_ptr<TracedSteps> traced = TracedSteps::of(alone, "2:3");
  trace(*traced, &writer, 2);
  EXPECT_FALSE(written("timeline-2-3.json"));
  traced->begin(3);
  traced->timeline().lap("input");
  traced->after(3, &writer);
  EXPECT_THAT(values_of("timeline-2-3.json", "step"), ElementsAre(2, 3));
  std::filesystem::remove(run.file("timeline-2-3.json"));
  traced->after(3, &writer, true);
  EXPECT_FALSE(written("timeline-2-3.json"));
}

TEST_F(TracedStepsTest, OfARunThatEndsEarlyAreThoseItHas) {
  TracedSteps traced(alone, 2, 5);
  trace(traced, &writer, 3);
  traced.after(3, &writer, true);
  EXPECT_THAT(values_of("timeline-2-5.json", "step"), ElementsAre(2, 3));
  TracedSteps none(alone, 7, 9);
  trace(none, &writer, 3);
  none.after(3, &writer, true);
  EXPECT_FALSE(written("timeline-7-9.json"));
}

TEST_F(TracedStepsTest, OfSeveralRanksAreInOneFile) {
  with_job(2, [&](Job& job) {
    TracedSteps traced(job, 1, 2);
    trace(traced, job.first() ? &writer : nullptr, 2);
  });
  EXPECT_THAT(values_of("timeline-1-2.json", "pid"), ElementsAre(0, 1));
  EXPECT_EQ(
      read_json(run.file("timeline-1-2.json")).at("otherData").at("clock_error_seconds").size(),
      2u);
}

}  // namespace
}  // namespace reigen
