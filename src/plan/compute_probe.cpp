#include "plan/compute_probe.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "device/buffer.h"
#include "device/gpu.h"
#include "model/flops.h"
#include "ops/adam.h"
#include "ops/backend.h"
#include "ops/muon.h"
#include "optim/muon_plan.h"

namespace reigen {
namespace {

double adam_seconds(const Device& device, size_t elements) {
  constexpr size_t kSample = 1 << 22;  // larger than any cache, with its moments
  const size_t count = std::min(elements, kSample);
  std::vector<float> gradient(count, 1e-3F), parameters(count), first(count), second(count);
  double best = INFINITY;
  for (int i = 0; i < 3; ++i) {
    Stopwatch watch;
    global_norm(device, gradient);
    adam_step(device, {}, gradient, parameters, first, second);
    best = std::min(best, watch.seconds());
  }
  return best * static_cast<double>(elements) / static_cast<double>(count);
}

// Operations of an iteration, up to a constant factor.
double iteration_flops(const MatrixRange& m) {
  const auto side = static_cast<double>(std::min(m.rows, m.cols));
  return 2 * side * static_cast<double>(m.size()) + side * side * side;
}

// Muon's part of an update, from the first of its matrices, one for each thread.
double muon_seconds(const Device& device, std::span<const MatrixRange> matrices) {
  if (matrices.empty()) return 0;
  const size_t size = matrices[0].size();
  const size_t count = std::min(matrices.size(), static_cast<size_t>(device.threads()));
  std::vector<MatrixRange> sample;
  for (size_t i = 0; i < count; ++i) {
    sample.push_back({i * size, matrices[0].rows, matrices[0].cols});
  }
  std::vector<float> gradient(count * size, 1e-3F), parameters(count * size),
      momentum(count * size);
  double best = INFINITY;
  for (int i = 0; i < 3; ++i) {
    Stopwatch watch;
    muon_step(device, {}, sample, gradient, parameters, momentum);
    best = std::min(best, watch.seconds());
  }
  double flops = 0;
  for (const MatrixRange& m : matrices) flops += iteration_flops(m);
  return best * flops / (iteration_flops(sample[0]) * static_cast<double>(count));
}

// An update reads and writes about four times as much memory as a copy, and neither computes much.
double adam_seconds(Gpu& gpu, const DeviceBuffer& gradient) {
  constexpr double kCopies = 4;
  const DeviceBuffer other(DeviceKind::kGpu, gradient.size(), "a copy");
  double best = INFINITY;
  for (int i = 0; i < 3; ++i) {
    gpu.wait();
    Stopwatch watch;
    gpu.copy(other.data(), gradient.data(), gradient.size());
    gpu.wait();
    best = std::min(best, watch.seconds());
  }
  return kCopies * best;
}

// Muon's part of an update on a GPU, on copies in its memory. A call also allocates memory and
// frees it, which a run does once: the difference between two calls, of which one has all matrices
// twice, is without that.
double muon_seconds(const Device& device, DType type, std::span<const MatrixRange> matrices,
                    const DeviceBuffer& gradient) {
  if (matrices.empty()) return 0;
  const size_t elements = gradient.size() / sizeof(float);
  const DeviceBuffer parameters(DeviceKind::kGpu, gradient.size(), "a copy");
  const DeviceBuffer momentum(DeviceKind::kGpu, gradient.size(), "a copy");
  device.gpu()->clear(parameters.data(), parameters.size());
  device.gpu()->clear(momentum.data(), momentum.size());
  std::vector<MatrixRange> twice(matrices.begin(), matrices.end());
  twice.insert(twice.end(), matrices.begin(), matrices.end());
  // As among several workers, whose choice of algorithms is not to be changed by a measurement.
  const MuonStep options{.products = type, .timed = false};
  auto seconds = [&](std::span<const MatrixRange> all) {
    double best = INFINITY;
    for (int i = 0; i < 4; ++i) {
      device.gpu()->wait();
      Stopwatch watch;
      muon_step(device, options, all, {gradient.as<float>(), elements},
                {parameters.as<float>(), elements}, {momentum.as<float>(), elements});
      device.gpu()->wait();
      best = std::min(best, watch.seconds());
    }
    return best;
  };
  return std::max(0.0, seconds(twice) - seconds(matrices));
}

double tokens_of(const PackedBatch& micro) {
  return static_cast<double>(micro.source.size() + micro.target_out.size());
}

// Forward and backward passes of micro-batches, timed by the wall clock, on any device.
class TimedPasses {
 public:
  TimedPasses(const OpenedDevice& opened, Transformer& model, const TrainOptions& options,
              std::span<float> parameters, const ReadyBatch& ready)
      : device_(opened.device),
        model_(model),
        options_(options),
        ready_(ready),
        weights_(device_, model, parameters, opened.type),
        gradient_(device_.kind(), parameters.size() * sizeof(float), "a gradient"),
        sums_(device_.kind(), sizeof(LossSums), "loss sums"),
        arena_(device_.kind()) {}

