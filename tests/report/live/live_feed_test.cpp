// The live page's reader, from before the first record on.
#include "report/live/live_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/json/json.h"
#include "observe/record/measurement_log.h"
#include "observe/record/sample_records.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

std::string step_shown(LiveFeed& feed) {
  const Json json = Json::parse(feed.json());
  return json["facts"].empty() ? "" : json["facts"][0]["value"].get<std::string>();
}

// The content may be a second old.
std::string step_after(LiveFeed& feed, const std::string& before) {
  std::string step = before;
  for (int i = 0; i < 100 && step == before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    step = step_shown(feed);
  }
  return step;
}

TEST(LiveFeed, ARunIsFollowedFromBeforeItsFirstRecord) {
  TempDir run;
  LiveFeed feed(run.path(), true);
  EXPECT_EQ(Json::parse(feed.json())["state"]["kind"], "starting");
  MeasurementLog log(run.path(), 0, 0);
  log.append(sample_start(0, 1));
  log.append(sample_step(1));
  EXPECT_EQ(step_after(feed, ""), "1");
  log.append(sample_step(2));
  EXPECT_EQ(step_after(feed, "1"), "2");
}

TEST(LiveFeed, ConcurrentRequestsGetTheSameAnswer) {
  TempDir run;
  MeasurementLog log(run.path(), 0, 0);
  log.append(sample_start(0, 1));
  for (uint64_t step = 1; step <= 100; ++step) log.append(sample_step(step));
  LiveFeed feed(run.path(), false);
  std::vector<std::thread> readers;
  std::atomic<int> right = 0;
  for (int i = 0; i < 6; ++i) {
    readers.emplace_back([&] { right += step_shown(feed) == "100" ? 1 : 0; });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(right, 6);
}

TEST(LiveFeed, VisitRunSeesTheCurrentRun) {
  TempDir run;
  MeasurementLog log(run.path(), 0, 0);
  LiveFeed feed(run.path(), false);
  for (uint64_t step = 1; step <= 3; ++step) {
    log.append(sample_step(step));
    feed.visit_run([&](const RunReader& reader) {
      EXPECT_EQ(reader.run().steps.total("steps"), static_cast<double>(step));
    });
  }
}

}  // namespace
}  // namespace reigen
