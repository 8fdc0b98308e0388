// The exchange of gradients and weights between ranks that are threads of this process.
#include "train/step/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "dist/members/job_fixture.h"
#include "train/small_run.h"

namespace reigen {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;

constexpr uint64_t kSeed = 1;
constexpr size_t kBucket = 1000;

class ExchangeTest : public ::testing::Test {
 protected:
  TrainState state(const std::string& compress, uint64_t warmup = 0) const {
    TrainState state = first_state(small.model, 3);
    state.choices.compress = compress;
    state.choices.compress_warmup = warmup;
    state.choices.bucket = kBucket;
    return state;
  }
  size_t elements() const { return small.model.layout().elements(); }

  // This rank's gradient of a step.
  std::vector<float> gradient(int rank, uint64_t step) const {
    std::mt19937 random(static_cast<unsigned>(1000 * rank) + static_cast<unsigned>(step));
    std::normal_distribution<float> normal;
    std::vector<float> values(elements());
    for (float& x : values) x = normal(random);
    return values;
  }
  std::vector<float> reduced(Exchange& exchange, std::vector<float> values, uint64_t step) const {
    exchange.begin(step, values);
    exchange.ready(values.size() / 2);
    exchange.ready(values.size());
    exchange.finish();
    return values;
  }
  // A local step: the update subtracts this rank's gradient from its weights.
  void local_step(Exchange& exchange, TrainState& state, int rank, uint64_t step) const {
    std::vector<float> values = gradient(rank, step);
    exchange.begin(step, values);
    EXPECT_TRUE(exchange.local());
    for (size_t i = 0; i < values.size(); ++i) state.parameters[i] -= 0.01F * values[i];
    exchange.after_update();
    state.counters.step = step;
  }
  // The same on all ranks?
  static bool same(Job& job, std::span<const float> values) {
    std::vector<float> firsts(values.begin(), values.end());
    job.broadcast(firsts);
    return !job.any(!std::ranges::equal(firsts, values));
  }

