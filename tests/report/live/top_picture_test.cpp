// The screen of `reigen top`: content and width.
#include "report/live/top_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/terminal.h"
#include "observe/record/sample_records.h"

namespace reigen {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

RunSummary busy_run() {
  RunSummary run;
  StartRecord start = sample_start(0, 1);
  start.host = "elsewhere";
  start.time = 1000;
  run.add(0, start);
  for (uint64_t step = 1; step <= 20; ++step) {
    StepRecord record = sample_step(step);
    record.time = 1000;
    run.add(0, record);
    run.add(1, SpansRecord{.step = step,
                           .time = 1000,
                           .steps = 1,
                           .seconds = 0.5,
                           .spans = {{"forward", 0.375}, {"communication", 0.125}},
                           .communication = {.sent = 2'000'000}});
  }
  run.add(0, sample_evaluation(20));
  SampleRecord sample{.step = 20, .time = 1000, .seconds = 1, .host = "knöterich"};
  sample.cores = {100, 50};
  sample.memory_used = 1'000'000'000;
  sample.memory_total = 4'000'000'000;
  sample.interfaces = {{"lo", 5, 5, 0, false}, {"eth0", 6'250'000, 1000, 12'500'000, true}};
  sample.gpus = {{"GPU", 25, 10, 20, 300, 1500}};
  run.add(0, sample);
  return run;
}

TEST(TopPicture, ShowsProgressRanksAndBars) {
  const auto lines = top_picture("run", busy_run(), 1002, 100);
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("running"), HasSubstr("ago"))));
  EXPECT_THAT(lines,
              Contains(AllOf(HasSubstr("step 20 "), HasSubstr("tokens/s"), HasSubstr("loss"))));
  EXPECT_THAT(lines, Contains(HasSubstr("BLEU 27.25")));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("500.0"), HasSubstr("375.0"), HasSubstr("125.0"),
                                    HasSubstr("2.00"))));
  EXPECT_THAT(lines, Contains(HasSubstr("cores   [###################      ]  75% of 2")));
  EXPECT_THAT(lines, Contains(HasSubstr("eth0    [#############            ] 6.25 MB/s in")));
  EXPECT_THAT(lines, Contains(HasSubstr("gpu 0   [######                   ]  25%")));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("lo  "))));
}

TEST(TopPicture, ShowsThePresentWorkersOfAnElasticJob) {
  RunSummary run = busy_run();
  run.add(2, SpansRecord{.step = 9, .time = 1000, .steps = 1, .seconds = 0.7});
  run.add(0, MembershipChangeRecord{.step = 9, .time = 1000, .members = {{1, "a"}, {0, "b"}}});
  const auto lines = top_picture("run", run, 1002, 100);
  EXPECT_THAT(lines, Contains(HasSubstr("worker  ms/step")));
  EXPECT_THAT(lines, Contains(HasSubstr("500.0")));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("700.0"))));
}

TEST(TopPicture, NoLineIsWiderThanTheTerminal) {
  const RunSummary run = busy_run();
  for (size_t width = 1; width <= 200; ++width) {
    for (const std::string& line : top_picture("a run with a name", run, 1002, width)) {
      EXPECT_LE(display_width(line), width) << line;
    }
  }
}

TEST(TopPicture, ANarrowTerminalShowsAllFiguresOfARank) {
  const auto lines = top_picture("run", busy_run(), 1002, 40);
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("500.0"), HasSubstr("375.0"), HasSubstr("125.0"))));
  EXPECT_THAT(lines, Contains(HasSubstr("6.25 MB/s in")));
  EXPECT_THAT(lines, Contains(HasSubstr("tokens/s")));
}

TEST(TopPicture, ARunWithoutAStepHasOneLine) {
  EXPECT_THAT(top_picture("run", RunSummary(), 0, 80), Contains(HasSubstr("no step finished yet")));
}

}  // namespace
}  // namespace reigen
