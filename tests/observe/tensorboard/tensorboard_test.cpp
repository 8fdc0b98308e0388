// Events of a run. With REIGEN_KEEP_EVENTS=DIR a run of three attempts is written to
// DIR/tensorboard, for a look with the real TensorBoard.
#include "observe/tensorboard/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "observe/record/sample_records.h"
#include "observe/tensorboard/events_in.h"
#include "observe/tensorboard/hparams.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

using Series = std::map<std::string, std::vector<std::pair<int64_t, float>>>;

// The series of each tag, over all files of the folder in the order of their names.
Series scalars_in(const std::string& directory) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(directory)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  Series series;
  for (const std::string& path : paths) {
    for (const ReadEvent& read : events_in(path)) {
      for (const ReadValue& value : read.values) {
        if (value.tensor) continue;
        series[value.tag].emplace_back(read.step, value.simple_value.value());
      }
    }
  }
  return series;
}

TEST(TensorBoard, ShowsTheFirstStepAndEveryNth) {
  TempDir run;
  TensorBoard board(run.path(), 1, 0, 4);
  for (uint64_t step = 1; step <= 9; ++step) board.add(sample_step(step));
  const Series series = scalars_in(run.path("tensorboard"));
  std::vector<int64_t> steps;
  for (const auto& [step, value] : series.at("train/loss")) steps.push_back(step);
  EXPECT_THAT(steps, ElementsAre(1, 4, 8));
}

TEST(TensorBoard, ShowsTheNumbersOfAStep) {
  TempDir run;
  TensorBoard board(run.path(), 1, 0, 1);
  const StepRecord step = sample_step(3);
  board.add(step);
  const Series series = scalars_in(run.path("tensorboard"));
  std::map<std::string, float> shown;
  for (const auto& [tag, points] : series) {
    ASSERT_EQ(points.size(), 1u);
    EXPECT_EQ(points[0].first, 3);
    shown[tag] = points[0].second;
  }
  EXPECT_THAT(
      shown,
      UnorderedElementsAre(
          std::pair("train/loss", static_cast<float>(step.loss)),
          std::pair("train/nll", static_cast<float>(step.nll)),
          std::pair("train/learning_rate", static_cast<float>(step.rate)),
          std::pair("train/gradient_norm", static_cast<float>(step.norm)),
          std::pair("train/tokens_per_second", 50'006.0f), std::pair("step seconds/input", 0.001f),
          std::pair("step seconds/forward", 0.2f), std::pair("step seconds/backward", 0.25f),
          std::pair("step seconds/optimizer", 0.04f), std::pair("train/step_seconds", 0.5f),
          std::pair("train/epoch", 0.375f)));
  EXPECT_EQ(events_in(board.path()).at(1).wall_time, step.time);
}

TEST(TensorBoard, ShowsEveryEvaluation) {
  TempDir run;
  TensorBoard board(run.path(), 1, 0, 100);
  board.add(sample_evaluation(7));
  EvaluationRecord undecoded = sample_evaluation(8);
  undecoded.bleu.reset();
  undecoded.chrf.reset();
  undecoded.samples.clear();
  board.add(undecoded);
  const Series series = scalars_in(run.path("tensorboard"));
  using Points = std::vector<std::pair<int64_t, float>>;
  EXPECT_EQ(series.at("eval/loss"), (Points{{7, 1.75f}, {8, 1.75f}}));
  EXPECT_EQ(series.at("eval/perplexity").size(), 2u);
  EXPECT_EQ(series.at("eval/BLEU"), (Points{{7, 27.25f}}));
  EXPECT_EQ(series.at("eval/chrF"), (Points{{7, 55.5f}}));
  EXPECT_EQ(series.at("eval/loss/en-fr"), (Points{{7, 2.25f}, {8, 2.25f}}));
  EXPECT_EQ(series.at("eval/BLEU/en-de").at(0), (Points{{7, 30.5f}}).at(0));
  EXPECT_FALSE(series.contains("eval/BLEU/en-fr"));
  const std::vector<ReadEvent> events = events_in(board.path());
  ASSERT_EQ(events.size(), 4u);  // version, scalars, samples, scalars
  const ReadValue& samples = events[2].values.at(0);
  EXPECT_EQ(samples.tag, "eval/samples");
  EXPECT_EQ(samples.tensor.value().strings.at(0), markdown_table(sample_evaluation(7).samples));
}

TEST(TensorBoard, ShowsLossScaleAndNetworkWhenTheyAreMeasured) {
  TempDir run;
  TensorBoard board(run.path(), 1, 0, 1);
  StepRecord step = sample_step(3);
  step.loss_scale = 1024;
  step.communication = CommunicationTimes{.sent = 6'000'000};
  board.add(step);
  const Series series = scalars_in(run.path("tensorboard"));
  EXPECT_EQ(series.at("train/loss_scale").at(0).second, 1024.0f);
  EXPECT_EQ(series.at("network/sent_MB_per_second").at(0).second, 12.0f);
}

TEST(TensorBoard, ShowsTheHostOfARank) {
  TempDir run;
  TensorBoard board(run.path(), 1, 0, 1);
  board.add_sample(4, sample_machine(20));
  const Series series = scalars_in(run.path("tensorboard"));
  using Points = std::vector<std::pair<int64_t, float>>;
  EXPECT_EQ(series.at("machine of rank 4/network_out_MB_per_second"), (Points{{20, 11.7f}}));
  EXPECT_EQ(series.at("machine of rank 4/network_in_MB_per_second"), (Points{{20, 11.8f}}));
  EXPECT_EQ(series.at("machine of rank 4/gpu0_percent_as_NVML_says"), (Points{{20, 100.0f}}));
  EXPECT_EQ(series.at("machine of rank 4/gpu0_watts"), (Points{{20, 640.0f}}));
  EXPECT_NEAR(series.at("machine of rank 4/cores_percent").at(0).second, 100.0 / 3, 1e-4);
}

TEST(TensorBoard, ShowsTheConfigurationAndHowTheSessionEnded) {
  TempDir run;
  TensorBoard board(run.path(), 1, 0, 1);
  board.begin({{"preset", "tiny"}}, "preset: tiny\nseed: 1\n", 0, 5);
  board.add(sample_end(9));
  const std::vector<ReadEvent> events = events_in(board.path());
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[1].values.at(0).tag, "config");
  EXPECT_THAT(events[1].values[0].tensor.value().strings.at(0),
              testing::HasSubstr("    preset: tiny\n    seed: 1\n"));
  const std::vector<std::string> tags = {kExperimentTag, kSessionStartTag, kSessionEndTag};
  for (size_t i = 0; i < 3; ++i) {
    const ReadValue& value = events[2 + i].values.at(0);
    EXPECT_EQ(value.tag, tags[i]);
    EXPECT_EQ(value.metadata.value().plugin_name, "hparams");
    EXPECT_FALSE(value.metadata->content.empty());
  }
  EXPECT_EQ(events[4].values[0].metadata->content, session_end_bytes(true, sample_end(9).time));
}

