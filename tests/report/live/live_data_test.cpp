// The content of the live page for sample runs.
#include "report/live/live_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "observe/record/measurement_log.h"
#include "observe/record/sample_records.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using ::testing::HasSubstr;

SampleRecord sample_of(const std::string& host, uint64_t step, size_t gpus) {
  SampleRecord sample{.step = step, .time = 1000, .seconds = 1, .host = host};
  sample.cores = {50, 100};
  sample.memory_total = 100;
  sample.memory_used = 25;
  sample.interfaces = {{"lo", 1, 2, 0, false}, {"eth0", 5e6, 1e6, 12'500'000, true}};
  for (size_t i = 0; i < gpus; ++i) {
    sample.gpus.push_back({"GPU", 90.0 + static_cast<double>(i), 10, 20, 300, 1500});
  }
  return sample;
}

void write_rank(const TempDir& run, int rank, const std::string& host, size_t gpus) {
  MeasurementLog log(run.path(), rank, 0);
  if (rank == 0) log.append(sample_start(0, 1));
  for (uint64_t step = 1; step <= 30; ++step) {
    if (rank == 0) {
      log.append(sample_step(step));
    } else {
      log.append(
          SpansRecord{.step = step, .steps = 1, .seconds = 0.1, .spans = {{"forward", 0.1}}});
    }
    log.append(sample_of(host, step, gpus));
  }
  if (rank == 0) log.append(sample_evaluation(30));
}

Json shown(const TempDir& run) {
  RunReader reader(run.path());
  reader.refresh();
  return live_data(run.path(), reader, 1e9);
}

std::set<std::string> charts_in(const Json& json) {
  std::set<std::string> ids;
  for (const Json& chart : json["charts"]) ids.insert(chart["id"].get<std::string>());
  return ids;
}

const Json& chart(const Json& json, const std::string& id) {
  for (const Json& chart : json["charts"]) {
    if (chart["id"] == id) return chart;
  }
  throw std::runtime_error("no chart " + id);
}

TEST(LiveData, EveryChartHasSeriesAndASummary) {
  TempDir run;
  write_rank(run, 0, "a", 1);
  write_rank(run, 1, "b", 1);
  const Json json = shown(run);
  EXPECT_EQ(charts_in(json),
            (std::set<std::string>{"loss", "bleu", "loss-directions", "bleu-directions",
                                   "metric-COMET", "metric-ter-neg", "rate", "throughput", "split",
                                   "network-out", "network-in", "gpu", "cpu"}));
  EXPECT_EQ(chart(json, "loss-directions")["series"].size(), 2u);
  EXPECT_EQ(chart(json, "bleu-directions")["series"].size(), 1u);
  bool shown_fact = false;
  for (const Json& fact : json["facts"]) {
    shown_fact |= fact.at("name") == "en-de" && fact.at("value") == "BLEU 30.50";
  }
  EXPECT_TRUE(shown_fact);
  for (const Json& chart : json["charts"]) {
    EXPECT_FALSE(chart["series"].empty()) << chart["id"];
    EXPECT_THAT(chart["summary"].get<std::string>(), HasSubstr("from ")) << chart["id"];
  }
  EXPECT_EQ(chart(json, "loss")["series"][0]["points"].size(), 30u);
  EXPECT_EQ(chart(json, "network-in")["series"].size(), 2u);
  EXPECT_DOUBLE_EQ(chart(json, "network-in")["series"][0]["points"][3][1].get<double>(), 5);
  EXPECT_EQ(json["verdicts"].size(), 4u);
  EXPECT_EQ(json["ranks"].size(), 2u);
  EXPECT_EQ(json["samples"].size(), sample_evaluation(30).samples.size());
}

TEST(LiveData, AnElasticJobHasARowForEachPresentWorker) {
  TempDir run;
  write_rank(run, 0, "a", 0);
  write_rank(run, 2, "c", 0);
  {
    MeasurementLog log(run.path(), 0, 30);
    MembershipChangeRecord change{
        .step = 1'030, .workers = 2, .members = {{2, "c"}, {1, "b"}, {7, "d"}}};
    change.lost = {{.worker = 0, .host = "a", .why = "its connection closed"}};
    change.joined = {{.worker = 7, .host = "d"}};
    log.append(change);
  }
  const Json json = shown(run);
  EXPECT_TRUE(json["ranks"].empty());
  EXPECT_EQ(json["workers"],
            Json::parse(R"x([["2", "0 (writes the run)", "c", "1", "100.0", "100.0", "0.0", "0.00",
                             "0.00"],
                            ["1", "1", "b", "1", "", "", "", "", ""],
                            ["7", "2", "d", "1,031", "", "", "", "", ""]])x"));
  EXPECT_EQ(json["worker_changes"], Json::parse(R"x([["1,030", "7", "d", "joined", ""],
                            ["1,030", "0", "a", "lost", "its connection closed"]])x"));
}

