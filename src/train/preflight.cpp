#include "train/preflight.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/format.h"
#include "model/flops.h"
#include "ops/adam.h"

namespace reigen {
namespace {

double optimizer_seconds(const Device& device, size_t elements) {
  constexpr size_t kSample = 1 << 20;
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

double tokens_of(const PackedBatch& part) {
  return static_cast<double>(part.source.size() + part.target_out.size());
}

}  // namespace

ComputeTimes measure_compute(const Device& device, Transformer& model, const TrainOptions& options,
                             std::span<const float> parameters, const ReadyBatch& ready,
                             double budget) {
  std::vector<float> gradient(model.layout().elements());
  std::span<float> weights(const_cast<float*>(parameters.data()), parameters.size());
  Arena arena;
  ComputeTimes times;
  Stopwatch all;
  double tokens = 0;
  double whole = 0;
  for (const PackedBatch& part : ready.parts) whole += tokens_of(part);
  double seen_forward = 0;
  double seen_backward = 0;
  bool warm = false;
  constexpr double kPasses = 3;
  while (!ready.parts.empty() &&
         (tokens == 0 || (all.seconds() < budget && tokens < kPasses * whole))) {
    for (const PackedBatch& part : ready.parts) {
      Stopwatch watch;
      double forward = 0;
      Transformer::StepEvents events;
      events.loss_done = [&] { forward = watch.lap(); };
      model.forward_backward(device,
                             {.batch = part,
                              .seed = static_cast<uint64_t>(options.seed),
                              .step = 1,
                              .loss_scale = 1.0F / static_cast<float>(ready.batch.target_tokens),
                              .smoothing = static_cast<float>(options.smoothing)},
                             weights, gradient, arena, events);
      const double backward = watch.lap();
      const bool counts = warm || all.seconds() > budget;
      if (counts) {
        seen_forward += forward;
        seen_backward += backward;
        tokens += tokens_of(part);
      }
      if (counts && all.seconds() > budget) break;
      if (!warm) {  // the first made primitives and buffers; it is timed again
        warm = true;
        break;
      }
    }
  }
  if (tokens > 0) {
    times.forward = seen_forward * whole / tokens;
    times.backward = seen_backward * whole / tokens;
    times.last_backward = seen_backward * tokens_of(ready.parts.back()) / tokens;
  }
  times.optimizer = optimizer_seconds(device, model.layout().elements());
  return times;
}

Preflight measure_crew(Crew& crew, const Device& device, Transformer& model,
                       const TrainOptions& options, std::span<const float> parameters,
                       const ReadyBatch& ready, double budget) {
  Group& group = crew.team()->group();
  Preflight flight;
  const auto rank = static_cast<size_t>(crew.rank());
  const auto size = static_cast<size_t>(crew.size());
  const double gradient_bytes = 4.0 * static_cast<double>(model.layout().elements());
  crew.check(measure_all_reduce(group, gradient_bytes, budget / 2, flight.curve));
  // All compute at the same time, as they will: workers of a machine share its memory.
  const ComputeTimes mine = measure_compute(device, model, options, parameters, ready, budget / 2);
  const CompressCost cost = measure_compress_cost(device);
  std::vector<double> table(6 * size);
  double* row = table.data() + 6 * rank;
  row[0] = mine.forward;
  row[1] = mine.backward;
  row[2] = mine.optimizer;
  row[3] = mine.last_backward;
  row[4] = cost.element;
  row[5] = cost.element_rank;
  crew.sum(table);
  Measured& m = flight.measured;
  m.workers = crew.size();
  m.link = fit(flight.curve, crew.size());
  size_t slowest = 0;
  for (size_t r = 0; r < size; ++r) {
    const double* other = table.data() + 6 * r;
    flight.compute_by_rank.push_back(other[0] + other[1] + other[2]);
    if (flight.compute_by_rank[r] > flight.compute_by_rank[slowest]) slowest = r;
  }
  const double* worst = table.data() + 6 * slowest;
  m.compute = {worst[0], worst[1], worst[2], worst[3]};
  m.compress = {worst[4], worst[5]};
  return flight;
}

double measure_capacity(Crew& crew, const OpenedDevice& opened) {
  double none[] = {0.0};
  crew.sum(none);  // all begin together: workers of a machine share its memory
  double capacity[] = {measure_flops(opened.device, opened.type)};
  crew.sum(capacity);
  return capacity[0];
}

void choose_compression(const TrainOptions& options, const Preflight& preflight,
                        const ParameterLayout& layout, Counters& counters) {
  constexpr int64_t kMostWarmup = 1000;
  constexpr uint64_t kOpenEnd = 500;
  const WorkerOptions& w = options.workers;
  const bool begun = counters.step > 0 && counters.workers > 1;
  if (w.compress.method != CompressMethod::kAuto) {
    counters.compress = text_of(w.compress);
  } else if (!begun) {
    counters.compress = text_of(choose(preflight.measured, layout));
  }
  if (w.compress_warmup >= 0) {
    counters.compress_warmup = static_cast<uint64_t>(w.compress_warmup);
  } else if (!begun) {
    counters.compress_warmup =
        options.max_steps > 0 ? static_cast<uint64_t>(std::min(kMostWarmup, options.max_steps / 10))
                              : kOpenEnd;
  }
}

PreflightReport report_of(const Preflight& preflight, const ParameterLayout& layout,
                          const TrainOptions& options, const Counters& counters) {
  constexpr double kMuch = 0.3;
  constexpr double kUneven = 1.5;
  const Measured& m = preflight.measured;
  const CompressSetting setting = parse_compress(counters.compress);
  const StepForecast f = forecast(m, layout, setting);
  const std::string rate = format("{}/s", human_bytes(static_cast<uint64_t>(m.link.bandwidth)));
  PreflightReport report;
  report.forecast = {.step = counters.step,
                     .method = counters.compress,
                     .seconds = f.seconds,
                     .compute = f.compute,
                     .compression = f.compression,
                     .exposed = f.exposed,
                     .bytes = f.bytes,
                     .bandwidth = m.link.bandwidth,
                     .latency = m.link.latency};
  const bool automatic = options.workers.compress.method == CompressMethod::kAuto;
  report.line = format(
      "the link carries {} with {:.2f} ms: a step should take {}, {} of them computing, {} "
      "compressing, {} waiting; {}{}",
      rate, 1e3 * m.link.latency, human_seconds(f.seconds), human_seconds(f.compute),
      human_seconds(f.compression), human_seconds(f.exposed),
      automatic ? "auto chose " : "compression ", counters.compress);
  const auto [quickest, slowest] =
      std::minmax_element(preflight.compute_by_rank.begin(), preflight.compute_by_rank.end());
  if (*slowest > kUneven * *quickest) {
    report.slow_worker = format(
        "rank {} computes its share in {}, rank {} in {}: everybody waits for the slowest; "
        "`reigen doctor` says more",
        slowest - preflight.compute_by_rank.begin(), human_seconds(*slowest),
        quickest - preflight.compute_by_rank.begin(), human_seconds(*quickest));
  }
  if (f.exposed < kMuch * f.seconds) return report;
  const StepForecast better = forecast(m, layout, choose(m, layout));
  report.warning = format("this link carries {}: a step will take {}, {} of them waiting", rate,
                          human_seconds(f.seconds), human_seconds(f.exposed));
  if (!automatic && better.seconds < 0.9 * f.seconds) {
    report.warning += format("; --compress auto brings it to {} ({})",
                             human_seconds(better.seconds), text_of(better.setting));
  } else if (better.exposed > kMuch * better.seconds) {
    report.warning += "; a larger batch would make more of each exchange";
  }
  return report;
}

}  // namespace reigen
