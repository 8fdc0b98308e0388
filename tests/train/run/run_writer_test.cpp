// The files of a run as rank 0 writes them.
#include "train/run/run_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/file/files.h"
#include "base/terminal.h"
#include "config/yaml.h"
#include "support/full_disk.h"
#include "train/small_run.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;

class RunWriterTest : public ::testing::Test {
 protected:
  RunWriterTest() { set_quiet(true); }
  ~RunWriterTest() override { set_quiet(false); }

  RunWriter writer() { return {run, small.options, small.data, small.model}; }

  SmallRun small;
  RunDirectory run{small.options.run};
  Counters counters;
};

TEST_F(RunWriterTest, RecordsOptionsAndDataAndCountsAttempts) {
  {
    RunWriter first = writer();
    first.open(counters);
    EXPECT_EQ(counters.attempt, 1u);
    first.announce({.device_kind = "cpu", .threads = 3});
    first.finish(0, "max-steps", 2.5);
  }
  EXPECT_EQ(read_file(run.file("config.yaml")), to_yaml(recorded_options(small.options)));
  EXPECT_EQ(read_file(run.file("measurements/manifest.json")),
            read_file(small.options.data + "/manifest.json"));
  const Json start = log_records(run.path(), "start").at(0);
  EXPECT_EQ(start.at("device_kind"), "cpu");
  EXPECT_EQ(start.at("threads"), 3);
  EXPECT_EQ(log_records(run.path(), "end").at(0).at("reason"), "max-steps");
  EXPECT_TRUE(std::filesystem::exists(run.file("report.json")));
  RunWriter second = writer();
  second.open(counters);
  EXPECT_EQ(counters.attempt, 2u);
}

TEST_F(RunWriterTest, WritesAFileOnlyWhenItsTextChanges) {
  RunWriter writes = writer();
  writes.write_file("notes.json", "one");
  EXPECT_EQ(read_file(run.file("notes.json")), "one");
  std::filesystem::remove(run.file("notes.json"));
  writes.write_file("notes.json", "one");
  EXPECT_FALSE(std::filesystem::exists(run.file("notes.json")));
  writes.write_file("notes.json", "two");
  EXPECT_EQ(read_file(run.file("notes.json")), "two");
}

TEST_F(RunWriterTest, ACheckpointHasTheScoresOfItsOwnStepOnly) {
  RunWriter writes = writer();
  writes.open(counters);
  writes.announce({});
  const std::string none = writes.how_to_resume();
  writes.evaluation({.step = 5, .nll = 2.5, .perplexity = 12.25, .bleu = 30.5});
  writes.save(small.state(5), nullptr, {});
  writes.save(small.state(6), nullptr, {});
  writes.finish(6, "max-steps", 1);
  EXPECT_EQ(read_checkpoint_facts(run.checkpoint(5)).scores,
            (Json{{"nll", 2.5}, {"perplexity", 12.25}, {"bleu", 30.5}}));
  EXPECT_EQ(read_checkpoint_facts(run.checkpoint(6)).scores, Json::object());
  EXPECT_THAT(log_steps(run.path(), "checkpoint"), ElementsAre(5, 6));
  EXPECT_EQ(run.linked("last"), 6u);
  EXPECT_NE(writes.how_to_resume(), none);
}

TEST_F(RunWriterTest, ARunWhoseLastCheckpointIsNotWrittenEndsInAnError) {
  small.options.checkpoint.wait = 0;
  RunWriter writes = writer();
  writes.open(counters);
  writes.announce({});
  writes.save(small.state(1), nullptr, {});
  while (run.linked("last") != 1u) std::this_thread::yield();  // it is written on a thread
  {
    FullDisk full(2000);
    writes.save(small.state(2), nullptr, {});
    EXPECT_THROW(writes.finish(2, "max-steps", 1), IoError);
  }
  EXPECT_THAT(run.checkpoints(), ElementsAre(1));
  EXPECT_EQ(run.linked("last"), 1u);
}

}  // namespace
}  // namespace reigen