TEST(LiveData, ADecayDecidesTheLastStep) {
  const TempDir run;
  {
    MeasurementLog log(run.path(), 0, 0);
    log.append(sample_start(0, 1));
    for (uint64_t step = 1; step <= 30; ++step) log.append(sample_step(step));
    log.append(DecayRecord{.step = 30, .steps = 70});
  }
  const Json facts = shown(run)["facts"];
  ASSERT_EQ(facts.at(0).at("name"), "step");
  EXPECT_EQ(facts.at(0).at("detail"), "of 100");
}

TEST(LiveData, ACancelledDecayDecidesNothing) {
  const TempDir run;
  {
    MeasurementLog log(run.path(), 0, 0);
    log.append(sample_start(0, 1));
    for (uint64_t step = 1; step <= 30; ++step) log.append(sample_step(step));
    log.append(DecayRecord{.step = 25, .steps = 70});
    log.append(DecayRecord{.step = 30});
  }
  EXPECT_EQ(shown(run)["facts"].at(0).at("detail"), "no limit");
}

TEST(LiveData, AHostWithoutNvmlHasNoGpuChart) {
  TempDir run;
  write_rank(run, 0, "a", 0);
  const Json json = shown(run);
  EXPECT_FALSE(charts_in(json).contains("gpu"));
  EXPECT_FALSE(charts_in(json).contains("network-out"));  // one worker
  EXPECT_TRUE(json["hosts"][0]["gpus"].empty());
}

TEST(LiveData, AHostRowShowsTheLastSample) {
  TempDir run;
  write_rank(run, 0, "a", 1);
  write_rank(run, 1, "b", 4);
  const Json json = shown(run);
  const Json& host = json["hosts"][0];
  EXPECT_EQ(host["host"], "a");
  EXPECT_DOUBLE_EQ(host["cpu"]["share"].get<double>(), 0.75);
  EXPECT_DOUBLE_EQ(host["memory"]["share"].get<double>(), 0.25);
  ASSERT_EQ(host["network"].size(), 1u);  // lo carries nothing of the job
  EXPECT_DOUBLE_EQ(host["network"][0]["share"].get<double>(), 0.4);
  EXPECT_THAT(json["hosts"][1]["gpus"][0]["text"].get<std::string>(),
              HasSubstr("4 GPUs: 92% (90 to 93)"));
}

TEST(LiveData, ManyHostsAreShownAsMeanAndRange) {
  TempDir run;
  for (int rank = 0; rank < 9; ++rank) write_rank(run, rank, "host" + std::to_string(rank), 0);
  const Json json = shown(run);
  const Json& cores = chart(json, "cpu");
  ASSERT_EQ(cores["series"].size(), 3u);
  EXPECT_EQ(cores["series"][0]["name"], "mean of 9 hosts");
  EXPECT_EQ(cores["series"][0]["points"].size(), 30u);
  EXPECT_EQ(json["hosts"].size(), 9u);
}

TEST(LiveData, SizeDoesNotGrowWithTheRun) {
  TempDir run;
  {
    MeasurementLog log(run.path(), 0, 0);
    log.append(sample_start(0, 1));
    for (uint64_t step = 1; step <= 5000; ++step) log.append(sample_step(step));
  }
  const Json json = shown(run);
  EXPECT_LE(chart(json, "loss")["series"][0]["points"].size(), 512u);
  EXPECT_EQ(chart(json, "loss")["series"][0]["points"].back()[0].get<double>() >= 4999, true);
}

TEST(LiveData, NotesNameTheLastChangesOfTheWorkers) {
  TempDir run;
  {
    MeasurementLog log(run.path(), 0, 0);
    log.append(StartRecord{});
    log.append(sample_step(1));
    for (uint64_t step = 1; step <= 7; ++step) log.append(sample_membership(step));
  }
  const Json json = shown(run);
  ASSERT_EQ(json["notes"].size(), 5u) << json["notes"];
  EXPECT_THAT(json["notes"][4].get<std::string>(), HasSubstr("after step 7: worker 1 (vm1)"));
  EXPECT_THAT(json["notes"][4].get<std::string>(), HasSubstr("worker 6 (vm4) left"));
  EXPECT_THAT(json["notes"][4].get<std::string>(), HasSubstr("worker 5 (vm3) joined"));
  EXPECT_THAT(json["notes"][4].get<std::string>(), HasSubstr("3 workers"));
}

TEST(LiveData, NotesNameDamageAndClockJumps) {
  TempDir run;
  {
    MeasurementLog log(run.path(), 0, 0);
    log.append(sample_start(0, 1));
    StepRecord step = sample_step(1);
    step.time = 5000;
    log.append(step);
    log.append_lines("{\"kind\": garbage\n");
    step = sample_step(2);
    step.time = 1000;  // set back by more than an hour
    log.append(step);
  }
  const Json json = shown(run);
  ASSERT_EQ(json["notes"].size(), 3u) << json["notes"];
  EXPECT_THAT(json["notes"][0].get<std::string>(), HasSubstr("left out: 1"));
  EXPECT_THAT(json["notes"][1].get<std::string>(), HasSubstr("the system clock was set"));
  EXPECT_THAT(json["notes"][2].get<std::string>(), HasSubstr("repeated after a resume: 12"));
  EXPECT_EQ(chart(json, "loss")["series"][0]["points"].size(), 2u);
}

}  // namespace
}  // namespace reigen
