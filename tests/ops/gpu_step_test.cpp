// The queue of training steps on a GPU: norm, clipping and Adam, skipped steps, both policies of
// loss scaling, recorded steps, and replayed algorithms. Skipped where there is no GPU.
#include "ops/gpu_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "ops/embed.h"
#include "ops/gpu_backend.h"
#include "ops/matmul.h"
#include "ops/op_case.h"

namespace reigen {
namespace {

using reference::Matrix;
using reference::normal;

class GpuStep : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test_gpu() == nullptr) GTEST_SKIP() << "no GPU";
    gpu_backend(device())->allow_tf32(false);
  }
  static const Device& device() { return *test_gpu(); }

  // One step whose gradient is `gradient`, times the loss scale as backward would leave it.
  GpuStepResult step(GpuStepQueue& queue, const GpuOptimizer& o, Matrix gradient,
                     LossSums sums = {}, double rate = 0) {
    queue.begin({.step = ++steps_, .rate = rate});
    copy_in(device(), queue.sums(), &sums, sizeof(sums));
    std::vector<float> values(gradient.values.begin(), gradient.values.end());
    copy_in(device(), o.gradient.data(), values.data(), o.gradient.size_bytes());
    queue.finish();
    return queue.take();
  }
  uint64_t steps_ = 0;
};