  SmallRun small;
  Device device = Device::cpu(1);
};

TEST_F(ExchangeTest, SumsGradientsOverAllRanks) {
  with_job(3, [&](Job& job) {
    TrainState mine = state("none");
    Exchange exchange(job, device, small.model.layout(), kSeed, mine);
    EXPECT_EQ(mine.choices.workers, 3u);
    const std::vector<float> values(elements(), static_cast<float>(job.rank() + 1));
    EXPECT_THAT(reduced(exchange, values, 1), Each(6.0F));
    EXPECT_FALSE(exchange.local());
    EXPECT_GT(exchange.communication().sent, 0u);
  });
}

TEST_F(ExchangeTest, AShareWithoutASentenceAddsZeros) {
  with_job(2, [&](Job& job) {
    TrainState mine = state("none");
    Exchange exchange(job, device, small.model.layout(), kSeed, mine);
    std::vector<float> values(elements(), job.first() ? 2.0F : 0.0F);
    exchange.begin(1, values);
    if (job.first()) exchange.ready(values.size());  // rank 1 has had no backward
    exchange.finish();
    EXPECT_THAT(values, Each(2.0F));
  });
}

// A resumed run takes the same course: its compressors continue with the collected states.
TEST_F(ExchangeTest, ContinuesWithTheStatesThatItCollected) {
  for (const char* method : {"int4", "powersgd:2", "topk:0.05"}) {
    with_job(2, [&](Job& job) {
      TrainState mine = state(method, 2);
      Exchange before(job, device, small.model.layout(), kSeed, mine);
      for (uint64_t step = 1; step <= 4; ++step) {
        reduced(before, gradient(job.rank(), step), step);
        mine.counters.step = step;
      }
      before.collect();
      EXPECT_EQ(mine.choices.worker_states_of, method);
      if (job.first()) {
        EXPECT_FALSE(mine.worker_states.empty()) << method;
      } else {
        EXPECT_THAT(mine.worker_states, IsEmpty());
      }
      TrainState resumed = mine;
      Exchange after(job, device, small.model.layout(), kSeed, resumed);
      EXPECT_THAT(resumed.worker_states, IsEmpty());
      const std::vector<float> next = gradient(job.rank(), 5);
      const std::vector<float> expected = reduced(before, next, 5);
      EXPECT_EQ(reduced(after, next, 5), expected) << method;
      EXPECT_TRUE(same(job, expected)) << method;
    });
  }
}

TEST_F(ExchangeTest, DropsStatesOfADifferentMethodWithAWarning) {
  testing::internal::CaptureStderr();
  with_job(2, [&](Job& job) {
    TrainState mine = state("topk:0.05");
    Exchange before(job, device, small.model.layout(), kSeed, mine);
    reduced(before, gradient(job.rank(), 1), 1);
    mine.counters.step = 1;
    before.collect();
    TrainState changed = mine;
    changed.choices.compress = "powersgd:2";
    Exchange after(job, device, small.model.layout(), kSeed, changed);
    EXPECT_THAT(changed.worker_states, IsEmpty());
    EXPECT_TRUE(same(job, reduced(after, gradient(job.rank(), 2), 2)));
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("topk:0.05"));
}

TEST_F(ExchangeTest, ASingleWorkerDropsTheStatesOfSeveral) {
  TrainState state = this->state("topk:0.05");
  state.choices.workers = 2;
  state.worker_states = {{"rank-1.residual", {1, 2}}};
  testing::internal::CaptureStderr();
  drop_worker_states(state);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("2 workers"));
  EXPECT_THAT(state.worker_states, IsEmpty());
  EXPECT_EQ(state.choices.workers, 1u);
}

TEST_F(ExchangeTest, LocalStepsEndWithTheSameWeightsAfterAnOuterStep) {
  with_job(2, [&](Job& job) {
    TrainState mine = state("local:3");
    Exchange exchange(job, device, small.model.layout(), kSeed, mine);
    EXPECT_TRUE(exchange.first_local_step(1));
    const std::vector<float> initial = mine.parameters;
    for (uint64_t step = 1; step <= 3; ++step) {
      EXPECT_EQ(exchange.outer_step_next(), step == 3);
      local_step(exchange, mine, job.rank(), step);
      EXPECT_TRUE(exchange.between_outer_steps());
      EXPECT_EQ(mine.counters.local_steps, step % 3);
      EXPECT_EQ(same(job, mine.parameters), step == 3);
    }
    EXPECT_NE(mine.parameters, initial);
  });
}

TEST_F(ExchangeTest, SwapsAWorkersOwnWeightsWithThoseOfTheLastOuterStep) {
  with_job(2, [&](Job& job) {
    TrainState mine = state("local:3");
    Exchange exchange(job, device, small.model.layout(), kSeed, mine);
    const std::vector<float> initial = mine.parameters;
    exchange.swap_shared();  // before the first local step there is nothing to swap
    EXPECT_EQ(mine.parameters, initial);
    local_step(exchange, mine, job.rank(), 1);
    const std::vector<float> own = mine.parameters;
    exchange.swap_shared();
    EXPECT_EQ(mine.parameters, initial);
    exchange.swap_shared();
    EXPECT_EQ(mine.parameters, own);
  });
}

TEST_F(ExchangeTest, LocalStepsContinueAfterAResume) {
  with_job(2, [&](Job& job) {
    TrainState mine = state("local:3");
    Exchange before(job, device, small.model.layout(), kSeed, mine);
    for (uint64_t step = 1; step <= 4; ++step) local_step(before, mine, job.rank(), step);
    before.collect();
    before.swap_shared();  // a checkpoint has the run's weights
    TrainState resumed = mine;
    before.swap_shared();
    Exchange after(job, device, small.model.layout(), kSeed, resumed);
    EXPECT_EQ(resumed.parameters, mine.parameters);
    for (uint64_t step = 5; step <= 6; ++step) {
      local_step(before, mine, job.rank(), step);
      local_step(after, resumed, job.rank(), step);
    }
    EXPECT_EQ(resumed.parameters, mine.parameters);
    EXPECT_TRUE(same(job, mine.parameters));
  });
}

}  // namespace
}  // namespace reigen
