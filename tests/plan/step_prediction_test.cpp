#include "plan/step_prediction.h"

#include <gtest/gtest.h>

namespace reigen {
namespace {

ParameterLayout ten_million() {
  ParameterLayout layout;
  for (int i = 0; i < 112; ++i) layout.add("m", 256, 256);
  layout.add("embedding", 8000, 256);  // complete only when backward ends
  return layout;
}

Measured on_a_link_of(double megabits) {
  Measured m;
  m.workers = 2;
  m.compute = {.forward = 0.3, .backward = 0.5, .optimizer = 0.05, .last_backward = 0.5};
  m.compress = {.powersgd_base = 1e-9, .powersgd_per_rank = 1e-10};
  m.link = {.latency = 2e-4, .bandwidth = megabits * 1e6 / 8};
  return m;
}

TEST(StepPrediction, TheBottleneckIsTheNetworkAt100MegabitsAndComputeAt10000) {
  const ParameterLayout layout = ten_million();
  const StepPrediction slow = predict_step(on_a_link_of(100), layout, {});
  EXPECT_GT(slow.seconds, 3);
  EXPECT_EQ(verdict(slow).cause, Cause::kNetwork);
  const StepPrediction fast = predict_step(on_a_link_of(10'000), layout, {});
  EXPECT_LT(fast.seconds, 1);
  EXPECT_EQ(verdict(fast).cause, Cause::kCompute);
}

TEST(StepPrediction, TheEmbeddingIsNotHiddenByBackward) {
  const Measured m = on_a_link_of(1000);
  const ParameterLayout layout = ten_million();
  for (const char* method : {"none", "bf16", "int8", "int4"}) {
    const StepPrediction f = predict_step(m, layout, parse_compress(method));
    const double share = 8000.0 * 256 / static_cast<double>(layout.elements());
    EXPECT_GT(f.exposed, share * f.communication) << method;
    EXPECT_LT(f.exposed, 1.5 * share * f.communication) << method;
  }
  // All right factors, and the left factors of the embedding.
  const StepPrediction f = predict_step(m, layout, parse_compress("powersgd:8"));
  const double late = 2 * 8 * (112 * 256 + 8000 + 256);
  EXPECT_NEAR(f.exposed, late / m.link.bandwidth, 15 * m.link.latency);
}

TEST(StepPrediction, TheLastBucketIsAlwaysExposed) {
  ParameterLayout layout;
  for (int i = 0; i < 128; ++i) layout.add("m", 256, 256);
  const Measured m = on_a_link_of(1000);
  const StepPrediction f = predict_step(m, layout, parse_compress("bf16"));
  EXPECT_NEAR(f.exposed, 2 * (1 << 19) / m.link.bandwidth, 3 * m.link.latency);
}

TEST(StepPrediction, EachMessageCostsOneLatency) {
  const ParameterLayout layout = ten_million();
  const Measured near = on_a_link_of(1000);
  Measured far = near;
  far.link.latency += 0.05;
  auto more = [&](const char* method) {
    const CompressSetting setting = parse_compress(method);
    return (predict_step(far, layout, setting).communication -
            predict_step(near, layout, setting).communication) /
           0.05;
  };
  // One more for the loss.
  EXPECT_NEAR(more("bf16"), 18 + 1, 1e-6);
  EXPECT_NEAR(more("powersgd:8"), 2 * 7 + 1, 1e-6);
  EXPECT_NEAR(more("topk:0.01"), 1 + 1, 1e-6);
}

TEST(StepPrediction, ChoosesTheMostExactSettingThatTheLinkAllows) {
  const ParameterLayout layout = ten_million();
  EXPECT_EQ(text_of(choose_setting(on_a_link_of(10'000), layout)), "none");
  EXPECT_EQ(text_of(choose_setting(on_a_link_of(500), layout)), "bf16");
  EXPECT_EQ(text_of(choose_setting(on_a_link_of(200), layout)), "int8");
  const CompressSetting slow = choose_setting(on_a_link_of(100), layout);
  EXPECT_EQ(text_of(slow), "int4");
  EXPECT_LE(predict_step(on_a_link_of(100), layout, slow).seconds, 1.15 * 0.85);
  // PowerSGD costs loss, so integers may take a little longer.
  EXPECT_EQ(text_of(choose_setting(on_a_link_of(70), layout)), "int4");
  EXPECT_GT(predict_step(on_a_link_of(70), layout, slow).seconds, 1.15 * 0.85);
  const CompressSetting slower = choose_setting(on_a_link_of(60), layout);
  const CompressSetting slowest = choose_setting(on_a_link_of(25), layout);
  EXPECT_EQ(slower.method, CompressMethod::kPowerSgd);
  EXPECT_EQ(slowest.method, CompressMethod::kPowerSgd);
  EXPECT_LT(slowest.rank, slower.rank);
}

TEST(StepPrediction, TheSlowestLinkGetsTheFastestSetting) {
  EXPECT_EQ(text_of(choose_setting(on_a_link_of(0.1), ten_million())), "powersgd:4");
}

TEST(StepPrediction, MoreWorkersComputeLessEachAndWaitLonger) {
  const ParameterLayout layout = ten_million();
  const Measured two = on_a_link_of(10'000);
  const Measured many = simulate(two, 64, 1.25e8, 0, false);
  EXPECT_NEAR(many.compute.forward, two.compute.forward / 32, 1e-9);
  EXPECT_EQ(many.compute.optimizer, two.compute.optimizer);
  const StepPrediction f = predict_step(many, layout, {});
  EXPECT_EQ(verdict(f).cause, Cause::kNetwork);
  EXPECT_GT(f.exposed, predict_step(two, layout, {}).exposed);
  EXPECT_EQ(simulate(two, 64, 0, 0, true).compute.forward, two.compute.forward);
}

TEST(StepPrediction, DirectExchangeBetweenGpusDoesNotUseTheHostLink) {
  const ParameterLayout layout = ten_million();
  Measured m = on_a_link_of(100);
  const double through_hosts = predict_step(m, layout, parse_compress("int4")).seconds;
  m.direct = {.latency = 2e-5, .bandwidth = 1e11};
  EXPECT_LT(predict_step(m, layout, {}).exposed, 1e-3);
  EXPECT_EQ(predict_step(m, layout, parse_compress("int4")).seconds, through_hosts);
  EXPECT_EQ(text_of(choose_setting(m, layout)), "none");
  m.direct->bandwidth = 1.25e7;
  EXPECT_EQ(text_of(choose_setting(m, layout)), "int4");
  m.only_direct = true;
  EXPECT_EQ(text_of(choose_setting(m, layout)), "bf16");
  // A simulated link replaces the one between GPUs.
  EXPECT_FALSE(simulate(m, 4, 1e9, 0, false).direct.has_value());
}

TEST(StepPrediction, WarmupUsesTheHostLink) {
  Measured m = on_a_link_of(100);
  const double slow = predict_step(m, ten_million(), parse_compress("int4")).seconds;
  m.direct = {.latency = 2e-5, .bandwidth = 1e11};
  EXPECT_EQ(predict_warmup_step(m, ten_million()).seconds, slow);
}

TEST(StepPrediction, ASmallGainDoesNotJustifyALessExactSetting) {
  ParameterLayout little;
  little.add("m", 64, 64);
  Measured m = on_a_link_of(10'000);
  m.compute = {.forward = 1e-3, .backward = 5e-4, .last_backward = 5e-4};
  EXPECT_EQ(text_of(choose_setting(m, little)),
            "none");  // compression does not shorten a latency of 0.2 ms
  m.link.latency = 5e-3;
  EXPECT_EQ(text_of(choose_setting(m, little)), "none");
  EXPECT_TRUE(verdict(predict_step(m, little, {})).latency_bound);
  EXPECT_FALSE(verdict(predict_step(on_a_link_of(100), ten_million(), {})).latency_bound);
}

TEST(StepPrediction, TheParameterAllGatherDoesNotCountAgainstASetting) {
  Measured m = on_a_link_of(100);
  m.gathers_parameters = true;
  EXPECT_EQ(text_of(choose_setting(m, ten_million())), "int4");
}

TEST(StepPrediction, HiddenCommunicationCostsComputeWhereNoCoreIsSpare) {
  Measured m = on_a_link_of(10'000);
  m.link.cpu = 1e-9;
  const double free = predict_step(m, ten_million(), {}).seconds;
  m.no_spare_core = true;
  const StepPrediction f = predict_step(m, ten_million(), {});
  const double hidden = 1 - f.exposed / f.communication;
  EXPECT_NEAR(f.seconds - free, 1e-9 * f.bytes * hidden, 1e-3);
  EXPECT_EQ(f.without_gradients, m.compute.all());
}

TEST(StepPrediction, TheUsualWorkerIsTheLowerMedian) {
  EXPECT_EQ(usual_seconds({}), 0);
  EXPECT_EQ(usual_seconds({2, 1}), 1);
  EXPECT_EQ(usual_seconds({3, 1, 2}), 2);
}

TEST(StepPrediction, OneWorkerDoesNotWait) {
  Measured one = on_a_link_of(100);
  one.workers = 1;
  EXPECT_EQ(predict_step(one, ten_million(), {}).exposed, 0);
}

}  // namespace
}  // namespace reigen