  struct Seconds {
    double forward = 0;
    double backward = 0;
  };
  Seconds run(const PackedBatch& micro) {
    wait();
    Stopwatch watch;
    Seconds seconds;
    Transformer::StepEvents events;
    events.loss_done = [&](const LossSums&) {
      wait();
      seconds.forward = watch.lap();
    };
    Transformer::StepInput input{.batch = micro};
    input.seed = static_cast<uint64_t>(options_.seed);
    input.step = 1;
    input.loss_scale = 1.0F / static_cast<float>(ready_.batch.target_tokens);
    input.smoothing = static_cast<float>(options_.smoothing);
    if (device_.gpu() != nullptr) input.sums = sums_.as<LossSums>();
    const std::span<float> gradient(gradient_.as<float>(), gradient_.size() / sizeof(float));
    model_.forward_backward(device_, input, weights_.view(), gradient, arena_, events);
    wait();
    seconds.backward = watch.lap();
    return seconds;
  }
  double adam() const {
    return device_.gpu() != nullptr ? adam_seconds(*device_.gpu(), gradient_)
                                    : adam_seconds(device_, gradient_.size() / sizeof(float));
  }
  double muon() const {
    const MuonPlan plan = muon_plan(model_.layout(), options_.optimizer);
    return device_.gpu() != nullptr
               ? muon_seconds(device_, weights_.view().type, plan.matrices, gradient_)
               : muon_seconds(device_, plan.matrices);
  }

 private:
  void wait() const {
    if (device_.gpu() != nullptr) device_.gpu()->wait();
  }

