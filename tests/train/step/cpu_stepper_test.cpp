// A step of a single worker against the same computed by hand, its clipping, and steps whose loss
// is not finite.
#include "train/step/cpu_stepper.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "ops/adam.h"
#include "ops/muon.h"
#include "optim/schedule.h"
#include "optim/update.h"
#include "train/small_run.h"

namespace reigen {
namespace {

constexpr uint64_t kWhole = 1'000'000;

class CpuStepperTest : public ::testing::Test {
 protected:
  ReadyBatch batch(uint64_t micro_tokens, uint64_t number = 0) {
    BatchStream stream(small.data.train, 1,
                       {.target_tokens = static_cast<uint64_t>(small.options.batch.target_tokens)});
    for (uint64_t i = 0; i < number; ++i) stream.next();
    ReadyBatch ready{.batch = stream.next()};
    for (const auto& run : split_by_tokens(ready.batch, micro_tokens)) {
      ready.micro_batches.push_back(
          pack(small.data.train, ready.batch, run, small.data.vocabulary.bos()));
    }
    return ready;
  }

  // The step as documented, from the real operations.
  void by_hand(TrainState& state, const ReadyBatch& ready, double clip) {
    const TrainOptions& o = small.options;
    Arena arena;
    std::vector<float> gradients(state.parameters.size());
    for (const PackedBatch& part : ready.micro_batches) {
      small.model.forward_backward(
          device,
          {.batch = part,
           .seed = static_cast<uint64_t>(o.seed),
           .step = state.counters.step + 1,
           .loss_scale = 1.0F / static_cast<float>(ready.batch.target_tokens),
           .smoothing = static_cast<float>(o.smoothing)},
          state.parameters, gradients, arena);
    }
    const double norm = global_norm(device, gradients);
    AdamStep adam;
    adam.rate = learning_rate(o.schedule, state.counters.step + 1);
    adam.beta1 = o.optimizer.beta1;
    adam.beta2 = o.optimizer.beta2;
    adam.epsilon = o.optimizer.epsilon;
    if (o.optimizer.kind == OptimizerKind::kAdamW) adam.weight_decay = o.optimizer.weight_decay;
    adam.step = state.counters.updates + 1;
    if (clip > 0 && norm > clip) adam.gradient_scale = clip / norm;
    std::span<float> buffers[] = {gradients, state.parameters, state.first_moment,
                                  state.second_moment};
    auto by_adam = [&](size_t begin, size_t size) {
      auto of = [&](int i) { return buffers[i].subspan(begin, size); };
      adam_step(device, adam, of(0), of(1), of(2), of(3));
    };
    if (o.optimizer.kind != OptimizerKind::kMuon) by_adam(0, gradients.size());
    for (const ParameterSlice& slice : small.model.layout().slices()) {
      if (o.optimizer.kind != OptimizerKind::kMuon) break;
      const bool embedding = slice.name.find("embedding") != std::string::npos;
      if (slice.rows == 1 || embedding) {
        by_adam(slice.offset, slice.size());
        continue;
      }
      // Queries, keys and values are width x width each.
      const bool joint = slice.name.find("key_value.weight") != std::string::npos;
      const int64_t rows = joint ? slice.cols : slice.rows;
      for (int64_t part = 0; part < slice.rows / rows; ++part) {
        const MatrixRange m{slice.offset + static_cast<size_t>(part * rows * slice.cols), rows,
                            slice.cols};
        muon_step(device,
                  {.rate = o.optimizer.muon_ratio * adam.rate,
                   .momentum = o.optimizer.momentum,
                   .weight_decay = o.optimizer.weight_decay,
                   .gradient_scale = adam.gradient_scale},
                  {&m, 1}, gradients, state.parameters, state.first_moment);
      }
    }
    ++state.counters.step;
    ++state.counters.updates;
  }

  void expect_same(const TrainState& a, const TrainState& b) {
    EXPECT_EQ(a.parameters, b.parameters);
    EXPECT_EQ(a.first_moment, b.first_moment);
    EXPECT_EQ(a.second_moment, b.second_moment);
    EXPECT_EQ(a.counters.updates, b.counters.updates);
  }

  StepResult run(CpuStepper& stepper, const ReadyBatch& ready) {
    stepper.start(ready);
    return stepper.finish();
  }
  CpuStepper stepper_of(TrainState& state) {
    return {device, small.model, small.options, state, alone};
  }

