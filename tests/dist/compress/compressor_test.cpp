#include "dist/compress/compressor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <random>

#include "dist/compress/outer_step.h"
#include "dist/group/group_fixture.h"

namespace reigen {
namespace {

ParameterLayout small_layout() {
  ParameterLayout layout;
  layout.add("a", 40, 64);
  layout.add("bias", 1, 50);
  layout.add("b", 96, 32);
  layout.add("tiny", 4, 4);
  return layout;
}

std::vector<float> random_gradient(size_t size, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& x : values) x = normal(engine);
  return values;
}

// Runs steps of a method with different gradients on each rank; checks that all ranks get the same
// result and returns rank 0's after each step.
std::vector<std::vector<float>> run_steps(const CompressSetting& setting, int ranks, int steps) {
  const ParameterLayout layout = small_layout();
  const Device device = Device::cpu(1);
  std::vector<std::vector<std::vector<float>>> seen(static_cast<size_t>(ranks));
  with_group(ranks, [&](Group& group) {
    auto compressor =
        make_compressor(group, device, layout, {.setting = setting, .bucket = 1000, .seed = 7});
    for (int step = 0; step < steps; ++step) {
      auto gradient =
          random_gradient(layout.elements(), static_cast<unsigned>(100 * step + group.rank()));
      compressor->begin(gradient);
      compressor->ready(layout.elements() / 2);
      ASSERT_TRUE(compressor->finish().ok());
      seen[static_cast<size_t>(group.rank())].push_back(gradient);
    }
    EXPECT_TRUE(group.leave().ok());
  });
  for (const auto& other : seen) EXPECT_EQ(other, seen[0]);
  return seen[0];
}

class EveryMethod : public testing::TestWithParam<const char*> {};

TEST_P(EveryMethod, GivesAllRanksTheSameBits) {
  const CompressSetting setting = parse_compress(GetParam());
  EXPECT_EQ(run_steps(setting, 2, 3), run_steps(setting, 2, 3));
  run_steps(setting, 3, 3);
}

struct Sent {
  double bytes = 0;
  double messages = 0;
};
Sent sent_by(const Group& group) {
  Sent sent;
  for (const CommCounter& counter : group.counters()) {
    sent.bytes += static_cast<double>(counter.bytes_sent);
    sent.messages += static_cast<double>(counter.operations);
  }
  return sent;
}

TEST_P(EveryMethod, SendsThePredictedBytesAndMessages) {
  constexpr size_t kBucket = 40'000;
  const CompressSetting setting = parse_compress(GetParam());
  ParameterLayout layout;
  layout.add("a", 512, 256);
  layout.add("b", 256, 256);
  const Device device = Device::cpu(1);
  with_group(2, [&](Group& group) {
    auto compressor =
        make_compressor(group, device, layout, {.setting = setting, .bucket = kBucket, .seed = 7});
    auto gradient = random_gradient(layout.elements(), 1);
    const StepTraffic predicted = traffic_per_step(layout, setting, 2, kBucket);
    compressor->begin(gradient);
    compressor->ready(layout.slices().back().offset);
    double none[] = {0.0};
    ASSERT_TRUE(group.sum(none).wait().ok());  // after all messages sent so far
    Sent early = sent_by(group);
    EXPECT_EQ(early.messages - 1, predicted.messages - predicted.late_messages);
    EXPECT_NEAR(early.bytes, predicted.bytes - predicted.late_bytes, 0.02 * predicted.bytes + 64);
    ASSERT_TRUE(compressor->finish().ok());
    const Sent all = sent_by(group);
    EXPECT_EQ(all.messages - 1, predicted.messages);
    EXPECT_NEAR(all.bytes, predicted.bytes, 0.02 * predicted.bytes + 64);
    EXPECT_TRUE(group.leave().ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Compressor, EveryMethod,
                         testing::Values("none", "bf16", "fp16", "int8", "int4", "powersgd:2",
                                         "powersgd:8", "topk:0.05"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

class LossyMethod : public testing::TestWithParam<const char*> {};

// Error feedback loses nothing: results and residuals add up to the gradients.
TEST_P(LossyMethod, ResultsAndResidualsAddUpToTheGradients) {
  const ParameterLayout layout = small_layout();
  const Device device = Device::cpu(1);
  std::mutex mutex;
  std::vector<double> balance(layout.elements());
  with_group(2, [&](Group& group) {
    auto compressor = make_compressor(
        group, device, layout, {.setting = parse_compress(GetParam()), .bucket = 1000, .seed = 7});
    for (unsigned step = 0; step < 4; ++step) {
      auto gradient =
          random_gradient(layout.elements(), 100 * step + static_cast<unsigned>(group.rank()));
      {
        std::lock_guard lock(mutex);
        for (size_t i = 0; i < gradient.size(); ++i) balance[i] += gradient[i];
      }
      compressor->begin(gradient);
      ASSERT_TRUE(compressor->finish().ok());
      if (group.rank() != 0) continue;
      std::lock_guard lock(mutex);
      for (size_t i = 0; i < gradient.size(); ++i) balance[i] -= gradient[i];
    }
    std::lock_guard lock(mutex);
    for (const StateTensor& tensor : compressor->state()) {
      if (!tensor.per_rank) continue;
      for (size_t i = 0; i < tensor.values.size(); ++i) balance[i] -= tensor.values[i];
    }
  });
  for (const ParameterSlice& slice : layout.slices()) {
    for (size_t i = slice.offset; i < slice.offset + slice.size(); ++i) {
      ASSERT_NEAR(balance[i], 0, 1e-4) << slice.name << " " << i - slice.offset;
    }
  }
}

TEST_P(LossyMethod, ResumesFromItsState) {
  const ParameterLayout layout = small_layout();
  const Device device = Device::cpu(1);
  with_group(2, [&](Group& group) {
    const CompressorPlan plan = {.setting = parse_compress(GetParam()), .bucket = 1000, .seed = 7};
    auto straight = make_compressor(group, device, layout, plan);
    auto resumed = make_compressor(group, device, layout, plan);
    auto step = [&](Compressor& compressor, unsigned number) {
      auto gradient =
          random_gradient(layout.elements(), 100 * number + static_cast<unsigned>(group.rank()));
      compressor.begin(gradient);
      EXPECT_TRUE(compressor.finish().ok());
      return gradient;
    };
    step(*straight, 1);
    step(*straight, 2);
    auto from = straight->state();
    auto to = resumed->state();
    ASSERT_EQ(from.size(), to.size());
    for (size_t i = 0; i < from.size(); ++i) {
      ASSERT_EQ(from[i].values.size(), to[i].values.size());
      std::copy(from[i].values.begin(), from[i].values.end(), to[i].values.begin());
    }
    EXPECT_EQ(step(*straight, 3), step(*resumed, 3));
    EXPECT_TRUE(group.leave().ok());
  });
}

TEST_P(LossyMethod, ANonFiniteGradientDoesNotStayInTheState) {
  const ParameterLayout layout = small_layout();
  const Device device = Device::cpu(1);
  with_group(2, [&](Group& group) {
    auto compressor = make_compressor(
        group, device, layout, {.setting = parse_compress(GetParam()), .bucket = 1000, .seed = 7});
    auto gradient = random_gradient(layout.elements(), 1);
    if (group.rank() == 1) gradient[70] = INFINITY;
    compressor->begin(gradient);
    ASSERT_TRUE(compressor->finish().ok());
    const auto finite = [](float x) { return std::isfinite(x); };
    EXPECT_FALSE(std::all_of(gradient.begin(), gradient.end(), finite));  // so the step is skipped
    gradient = random_gradient(layout.elements(), 2);
    compressor->begin(gradient);
    ASSERT_TRUE(compressor->finish().ok());
    EXPECT_TRUE(std::all_of(gradient.begin(), gradient.end(), finite));
    EXPECT_TRUE(group.leave().ok());
  });
}

// The gradient of a rank in a step; `attempt` differs where a step is done again with other shares.
std::vector<float> gradient_of(const Group& group, size_t size, unsigned step, unsigned attempt) {
  return random_gradient(size, 1000 * attempt + 100 * step + static_cast<unsigned>(group.rank()));
}

// Also where ranks of a machine sum among themselves first, and so round only a part each.
TEST_P(LossyMethod, AStepThatIsDoneAgainStartsFromTheLastCommit) {
  const ParameterLayout layout = small_layout();
  const Device device = Device::cpu(1);
  const auto body = [&](Group& group) {
    CompressorPlan plan = {.setting = parse_compress(GetParam()), .bucket = 1000, .seed = 7};
    auto straight = make_compressor(group, device, layout, plan);
    plan.repeatable = true;
    auto elastic = make_compressor(group, device, layout, plan);
    const auto reduced = [&](Compressor& compressor, unsigned step, unsigned attempt) {
      auto gradient = gradient_of(group, layout.elements(), step, attempt);
      compressor.begin(gradient);
      compressor.ready(layout.elements() / 2);
      EXPECT_TRUE(compressor.finish().ok());
      return gradient;
    };
    for (unsigned step = 0; step < 4; ++step) {
      for (unsigned attempt = 1; attempt <= step; ++attempt) {
        reduced(*elastic, step, attempt);
        elastic->restore();
      }
      EXPECT_EQ(reduced(*straight, step, 0), reduced(*elastic, step, 0)) << step;
      straight->commit();
      elastic->commit();
    }
    for (size_t i = 0; i < straight->state().size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(straight->state()[i].values, elastic->state()[i].values));
    }
    EXPECT_TRUE(group.leave().ok());
  };
  with_group(3, body);
  with_group(4, body, 1, std::chrono::milliseconds(0), 2);
}

// The group breaks after any number of its operations.
TEST_P(LossyMethod, ContinuesWithAnotherGroupFromTheLastCommit) {
  const ParameterLayout layout = small_layout();
  const Device device = Device::cpu(1);
  const CompressSetting setting = parse_compress(GetParam());
  for (uint64_t operations = 0; operations < 4; ++operations) {
    std::vector<std::unique_ptr<Compressor>> survivors(2);
    with_group(3, [&](Group& group) {
      auto compressor =
          make_compressor(group, device, layout,
                          {.setting = setting, .bucket = 1000, .seed = 7, .repeatable = true});
      auto gradient = gradient_of(group, layout.elements(), 0, 0);
      compressor->begin(gradient);
      ASSERT_TRUE(compressor->finish().ok());
      compressor->commit();
      group.barrier().wait();  // all have finished before one breaks the group
      const std::span<const float> residual = compressor->residual()->last();
      const std::vector<float> committed(residual.begin(), residual.end());
      gradient = gradient_of(group, layout.elements(), 1, 1);
      compressor->begin(gradient);
      {
        std::optional<BreakAfter> end;
        if (group.rank() == 2) end.emplace(group, operations);
        compressor->finish();
      }
      group.close();
      group.drain();
      compressor->restore();
      if (group.rank() == 2) return;
      EXPECT_TRUE(std::ranges::equal(compressor->residual()->last(), committed));
      survivors[static_cast<size_t>(group.rank())] = std::move(compressor);
    });
    with_group(2, [&](Group& group) {
      Compressor& compressor = *survivors[static_cast<size_t>(group.rank())];
      compressor.use(group);
      auto expected =
          make_compressor(group, device, layout, {.setting = setting, .bucket = 1000, .seed = 7});
      for (size_t i = 0; i < compressor.state().size(); ++i) {
        std::ranges::copy(compressor.state()[i].values, expected->state()[i].values.begin());
      }
      for (unsigned step = 1; step < 3; ++step) {
        auto continued = gradient_of(group, layout.elements(), step, 0);
        auto straight = continued;
        compressor.begin(continued);
        ASSERT_TRUE(compressor.finish().ok());
        compressor.commit();
        expected->begin(straight);
        ASSERT_TRUE(expected->finish().ok());
        EXPECT_EQ(continued, straight) << operations << " " << step;
      }
      EXPECT_TRUE(group.leave().ok());
    });
  }
}

// The last worker of a job continues alone.
TEST_P(LossyMethod, AddsUpInAGroupOfOne) {
  const ParameterLayout layout = small_layout();
  const Device device = Device::cpu(1);
  with_group(1, [&](Group& group) {
    auto compressor = make_compressor(
        group, device, layout,
        {.setting = parse_compress(GetParam()), .bucket = 1000, .repeatable = true});
    const std::span<float> residual = compressor->residual()->last();
    std::ranges::fill(residual.first(layout.slices()[0].size()), 0.5F);
    std::vector<double> balance(residual.begin(), residual.end());
    auto gradient = random_gradient(layout.elements(), 3);
    for (size_t i = 0; i < gradient.size(); ++i) balance[i] += gradient[i];
    compressor->begin(gradient);
    ASSERT_TRUE(compressor->finish().ok());
    compressor->commit();
    for (size_t i = 0; i < gradient.size(); ++i) {
      ASSERT_NEAR(balance[i] - gradient[i] - compressor->residual()->last()[i], 0, 1e-4) << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Compressor, LossyMethod,
                         testing::Values("int8", "int4", "powersgd:2", "topk:0.05"),
                         [](const auto& info) { return std::string(info.param).substr(0, 4); });

TEST(PowerSgd, ConvergesOnAGradientOfItsRank) {
  ParameterLayout layout;
  layout.add("a", 60, 80);
  std::vector<float> wanted(layout.elements());
  for (size_t i = 0; i < 60; ++i) {
    for (size_t j = 0; j < 80; ++j) {
      const auto x = static_cast<float>(i);
      const auto y = static_cast<float>(j);
      wanted[i * 80 + j] = std::sin(x) * std::cos(y) + 0.3F * std::cos(2 * x) * std::sin(3 * y);
    }
  }
  const Device device = Device::cpu(1);
  with_group(2, [&](Group& group) {
    auto compressor = make_compressor(group, device, layout,
                                      {.setting = parse_compress("powersgd:2"), .seed = 7});
    double worst = 0;
    for (int step = 0; step < 5; ++step) {
      std::vector<float> gradient = wanted;
      for (float& x : gradient)
        x *= step == 0 ? 0.0F : 0.5F;  // in the first step the gradient is zero
      for (const StateTensor& tensor : compressor->state()) {
        if (tensor.per_rank) std::fill(tensor.values.begin(), tensor.values.end(), 0.0F);
      }
      compressor->begin(gradient);
      ASSERT_TRUE(compressor->finish().ok());
      worst = 0;
      for (size_t i = 0; i < gradient.size(); ++i) {
        worst = std::max(worst, std::abs(double{gradient[i]} - wanted[i]));
      }
    }
    EXPECT_LT(worst, 0.02);  // factors are bf16
    EXPECT_TRUE(group.leave().ok());
  });
}

TEST(OuterStep, IsNesterovOnTheMeanDelta) {
  with_group(2, [](Group& group) {
    OuterStep outer(group, 64, 2, 1000);
    std::vector<float> weights(64, 1.0F);
    outer.begin(weights);
    auto step = [&](float each) {
      for (float& w : weights) w -= group.rank() == 0 ? each : 3 * each;
      EXPECT_TRUE(outer.after_step(weights).ok());
    };
    step(0.25F);
    EXPECT_EQ(outer.steps(), 1u);
    EXPECT_EQ(outer.shared()[0], 1.0F);
    step(0.25F);  // 0.5 and 1.5: on average 1
    EXPECT_EQ(outer.steps(), 0u);
    const double first = 1 - 0.7 * (1 + 0.9 * 1);
    EXPECT_THAT(weights, testing::Each(testing::FloatNear(static_cast<float>(first), 1e-6F)));
    step(0.25F);
    step(0.25F);
    const double second = first - 0.7 * (1 + 0.9 * 1.9);
    EXPECT_THAT(weights, testing::Each(testing::FloatNear(static_cast<float>(second), 1e-5F)));
    EXPECT_TRUE(group.leave().ok());
  });
}

}  // namespace
}  // namespace reigen
