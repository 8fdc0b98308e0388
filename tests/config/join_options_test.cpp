#include "config/join_options.h"

#include <gtest/gtest.h>

#include "config/yaml.h"

namespace reigen {
namespace {

TEST(JoinOptions, AreThoseOfTheJobExceptForWhatBelongsToTheMachine) {
  TrainOptions job;
  job.data = "/job/data";
  job.max_steps = 77;
  job.threads = 3;
  job.device.device = "cuda:1";
  job.workers.silence = 4;
  job.workers.interface = "eth1";
  job.workers.encrypt = Encrypt::kOff;
  const std::string text = to_yaml(recorded_options(job));

  TrainOptions own;
  own.threads = 2;
  own.device.device = "cpu";
  own.on_event = "notify";
  const TrainOptions joined = options_of_joiner(text, own);
  EXPECT_EQ(joined.data, "/job/data");
  EXPECT_EQ(joined.max_steps, 77);
  EXPECT_EQ(joined.workers.silence, 4);
  EXPECT_TRUE(joined.workers.elastic);
  EXPECT_EQ(joined.threads, 2);
  EXPECT_EQ(joined.device.device, "cpu");
  EXPECT_EQ(joined.workers.interface, "");
  EXPECT_EQ(joined.workers.encrypt, Encrypt::kAuto);
  EXPECT_EQ(joined.on_event, "notify");

  own.data = "/own/data";
  EXPECT_EQ(options_of_joiner(text, own).data, "/own/data");
}

}  // namespace
}  // namespace reigen