  const Device& device_;
  Transformer& model_;
  const TrainOptions& options_;
  const ReadyBatch& ready_;
  DeviceWeights weights_;
  DeviceBuffer gradient_;
  DeviceBuffer sums_;
  Arena arena_;
};

}  // namespace

ComputeTimes measure_compute(const OpenedDevice& opened, Transformer& model,
                             const TrainOptions& options, std::span<float> parameters,
                             const ReadyBatch& ready, double budget) {
  TimedPasses passes(opened, model, options, parameters, ready);
  ComputeTimes times;
  if (ready.micro_batches.empty()) return times;
  double whole = 0;
  for (const PackedBatch& micro : ready.micro_batches) whole += tokens_of(micro);
  Stopwatch all;
  auto one_pass = [&] {  // cut short by the budget, and then scaled to the whole share
    TimedPasses::Seconds seen;
    double tokens = 0;
    for (const PackedBatch& micro : ready.micro_batches) {
      const TimedPasses::Seconds now = passes.run(micro);
      seen.forward += now.forward;
      seen.backward += now.backward;
      tokens += tokens_of(micro);
      if (all.seconds() > budget) break;
    }
    return TimedPasses::Seconds{seen.forward * whole / tokens, seen.backward * whole / tokens};
  };
  passes.run(ready.micro_batches.front());  // creates primitives and buffers
  // The fastest of a few long passes counts, because other load only makes a pass longer. Short
  // passes are averaged over a second: a host under a CPU quota would look fast by its fastest.
  constexpr size_t kFew = 3;
  constexpr size_t kMost = 1000;
  const double enough = std::min(1.0, budget / 2);
  std::vector<TimedPasses::Seconds> seen;
  double last = 0;  // seconds of the latest pass; the first is often slower than the rest
  do {
    const Stopwatch one;
    seen.push_back(one_pass());
    last = one.seconds();
  } while (seen.size() < kMost &&
           (all.seconds() < enough || (seen.size() < kFew && all.seconds() < budget) ||
            (seen.size() < 2 && last < budget)));
  auto of = [](const TimedPasses::Seconds& s) { return s.forward + s.backward; };
  TimedPasses::Seconds counts = *std::min_element(
      seen.begin(), seen.end(), [&](const auto& x, const auto& y) { return of(x) < of(y); });
  if (seen.size() > kFew) {
    counts = {};
    for (const TimedPasses::Seconds& pass : seen) {
      counts.forward += pass.forward / static_cast<double>(seen.size());
      counts.backward += pass.backward / static_cast<double>(seen.size());
    }
  }
  times.forward = counts.forward;
  times.backward = counts.backward;
  times.last_backward = counts.backward * tokens_of(ready.micro_batches.back()) / whole;
  times.muon = passes.muon();
  times.optimizer = passes.adam() + times.muon;
  return times;
}

namespace {

// A choice that is worth a different rounding, and that noise does not make.
constexpr double kLeastGain = 1.1;
// Larger passes take long and gain more: bf16 rounds each weight once for all tokens.
constexpr size_t kProbeTokens = 256;  // of the target

// The first sentences, at least one.
PackedBatch first_sentences(const PackedBatch& all) {
  size_t count = 1;
  while (count + 1 < all.target_offsets.size() && all.target_offsets[count] < kProbeTokens) ++count;
  const auto end_of = [&](const std::vector<uint32_t>& offsets) {
    return static_cast<ptrdiff_t>(offsets[count]);
  };
  const auto first = [](const auto& list, ptrdiff_t n) {
    return std::vector(list.begin(), list.begin() + n);
  };
  const auto sentences = static_cast<ptrdiff_t>(count);
  PackedBatch some;
  some.source = first(all.source, end_of(all.source_offsets));
  some.target_in = first(all.target_in, end_of(all.target_offsets));
  some.target_out = first(all.target_out, end_of(all.target_offsets));
  some.source_offsets = first(all.source_offsets, sentences + 1);
  some.target_offsets = first(all.target_offsets, sentences + 1);
  some.first_source_token = first(all.first_source_token, sentences);
  some.first_target_token = first(all.first_target_token, sentences);
  return some;
}

// Time of a pass in fp32 by that in bf16: the fastest of each, because other load only makes a pass
// longer.
double gain_of_bf16(const OpenedDevice& opened, Transformer& model, const TrainOptions& options,
                    std::span<float> parameters, const ReadyBatch& ready) {
  constexpr int kRounds = 4;  // the first creates primitives and buffers
  const PackedBatch some = first_sentences(ready.micro_batches.front());
  OpenedDevice in_bf16 = opened;
  use_precision(in_bf16, Precision::kBf16);
  TimedPasses fp32(opened, model, options, parameters, ready);
  TimedPasses bf16(in_bf16, model, options, parameters, ready);
  double best[] = {INFINITY, INFINITY};
  for (int round = 0; round < kRounds; ++round) {
    const TimedPasses::Seconds a = fp32.run(some);
    const TimedPasses::Seconds b = bf16.run(some);
    if (round == 0) continue;
    best[0] = std::min(best[0], a.forward + a.backward);
    best[1] = std::min(best[1], b.forward + b.backward);
  }
  return best[0] / best[1];
}

}  // namespace

bool may_choose_precision(Job& job, const OpenedDevice& opened, const Transformer& model,
                          const TrainOptions& options) {
  if (options.device.precision != Precision::kAuto || model.options().width < kLeastWidthOfBf16) {
    return false;
  }
  return !job.any(opened.device.kind() != DeviceKind::kCpu);
}

std::optional<double> choose_precision(Job& job, OpenedDevice& opened, Transformer& model,
                                       const TrainOptions& options, std::span<float> parameters,
                                       const ReadyBatch& ready) {
  double gain = INFINITY;  // of a worker without a share
  if (!cpu_has_bf16()) {
    gain = 0;
  } else if (!ready.micro_batches.empty()) {
    gain = gain_of_bf16(opened, model, options, parameters, ready);
  }
  if (job.any(gain < kLeastGain)) return {};
  use_precision(opened, Precision::kBf16);
  return gain;
}

Capacity measure_capacity(Job& job, const OpenedDevice& opened) {
  constexpr double kRound = 0.05;  // seconds: many times what the kernel gives a thread at once
  constexpr int kRounds = 4;
  ProductProbe probe(opened.device, opened.type);
  Capacity capacity;
  for (int round = 0; round < kRounds; ++round) {
    // All workers begin together, because those of one host share its memory and its cores.
    job.barrier();
    double together[] = {probe.run(kRound)};
    job.sum(together);
    capacity.high = std::max(capacity.high, together[0]);
    capacity.low = round == 0 ? together[0] : std::min(capacity.low, together[0]);
  }
  return capacity;
}

}  // namespace reigen