  SmallRun small;
  Device device = Device::cpu(2);
  Job alone;
};

TEST_F(CpuStepperTest, IsForwardBackwardNormAndUpdate) {
  for (auto kind : {OptimizerKind::kAdam, OptimizerKind::kAdamW, OptimizerKind::kMuon}) {
    for (double clip : {0.0, 0.05, 1e9}) {
      small.options.optimizer.kind = kind;
      small.options.optimizer.weight_decay = 0.1;
      small.options.optimizer.clip = clip;
      TrainState state = first_state(small.model, 3);
      TrainState expected = state;
      CpuStepper stepper = stepper_of(state);
      for (uint64_t i = 0; i < 3; ++i) {
        const ReadyBatch ready = batch(i == 1 ? 200 : kWhole, i);
        const StepResult result = run(stepper, ready);
        EXPECT_GT(result.norm, 0.05);  // so that clipping matters
        EXPECT_LT(result.norm, 1e9);
        by_hand(expected, ready, clip);
        expect_same(state, expected);
      }
    }
  }
}

TEST_F(CpuStepperTest, ClippingChangesTheUpdateAndNotTheNormReported) {
  const ReadyBatch ready = batch(kWhole);
  std::vector<TrainState> states;
  std::vector<double> norms;
  for (double clip : {0.0, 1e9, 0.01}) {
    small.options.optimizer.clip = clip;
    TrainState state = first_state(small.model, 3);
    CpuStepper stepper = stepper_of(state);
    norms.push_back(run(stepper, ready).norm);
    states.push_back(state);
  }
  EXPECT_EQ(norms[0], norms[1]);
  EXPECT_EQ(norms[0], norms[2]);
  expect_same(states[0], states[1]);
  // The first moment is (1 - beta1) times the clipped gradient.
  const double moment = global_norm(device, states[2].first_moment);
  EXPECT_NEAR(moment, (1 - small.options.optimizer.beta1) * 0.01, 1e-7);
}

TEST_F(CpuStepperTest, CountsPairsAndTokens) {
  TrainState state = first_state(small.model, 3);
  CpuStepper stepper = stepper_of(state);
  uint64_t pairs = 0;
  uint64_t source = 0;
  uint64_t target = 0;
  for (uint64_t i = 0; i < 2; ++i) {
    const ReadyBatch ready = batch(150, i);
    const StepResult result = run(stepper, ready);
    pairs += ready.batch.pairs.size();
    source += ready.batch.source_tokens;
    target += ready.batch.target_tokens;
    EXPECT_EQ(result.step, i + 1);
    EXPECT_EQ(result.rate, learning_rate(small.options.schedule, i + 1));
    EXPECT_EQ(result.pairs, ready.batch.pairs.size());
    EXPECT_EQ(result.source_tokens, ready.batch.source_tokens);
    EXPECT_EQ(result.target_tokens, ready.batch.target_tokens);
    EXPECT_EQ(result.micro_batches, ready.micro_batches.size());
    EXPECT_GT(result.micro_batches, 1u);
    EXPECT_FALSE(result.skipped);
    EXPECT_GT(result.loss, 0);
    EXPECT_EQ(state.counters.cursor, ready.batch.end);
  }
  EXPECT_EQ(state.counters.step, 2u);
  EXPECT_EQ(state.counters.updates, 2u);
  EXPECT_EQ(state.counters.pairs, pairs);
  EXPECT_EQ(state.counters.source_tokens, source);
  EXPECT_EQ(state.counters.target_tokens, target);
  EXPECT_EQ(state.counters.skipped, 0u);
}

TEST_F(CpuStepperTest, AStepWithoutAFiniteLossIsSkipped) {
  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    TrainState state = first_state(small.model, 3);
    CpuStepper stepper = stepper_of(state);
    run(stepper, batch(kWhole, 0));
    const TrainState good = state;
    // In the gain of a norm, which every token uses.
    const size_t place = small.model.layout().find("decoder.norm.gain").offset;
    state.parameters[place] = bad;
    for (uint64_t i = 1; i <= 2; ++i) {
      const ReadyBatch ready = batch(kWhole, i);
      EXPECT_TRUE(run(stepper, ready).skipped);
      EXPECT_EQ(state.counters.step, 1 + i);
      EXPECT_EQ(state.counters.skipped, i);
      EXPECT_EQ(state.counters.skipped_in_row, i);
      EXPECT_EQ(state.counters.cursor, ready.batch.end);
    }
    state.parameters[place] = good.parameters[place];
    expect_same(state, good);
    // A finite step ends the row and is the second update, not the fourth.
    EXPECT_FALSE(run(stepper, batch(kWhole, 3)).skipped);
    EXPECT_EQ(state.counters.skipped, 2u);
    EXPECT_EQ(state.counters.skipped_in_row, 0u);
    EXPECT_EQ(state.counters.updates, 2u);
    EXPECT_NE(state.parameters, good.parameters);
  }
}

TEST_F(CpuStepperTest, MicroBatchesChangeOnlyRounding) {
  const ReadyBatch whole = batch(kWhole);
  ASSERT_EQ(whole.micro_batches.size(), 1u);
  TrainState expected = first_state(small.model, 3);
  CpuStepper one = stepper_of(expected);
  const StepResult wanted = run(one, whole);
  for (uint64_t micro_tokens : {1, 120, 400}) {
    const ReadyBatch parts = batch(micro_tokens);
    ASSERT_GT(parts.micro_batches.size(), 1u);
    TrainState state = first_state(small.model, 3);
    CpuStepper stepper = stepper_of(state);
    const StepResult result = run(stepper, parts);
    EXPECT_NEAR(result.loss, wanted.loss, 1e-5);
    EXPECT_NEAR(result.nll, wanted.nll, 1e-5);
    EXPECT_NEAR(result.norm, wanted.norm, 1e-5 * wanted.norm);
    for (size_t i = 0; i < state.first_moment.size(); ++i) {
      ASSERT_NEAR(state.first_moment[i], expected.first_moment[i], 1e-5) << i;
      ASSERT_NEAR(state.second_moment[i], expected.second_moment[i], 1e-5) << i;
    }
  }
}

TEST_F(CpuStepperTest, GivesTheSameBitsWhenRepeated) {
  const ReadyBatch ready = batch(200);
  TrainState state = first_state(small.model, 3);
  const TrainState initial = state;
  CpuStepper stepper = stepper_of(state);
  run(stepper, ready);
  const TrainState first = state;
  state = initial;
  run(stepper, ready);  // with buffers that were used before
  expect_same(state, first);
}

TEST_F(CpuStepperTest, FrozenParametersKeepTheirBitsAndTheNormDoesNotCountThem) {
  for (OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kMuon}) {
    small.options.optimizer.kind = kind;
    TrainState before = first_state(small.model, 3);
    small.model.initialise(before.first_moment, 4);  // moments that would move them
    std::fill(before.second_moment.begin(), before.second_moment.end(), 0.01F);
    double norms[2];
    for (const bool freeze : {false, true}) {
      small.options.tune.freeze = freeze ? "encoder,embeddings" : "";
      TrainState state = before;
      CpuStepper stepper = stepper_of(state);
      norms[freeze] = run(stepper, batch(kWhole)).norm;
      for (const ParameterSlice& slice : small.model.layout().slices()) {
        const auto from = static_cast<ptrdiff_t>(slice.offset);
        const auto size = static_cast<ptrdiff_t>(slice.size());
        const bool same =
            std::equal(state.parameters.begin() + from, state.parameters.begin() + from + size,
                       before.parameters.begin() + from);
        EXPECT_EQ(same, freeze && !slice.name.starts_with("decoder.")) << slice.name;
      }
    }
    EXPECT_LT(norms[1], norms[0]);
    EXPECT_GT(norms[1], 0);
  }
}