TEST_F(GpuStep, ClipsScalesAndUpdatesAsAdamIsDefined) {
  const int64_t n = 40'004;
  Matrix p = normal(1, n, 1), m(1, n), v(1, n), zero(1, n);
  Buffer fp(device(), p), fm(device(), m), fv(device(), v), fg(device(), zero);
  const Buffer copy(device(), 1, n, DType::kBF16);
  GpuOptimizer o;
  o.gradient = fg.span();
  o.parameters = fp.span();
  o.first_moment = fm.span();
  o.second_moment = fv.span();
  o.compute_copy = copy.tensor().data;
  o.compute_type = DType::kBF16;
  o.adam = {.beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-9, .weight_decay = 0.1};
  o.clip = 10;
  const auto queue = gpu_backend(device())->step_queue(o);
  double updates = 0;
  for (int i = 1; i <= 7; ++i) {
    Matrix g = normal(1, n, 10 + static_cast<uint64_t>(i));
    if (i == 4) g.at(0, 12'345) = INFINITY;
    const double rate = 0.01 / i;
    const Matrix before = fp.values();
    const GpuStepResult result = step(*queue, o, g, {12, 10}, rate);
    EXPECT_EQ(norm(fg.values()), 0) << "the gradient is cleared";
    EXPECT_EQ(result.sums.smoothed, 12);
    EXPECT_EQ(result.sums.nll, 10);
    EXPECT_EQ(result.skipped, i == 4);
    if (i == 4) {  // nothing changes, and the step does not count for bias correction
      EXPECT_EQ(fp.values().values, before.values);
      continue;
    }
    EXPECT_EQ(result.updates, static_cast<uint64_t>(++updates));
    EXPECT_NEAR(result.norm / norm(g), 1, 1e-6);
    adam({0.9, 0.98, 1e-9, 0.1}, rate, 10 / norm(g), updates, g, p, m, v);
  }
  EXPECT_LE(relative_error(fp.values(), p), 2e-6);
  EXPECT_LE(relative_error(fm.values(), m), 2e-6);
  EXPECT_LE(relative_error(fv.values(), v), 2e-6);
  EXPECT_LE(relative_error(copy.values(), p), 3e-3);
}

// Two matrices of one shape and a tall one, the elements between them by Adam.
TEST_F(GpuStep, UpdatesMatricesByMuonAndTheRestByAdam) {
  const std::vector<MatrixRange> matrices = {{1024, 64, 128}, {9216, 64, 128}, {17'424, 128, 64}};
  const std::vector<ElementRange> rest = {{0, 1024}, {17'408, 17'424}, {25'616, 40'000}};
  const int64_t n = 40'000;
  Matrix p = normal(1, n, 1, 0.02), m(1, n), v(1, n), zero(1, n);
  Buffer fp(device(), p), fm(device(), m), fv(device(), v), fg(device(), zero);
  const Buffer copy(device(), 1, n, DType::kBF16);
  GpuOptimizer o;
  o.gradient = fg.span();
  o.parameters = fp.span();
  o.first_moment = fm.span();
  o.second_moment = fv.span();
  o.compute_copy = copy.tensor().data;
  o.compute_type = DType::kBF16;
  o.adam = {.beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-9};
  o.plan = {matrices, rest};
  o.muon = {.momentum = 0.95, .weight_decay = 0.1};
  o.muon_ratio = 2;
  o.clip = 10;
  const auto queue = gpu_backend(device())->step_queue(o);
  auto part = [](const Matrix& flat, size_t begin, int64_t rows, int64_t cols) {
    Matrix out(rows, cols);
    std::copy_n(flat.values.begin() + static_cast<ptrdiff_t>(begin), out.values.size(),
                out.values.begin());
    return out;
  };
  auto put = [](Matrix& flat, size_t begin, const Matrix& from) {
    std::ranges::copy(from.values, flat.values.begin() + static_cast<ptrdiff_t>(begin));
  };
  double updates = 0;
  for (int i = 1; i <= 5; ++i) {
    Matrix g = normal(1, n, 10 + static_cast<uint64_t>(i));
    if (i == 3) g.at(0, 12'345) = NAN;
    const Matrix before[2] = {fp.values(), fm.values()};
    const GpuStepResult result = step(*queue, o, g, {12, 10}, 0.01);
    EXPECT_EQ(norm(fg.values()), 0) << "the gradient is cleared";
    EXPECT_EQ(result.skipped, i == 3);
    if (i == 3) {
      EXPECT_EQ(fp.values().values, before[0].values);
      EXPECT_EQ(fm.values().values, before[1].values);
      continue;
    }
    ++updates;
    for (const MatrixRange& at : matrices) {
      Matrix w = part(p, at.offset, at.rows, at.cols), mm = part(m, at.offset, at.rows, at.cols);
      muon({0.95, 0.1}, 0.02, 10 / norm(g), part(g, at.offset, at.rows, at.cols), w, mm);
      put(p, at.offset, w);
      put(m, at.offset, mm);
    }
    for (const ElementRange& at : rest) {
      const auto size = static_cast<int64_t>(at.size());
      Matrix w = part(p, at.begin, 1, size), first = part(m, at.begin, 1, size),
             second = part(v, at.begin, 1, size);
      adam({0.9, 0.98, 1e-9, 0}, 0.01, 10 / norm(g), updates, part(g, at.begin, 1, size), w, first,
           second);
      put(p, at.begin, w);
      put(m, at.begin, first);
      put(v, at.begin, second);
    }
  }
  const Matrix got = fp.values();
  for (const MatrixRange& at : matrices) {
    EXPECT_LE(relative_error(part(got, at.offset, at.rows, at.cols),
                             part(p, at.offset, at.rows, at.cols)),
              0.06);
  }
  for (const ElementRange& at : rest) {
    const auto size = static_cast<int64_t>(at.size());
    EXPECT_LE(relative_error(part(got, at.begin, 1, size), part(p, at.begin, 1, size)), 2e-6);
  }
  EXPECT_LE(relative_error(fm.values(), m), 2e-6);
  EXPECT_LE(relative_error(fv.values(), v), 2e-6) << "unused by matrices";
  EXPECT_LE(relative_error(copy.values(), got), 3e-3);
}

TEST_F(GpuStep, SkipsAStepWhoseLossOrGradientIsNotFinite) {
  Matrix zero(1, 1004), g = normal(1, 1004, 1);
  const Buffer memory[4] = {{device(), zero}, {device(), zero}, {device(), zero}, {device(), zero}};
  GpuOptimizer o;
  o.gradient = memory[0].span();
  o.parameters = memory[1].span();
  o.first_moment = memory[2].span();
  o.second_moment = memory[3].span();
  o.clip = 100;
  const auto queue = gpu_backend(device())->step_queue(o);
  Matrix broken = g;
  broken.at(0, 1003) = NAN;
  GpuStepResult r = step(*queue, o, g, {12, 10});
  EXPECT_FALSE(r.skipped);
  EXPECT_EQ(r.updates, 1u);
  EXPECT_EQ(r.scale.scale, 1) << "no loss scale without scaling";
  r = step(*queue, o, g, {12, NAN});
  EXPECT_TRUE(r.skipped);
  r = step(*queue, o, broken, {12, 10});
  EXPECT_TRUE(r.skipped);
  EXPECT_EQ(r.updates, 1u);
  r = step(*queue, o, g, {12, 10});
  EXPECT_FALSE(r.skipped);
  EXPECT_EQ(r.updates, 2u);
}

// Gradients of 64 elements with this largest one.
Matrix with_largest(double largest) {
  Matrix values(1, 64);
  for (int64_t i = 0; i < 64; ++i) values.at(0, i) = (i % 2 == 0 ? 1 : -0.5) * largest;
  return values;
}

struct ScaledQueue {
  ScaledQueue(const Device& device, LossScaling scaling, LossScaleState state)
      : zero(1, 64), memory{{device, zero}, {device, zero}, {device, zero}, {device, zero}} {
    o.gradient = memory[0].span();
    o.parameters = memory[1].span();
    o.first_moment = memory[2].span();
    o.second_moment = memory[3].span();
    o.scaling = scaling;
    o.scale = state;
    queue = gpu_backend(device)->step_queue(o);
  }
  Matrix zero;
  Buffer memory[4];
  GpuOptimizer o;
  std::unique_ptr<GpuStepQueue> queue;
};

TEST_F(GpuStep, AnAbandonedStepLeavesNoTrace) {
  const int64_t n = 1'000;
  Matrix p = normal(1, n, 1), m(1, n), v(1, n), zero(1, n);
  Matrix once;
  for (const bool abandon : {false, true}) {
    Buffer fp(device(), p), fm(device(), m), fv(device(), v), fg(device(), zero);
    GpuOptimizer o;
    o.gradient = fg.span();
    o.parameters = fp.span();
    o.first_moment = fm.span();
    o.second_moment = fv.span();
    o.adam = {.beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-9};
    const auto queue = gpu_backend(device())->step_queue(o);
    steps_ = 0;
    for (uint64_t i = 1; i <= 3; ++i) {
      if (abandon && i == 2) {
        queue->begin({.step = i, .rate = 0.5});
        queue->abandon();
      }
      const GpuStepResult result = step(*queue, o, normal(1, n, 10 + i), {12, 10}, 0.01);
      EXPECT_EQ(result.updates, i);
    }
    if (abandon) {
      EXPECT_EQ(fp.values().values, once.values);
    }
    once = fp.values();
  }
}

TEST_F(GpuStep, BackoffHalvesOnOverflowAndDoublesAfterManyGoodSteps) {
  const double start = kFirstLossScale;
  ScaledQueue fresh(device(), LossScaling::kBackoff, {});
  EXPECT_EQ(step(*fresh.queue, fresh.o, with_largest(1)).scale.scale, start);
  // Two steps before the 2,000 good ones after which the scale is doubled.
  ScaledQueue q(device(), LossScaling::kBackoff,
                {.scale = start, .ceiling = start, .good_steps = 1997});
  const struct {
    bool finite;
    double scale;
  } path[] = {{true, start},      {true, start},     {true, 2 * start}, {false, start},
              {false, start / 2}, {true, start / 2}, {true, start / 2}, {false, start / 4}};
  for (const auto& at : path) {
    const GpuStepResult r = step(*q.queue, q.o, with_largest(at.finite ? 1 : INFINITY));
    EXPECT_EQ(r.scale.scale, at.scale);
    EXPECT_EQ(r.skipped, !at.finite);
  }
  GpuStepResult r;
  for (int i = 0; i < 40; ++i) r = step(*q.queue, q.o, with_largest(NAN));
  EXPECT_EQ(r.scale.scale, 0x1p-14) << "the smallest scale";
  ScaledQueue top(device(), LossScaling::kBackoff,
                  {.scale = 0x1p24, .ceiling = 0x1p24, .good_steps = 1999});
  EXPECT_EQ(step(*top.queue, top.o, with_largest(1)).scale.scale, 0x1p24) << "the largest scale";
}

// kLogMax from its description.
struct LogMaxReference {
  double scale = kFirstLossScale, ceiling = 0x1p24, mean = 0, variance = 0;
  int count = 0, good = 0;

  void overflow() {
    scale = ceiling = std::max(0x1p-14, scale / 2);
    good = 0;
  }
  void finite(double largest) {
    if (++good == 2000) {
      ceiling = std::min(0x1p24, 2 * ceiling);
      good = 0;
    }
    const double x = std::log2(largest);
    const double weight = std::max(1 - 0.99, 1.0 / ++count);
    const double old = mean;
    mean = (1 - weight) * mean + weight * x;
    variance = (1 - weight) * (variance + weight * (x - old) * (x - old));
    const double top = std::log2(65504.0) - mean - 3 * std::sqrt(variance) - 1;
    scale = std::min(std::max(std::exp2(std::floor(top)), 0x1p-14), ceiling);
  }
};

TEST_F(GpuStep, LogMaxFollowsMeanAndDeviationOfTheLargestGradient) {
  ScaledQueue q(device(), LossScaling::kLogMax, {});
  LogMaxReference wanted;
  GpuStepResult r;
  for (uint64_t i = 0; i < 60; ++i) {
    if (i % 13 == 7) {
      r = step(*q.queue, q.o, with_largest(INFINITY));
      wanted.overflow();
    } else {
      // Between 2^-9 and 2^-5 unscaled.
      const double largest = std::exp2(-9 + static_cast<double>(mix64(i) % 1024) / 256);
      const auto scaled = static_cast<double>(static_cast<float>(largest * wanted.scale));
      const double used = wanted.scale;
      r = step(*q.queue, q.o, with_largest(scaled));
      wanted.finite(scaled / used);
    }
    ASSERT_EQ(r.scale.scale, wanted.scale) << "step " << i;
  }
  EXPECT_NEAR(r.scale.mean / wanted.mean, 1, 1e-12);
  EXPECT_NEAR(r.scale.variance / wanted.variance, 1, 1e-9);
}

// The embedding's gradient of four batches of one shape, directly and as a recorded graph.
TEST_F(GpuStep, ARecordedStepGivesTheSameBits) {
  const int64_t pieces = 40, width = 64;
  Matrix table = normal(pieces, width, 1), positions = normal(64, width, 2);
  const Buffer ft(device(), table), fp(device(), positions);
  std::vector<double> results[2];
  for (int recorded = 0; recorded < 2; ++recorded) {
    Matrix zero(1, pieces * width);
    const Buffer memory[4] = {
        {device(), zero}, {device(), zero}, {device(), zero}, {device(), zero}};
    GpuOptimizer o;
    o.gradient = memory[0].span();
    o.parameters = memory[1].span();
    o.first_moment = memory[2].span();
    o.second_moment = memory[3].span();
    const auto queue = gpu_backend(device())->step_queue(o);
    const Tensor gradient = f32_matrix(o.gradient.data(), pieces, width);
    const Buffer out(device(), 128, width);
    for (uint64_t s = 1; s <= 4; ++s) {
      std::vector<uint32_t> ids;
      for (uint64_t i = 0; i < 100; ++i) {
        ids.push_back(static_cast<uint32_t>(mix64(100 * s + i) % pieces));
      }
      const TestBatch batch(device(), {60, 40}, {60, 40}, {.heads = 1, .head_width = 64}, ids);
      queue->begin({.step = s, .rate = 0.01});
      queue->run(batch.index(), static_cast<uint64_t>(recorded), [&](const BatchIndex& index) {
        const SideIndex& side = index.source;
        const EmbedInput input{side.ids,
                               side.places,
                               2,
                               {0.1F, {.seed = 1, .site = 2}, side.numbers},
                               side.embed_plan};
        const Tensor rows = out.tensor().rows_from(0, side.rows);
        embed_forward(device(), input, ft.tensor(), fp.tensor(), rows);
        embed_backward(device(), input, rows, gradient, {});
        queue->mark(GpuStepQueue::Mark::kBackward);
      });
      queue->finish();
      results[recorded].push_back(queue->take().norm);
    }
    const Matrix updated = memory[1].values();
    results[recorded].insert(results[recorded].end(), updated.values.begin(), updated.values.end());
  }
  EXPECT_GT(results[0][0], 0);
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(GpuStep, ReplayedAlgorithmsGiveTheSameBits) {
  Matrix x = normal(4096, 512, 1), dy = normal(4096, 512, 2), zero(512, 512);
  const Device other = open_gpu(0);
  std::vector<double> results[2];
  std::string records[2];
  for (int i = 0; i < 2; ++i) {
    const Device& on = i == 0 ? device() : other;
    if (i == 1) {
      ASSERT_TRUE(gpu_backend(on)->replay_algorithms(records[0]));
    }
    const Buffer fx(on, x, DType::kBF16), fdy(on, dy, DType::kBF16), dw(on, zero);
    linear_backward_weight(on, fdy.tensor(), fx.tensor(), dw.tensor());
    results[i] = dw.values().values;
    records[i] = gpu_backend(on)->recorded_algorithms();
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(records[0], records[1]);
  EXPECT_FALSE(gpu_backend(other)->replay_algorithms("a different GPU\n" + records[0]));
}

}  // namespace
}  // namespace reigen