TEST(TensorBoard, ShowsNothingOfOtherRecords) {
  TempDir run;
  TensorBoard board(run.path(), 1, 0, 1);
  board.add(sample_start(0, 1));
  board.add(sample_checkpoint(5));
  EXPECT_EQ(events_in(board.path()).size(), 1u);
}

TEST(TensorBoard, ShowsALossOfNaN) {
  TempDir run;
  TensorBoard board(run.path(), 1, 0, 1);
  StepRecord step = sample_step(1);
  step.loss = std::numeric_limits<double>::quiet_NaN();
  step.seconds = 0;  // and no rate from a step that took no time
  board.add(step);
  const Series series = scalars_in(run.path("tensorboard"));
  EXPECT_TRUE(std::isnan(series.at("train/loss").at(0).second));
  EXPECT_EQ(series.count("train/tokens_per_second"), 0u);
}

TEST(TensorBoard, RejectsAnIntervalOfZero) {
  TempDir run;
  EXPECT_THROW(TensorBoard(run.path(), 1, 0, 0), ConfigError);
}

TEST(MarkdownTable, EscapesMarkup) {
  const std::string table =
      markdown_table({{"a | b", "<b> & *c*", "one\ntwo\tthree _ ` [ ] \\ größer"}});
  EXPECT_EQ(table,
            "| source | reference | hypothesis |\n"
            "| --- | --- | --- |\n"
            "| a &#124; b | &#60;b&#62; &#38; &#42;c&#42; "
            "| one two three &#95; &#96; &#91; &#93; &#92; größer |\n");
}

TEST(TensorBoard, ShowsEachStepOnceOverThreeAttempts) {
  TempDir temporary;
  const char* keep = std::getenv("REIGEN_KEEP_EVENTS");
  const std::string run = keep != nullptr ? keep : temporary.path();
  fs::remove_all(run + "/tensorboard");
  // Checkpoints and evaluations every 10 steps; two attempts are lost some steps after one.
  uint64_t attempt = 0;
  for (const auto& [after, until] :
       std::vector<std::pair<uint64_t, uint64_t>>{{0, 28}, {20, 57}, {50, 100}}) {
    TensorBoard board(run, ++attempt, after, 1);
    for (uint64_t step = after + 1; step <= until; ++step) {
      board.add(sample_step(step));
      if (step % 10 == 0) board.add(sample_evaluation(step));
    }
    ASSERT_TRUE(board.flush());
  }
  const Series series = scalars_in(run + "/tensorboard");
  ASSERT_EQ(series.at("train/loss").size(), 100u);
  for (int64_t step = 1; step <= 100; ++step) {
    EXPECT_EQ(series.at("train/loss")[step - 1].first, step);
  }
  ASSERT_EQ(series.at("eval/BLEU").size(), 10u);
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(series.at("eval/BLEU")[i].first, 10 * (i + 1));
}

}  // namespace
}  // namespace reigen
