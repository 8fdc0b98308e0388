#include "plan/preflight.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/format.h"
#include "base/machine.h"
#include "device/buffer.h"
#include "model/flops.h"
#include "ops/adam.h"
#include "ops/gpu_ops.h"
#include "plan/bucket_size.h"

namespace reigen {
namespace {

double adam_seconds(const Device& device, size_t elements) {
  constexpr size_t kSample = 1 << 22;  // with its moments far more than a cache holds
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

// What an update reads and writes is about four times what a copy does, and neither computes much.
double adam_seconds(GpuOps& gpu, const DeviceBuffer& gradient) {
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

double tokens_of(const PackedBatch& part) {
  return static_cast<double>(part.source.size() + part.target_out.size());
}

// Forward and backward of parts of a batch, timed by the clock on the wall, on whatever device.
class TimedPasses {
 public:
  TimedPasses(const OpenedDevice& opened, Transformer& model, const TrainOptions& options,
              std::span<const float> parameters, const ReadyBatch& ready)
      : device_(opened.device),
        model_(model),
        options_(options),
        ready_(ready),
        weights_(device_, model, {const_cast<float*>(parameters.data()), parameters.size()},
                 opened.type),
        gradient_(device_.kind(), parameters.size() * sizeof(float), "a gradient"),
        sums_(device_.kind(), sizeof(LossSums), "loss sums"),
        arena_(device_.kind()) {}

  struct Seconds {
    double forward = 0;
    double backward = 0;
  };
  Seconds run(const PackedBatch& part) {
    wait();
    Stopwatch watch;
    Seconds seconds;
    Transformer::StepEvents events;
    events.loss_done = [&] {
      wait();
      seconds.forward = watch.lap();
    };
    Transformer::StepInput input{.batch = part};
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
  double optimizer_seconds() const {
    if (device_.gpu() != nullptr) return adam_seconds(*device_.gpu(), gradient_);
    return adam_seconds(device_, gradient_.size() / sizeof(float));
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

bool begun(const Counters& counters) { return counters.step > 0 && counters.workers > 1; }

void measure_links(Job& job, const Device& device, Group* direct, size_t elements, double budget,
                   Preflight& flight) {
  const size_t most = std::max(elements, kLeastProbe);
  std::vector<float> data(most);
  job.check(measure_all_reduce(job.membership()->group(), data, budget, flight.curve));
  if (direct == nullptr) return;
  GpuOps& gpu = *device.gpu();
  const DeviceBuffer there(DeviceKind::kGpu, most * sizeof(float), "a gradient to measure with");
  const std::span<float> floats(there.as<float>(), most);
  gpu.clear(there.data(), there.size());
  gpu.wait();
  job.check(measure_all_reduce(*direct, floats, budget / 2, flight.direct_curve));
}

// Of this worker's machine: none is left for the threads that exchange gradients.
bool all_cores_compute(Job& job, const Device& device) {
  if (device.gpu() != nullptr) return false;
  const std::vector<Member>& members = job.membership()->control().members();
  const std::string here = members[static_cast<size_t>(job.rank())].machine();
  const auto workers = std::count_if(members.begin(), members.end(),
                                     [&](const Member& m) { return m.machine() == here; });
  return workers * device.threads() >= usable_cores();
}

std::string warn_of_slowest(const std::vector<double>& compute_by_rank) {
  constexpr double kUneven = 1.5;
  const auto [quickest, slowest] =
      std::minmax_element(compute_by_rank.begin(), compute_by_rank.end());
  if (*slowest <= kUneven * *quickest) return "";
  return format(
      "rank {} computes its share in {}, rank {} in {}: everybody waits for the slowest; `reigen "
      "doctor` says more",
      slowest - compute_by_rank.begin(), human_seconds(*slowest),
      quickest - compute_by_rank.begin(), human_seconds(*quickest));
}

std::string warn_of_waiting(const StepForecast& f, const StepForecast& better, bool chosen_now,
                            const std::string& rate) {
  std::string warning = format("this link carries {}: a step will take {}, {} of them waiting",
                               rate, human_seconds(f.seconds), human_seconds(f.exposed));
  if (better.setting != f.setting && better.seconds < 0.9 * f.seconds) {
    warning += chosen_now ? format("; --compress auto brings it to {} ({})",
                                   human_seconds(better.seconds), text_of(better.setting))
                          : format("; --compress {} brings it to {}", text_of(better.setting),
                                   human_seconds(better.seconds));
  } else if (better.exposed > kMuchWaiting * better.seconds) {
    warning += "; a larger batch would make more of each exchange";
  }
  return warning;
}

std::string warn_of_warmup(uint64_t steps, const StepForecast& first, const std::string& rate) {
  if (first.exposed <= kMuchWaiting * first.seconds) return "";
  return format(
      "this link carries {}: the first steps ({}, the warm-up) will take {} each, {} of them "
      "waiting; --compress-warmup makes them fewer",
      rate, with_commas(steps), human_seconds(first.seconds), human_seconds(first.exposed));
}

}  // namespace

ComputeTimes measure_compute(const OpenedDevice& opened, Transformer& model,
                             const TrainOptions& options, std::span<const float> parameters,
                             const ReadyBatch& ready, double budget) {
  TimedPasses passes(opened, model, options, parameters, ready);
  ComputeTimes times;
  if (ready.parts.empty()) return times;
  double whole = 0;
  for (const PackedBatch& part : ready.parts) whole += tokens_of(part);
  Stopwatch all;
  auto one_pass = [&] {  // scaled to a whole one where it takes too long
    TimedPasses::Seconds seen;
    double tokens = 0;
    for (const PackedBatch& part : ready.parts) {
      const TimedPasses::Seconds now = passes.run(part);
      seen.forward += now.forward;
      seen.backward += now.backward;
      tokens += tokens_of(part);
      if (all.seconds() > budget) break;
    }
    return TimedPasses::Seconds{seen.forward * whole / tokens, seen.backward * whole / tokens};
  };
  passes.run(ready.parts.front());  // makes primitives and buffers
  // Of a few long passes the quickest counts: what disturbs one makes it longer. Short ones are
  // taken on average over a second, or a host that may compute only now and then would look quick.
  constexpr size_t kFew = 3;
  constexpr size_t kMost = 1000;
  const double enough = std::min(1.0, budget / 2);
  std::vector<TimedPasses::Seconds> seen;
  double last = 0;  // seconds of a pass; the first one is rarely a fair one
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
  times.last_backward = counts.backward * tokens_of(ready.parts.back()) / whole;
  times.optimizer = passes.optimizer_seconds();
  return times;
}

Preflight measure_job(Job& job, Group* direct, const OpenedDevice& opened, Transformer& model,
                      const TrainOptions& options, std::span<const float> parameters,
                      const ReadyBatch& ready, double budget) {
  Preflight flight;
  const auto rank = static_cast<size_t>(job.rank());
  const auto size = static_cast<size_t>(job.size());
  measure_links(job, opened.device, direct, model.layout().elements(), budget / 2, flight);
  // All compute at the same time, as they will: workers of a machine share its memory.
  const ComputeTimes mine = measure_compute(opened, model, options, parameters, ready, budget / 2);
  CompressCost cost = measure_compress_cost(host_device(opened.device, options.threads));
  job.check(measure_rounding(job.membership()->group(), flight.curve, cost.element_blocks));
  // A row for each worker, summed into what all know.
  constexpr size_t kColumns = 8;
  std::vector<double> table(kColumns * size + 1);
  if (job.first()) table.back() = static_cast<double>(asked_bucket(options.workers));
  const double row[kColumns] = {
      mine.forward,        mine.backward,
      mine.optimizer,      mine.last_backward,
      cost.element,        cost.element_rank,
      cost.element_blocks, all_cores_compute(job, opened.device) ? 1.0 : 0.0};
  std::copy_n(row, kColumns, table.data() + kColumns * rank);
  job.sum(table);
  Measured& m = flight.measured;
  m.workers = job.size();
  m.shared_moments = options.workers.shard_optimizer;
  m.only_direct = options.workers.transport == Transport::kNccl;
  m.link = fit(flight.curve, job.size());
  if (direct != nullptr) m.direct = fit(flight.direct_curve, job.size());
  m.bucket = table.back() > 0
                 ? static_cast<size_t>(table.back())
                 : measured_bucket(model.layout().elements(),
                                   direct != nullptr ? flight.direct_curve : flight.curve);
  size_t slowest = 0;
  for (size_t r = 0; r < size; ++r) {
    const double* other = table.data() + kColumns * r;
    flight.compute_by_rank.push_back(other[0] + other[1] + other[2]);
    if (flight.compute_by_rank[r] > flight.compute_by_rank[slowest]) slowest = r;
  }
  const double* worst = table.data() + kColumns * slowest;
  m.compute = {worst[0], worst[1], worst[2], worst[3]};
  const double moving =
      m.link.cpu *
      traffic_per_step(model.layout(), {.method = CompressMethod::kInt4}, m.workers, m.bucket)
          .bytes /
      static_cast<double>(model.layout().elements());
  m.compress = {worst[4], worst[5], std::max(0.0, worst[6] - moving)};
  m.no_spare_core = worst[7] > 0;
  return flight;
}

double measure_capacity(Job& job, const OpenedDevice& opened) {
  double none[] = {0.0};
  job.sum(none);  // all begin together: workers of a machine share its memory
  double capacity[] = {measure_flops(opened.device, opened.type)};
  job.sum(capacity);
  return capacity[0];
}

CompressSetting known_compression(const TrainOptions& options, const Counters& counters) {
  const CompressSetting& given = options.workers.compress;
  return given.method == CompressMethod::kAuto && begun(counters)
             ? parse_compress(counters.compress)
             : given;
}

uint64_t warmup_steps(const TrainOptions& options) {
  constexpr int64_t kMost = 1000;
  constexpr uint64_t kOpenEnd = 500;
  const int64_t asked = options.workers.compress_warmup;
  if (asked >= 0) return static_cast<uint64_t>(asked);
  if (options.max_steps == 0) return kOpenEnd;
  return static_cast<uint64_t>(std::min(kMost, options.max_steps / 10));
}

void choose_compression(const TrainOptions& options, const Preflight& preflight,
                        const ParameterLayout& layout, Counters& counters) {
  CompressSetting setting = known_compression(options, counters);
  if (setting.method == CompressMethod::kAuto) setting = choose(preflight.measured, layout);
  counters.compress = text_of(setting);
  if (options.workers.compress_warmup >= 0 || !begun(counters)) {
    counters.compress_warmup = warmup_steps(options);
  }
}

PreflightReport report_of(const Preflight& preflight, const ParameterLayout& layout,
                          const TrainOptions& options, const Counters& counters) {
  const Measured& m = preflight.measured;
  const CompressSetting setting = parse_compress(counters.compress);
  const StepForecast f = forecast(m, layout, setting);
  const LinkModel& link = m.link_for(setting);
  const std::string rate = format("{}/s", human_bytes(static_cast<uint64_t>(link.bandwidth)));
  PreflightReport report;
  report.forecast = {.step = counters.step,
                     .method = counters.compress,
                     .seconds = f.seconds,
                     .compute = f.compute,
                     .compression = f.compression,
                     .exposed = f.exposed,
                     .bytes = f.bytes,
                     .bandwidth = link.bandwidth,
                     .latency = link.latency};
  const bool automatic = options.workers.compress.method == CompressMethod::kAuto;
  const std::string compressing =
      f.compression > 0 ? format("{} compressing, ", human_seconds(f.compression)) : "";
  report.line = format(
      "the link carries {} with {:.2f} ms: a step should take {}, {} of them computing, {}{} "
      "waiting; {}{}",
      rate, 1e3 * link.latency, human_seconds(f.seconds), human_seconds(f.compute), compressing,
      human_seconds(f.exposed),
      automatic ? (begun(counters) ? "auto had chosen " : "auto chose ") : "compression ",
      counters.compress);
  report.slow_worker = warn_of_slowest(preflight.compute_by_rank);
  if (has_warmup(setting) && counters.step < counters.compress_warmup) {
    const StepForecast first = forecast_warmup(m, layout);
    const uint64_t steps = counters.compress_warmup - counters.step;
    report.line += format(" after a warm-up of {} steps at {}", with_commas(steps),
                          human_seconds(first.seconds));
    report.slow_warmup = warn_of_warmup(steps, first, rate);
  }
  if (f.exposed > kMuchWaiting * f.seconds) {
    // What a run has recorded stays until another method is asked for by name.
    report.warning =
        warn_of_waiting(f, forecast(m, layout, choose(m, layout)), !begun(counters), rate);
  }
  return report;
}

}  // namespace reigen