TEST_F(CpuStepperTest, HasOneSetOfWeightsForASingleWorker) {
  TrainState state = first_state(small.model, 3);
  const TrainState before = state;
  CpuStepper stepper = stepper_of(state);
  SwappedWeights shared = stepper.shared_weights();
  expect_same(state, before);
  shared.end();
  const std::unique_ptr<Snapshot> snapshot = stepper.snapshot();
  EXPECT_EQ(snapshot->source(), nullptr);
  EXPECT_FALSE(snapshot->own_moments());
  expect_same(state, before);
}

TEST_F(CpuStepperTest, AveragesTheWeightsAndShowsThemForAsLongAsAsked) {
  small.options.ema_decay = 0.5;
  TrainState state = first_state(small.model, 3);
  state.average = state.parameters;
  std::vector<float> expected = state.average;
  TrainState plain = first_state(small.model, 3);
  CpuStepper stepper = stepper_of(state);
  CpuStepper without = stepper_of(plain);
  for (uint64_t step = 1; step <= 3; ++step) {
    run(stepper, batch(kWhole, step - 1));
    run(without, batch(kWhole, step - 1));
    const auto weight = static_cast<float>(ema_weight(0.5, step));
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] += weight * (state.parameters[i] - expected[i]);
    }
  }
  EXPECT_EQ(state.average, expected);
  expect_same(state, plain);  // the average changes nothing else
  EXPECT_TRUE(plain.average.empty());
  {
    SwappedWeights averaged = stepper.averaged_weights();
    EXPECT_EQ(stepper.weights().master, state.average.data());
    averaged.end();
    EXPECT_EQ(stepper.weights().master, state.parameters.data());
  }
  run(stepper, batch(kWhole, 3));
  run(without, batch(kWhole, 3));
  expect_same(state, plain);
}

TEST(SwappedWeights, AreSwappedBackOnAnyExit) {
  int swaps = 0;
  try {
    const SwappedWeights shared([&] { ++swaps; });
    EXPECT_EQ(swaps, 1);
    throw std::runtime_error("evaluation failed");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(swaps, 2);
  SwappedWeights shared([&] { ++swaps; });
  shared.end();
  shared.end();
  EXPECT_EQ(swaps, 4);
}

TEST(SwappedWeights, ReportAnErrorOfTheSwapOnlyWhereItCanLeave) {
  bool fails = false;
  auto swap = [&] {
    if (fails) throw std::runtime_error("the device failed");
  };
  SwappedWeights shared(swap);
  fails = true;
  EXPECT_THROW(shared.end(), std::runtime_error);
  EXPECT_NO_THROW({
    fails = false;
    const SwappedWeights other(swap);
    fails = true;
  });
}

}  // namespace
}  // namespace reigen
