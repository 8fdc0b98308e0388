#include "plan/preflight.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/machine.h"
#include "device/buffer.h"
#include "device/gpu.h"
#include "plan/bucket_size.h"
#include "plan/wording.h"
#include "report/verdict/machine/thresholds.h"

namespace reigen {
namespace {

bool begun(uint64_t step, const Choices& choices) { return step > 0 && choices.workers > 1; }

// The same rule as in doctor and report.
bool waits_too_long(const StepPrediction& p) { return verdict(p).cause == Cause::kNetwork; }

void measure_links(Job& job, const Device& device, Group* direct, size_t elements, double budget,
                   Preflight& preflight) {
  const size_t most = std::max(elements, kSmallestProbe);
  std::vector<float> data(most);
  job.check(measure_all_reduce(job.membership()->group(), data, budget, preflight.curve));
  if (direct == nullptr) return;
  Gpu& gpu = *device.gpu();
  const DeviceBuffer there(DeviceKind::kGpu, most * sizeof(float), "a gradient to measure with");
  const std::span<float> floats(there.as<float>(), most);
  gpu.clear(there.data(), there.size());
  gpu.wait();
  job.check(measure_all_reduce(*direct, floats, budget / 2, preflight.direct_curve));
}

// Whether compute threads take every core of this worker's host, so that none is left for the
// threads that exchange gradients.
bool all_cores_compute(Job& job, const Device& device) {
  if (device.gpu() != nullptr) return false;
  return static_cast<int>(job.ranks_here().size()) * device.threads() >= usable_cores();
}

// The measurements of one worker. Only doubles, so that a sum over the ranks gathers all rows.
struct WorkerTimes {
  double forward = 0;
  double backward = 0;
  double optimizer = 0;
  double muon = 0;
  double last_backward = 0;
  double powersgd_base = 0;
  double powersgd_per_rank = 0;
  double rounding = 0;  // with the processor time of moving the bytes
  double no_spare_core = 0;
  double requested_bucket = 0;  // --bucket in elements; 0: to be measured

  double compute() const { return forward + backward + optimizer; }
};

std::vector<WorkerTimes> gather_times(Job& job, const WorkerTimes& mine) {
  using Columns = std::array<double, sizeof(WorkerTimes) / sizeof(double)>;
  constexpr size_t kColumns = std::tuple_size_v<Columns>;
  const auto size = static_cast<size_t>(job.size());
  std::vector<double> table(kColumns * size);
  const auto columns = std::bit_cast<Columns>(mine);
  std::copy(columns.begin(), columns.end(),
            table.begin() + static_cast<ptrdiff_t>(kColumns) * job.rank());
  job.sum(table);
  std::vector<WorkerTimes> all;
  for (size_t rank = 0; rank < size; ++rank) {
    Columns row;
    std::copy_n(table.data() + kColumns * rank, kColumns, row.begin());
    all.push_back(std::bit_cast<WorkerTimes>(row));
  }
  return all;
}

}  // namespace

Preflight measure_job(Job& job, Group* direct, const OpenedDevice& opened, Transformer& model,
                      const TrainOptions& options, std::span<float> parameters,
                      const ReadyBatch& ready, double budget) {
  Preflight preflight;
  const ParameterLayout& layout = model.layout();
  measure_links(job, opened.device, direct, layout.elements(), budget / 2, preflight);
  // All workers compute at the same time, as in training: those of one host share its memory.
  const ComputeTimes times = measure_compute(opened, model, options, parameters, ready, budget / 2);
  CompressCost cost = measure_compress_cost(host_device(opened.device, options.threads));
  job.check(measure_rounding(job.membership()->group(), preflight.curve, cost.rounding));
  const std::vector<WorkerTimes> workers = gather_times(
      job, {.forward = times.forward,
            .backward = times.backward,
            .optimizer = times.optimizer,
            .muon = times.muon,
            .last_backward = times.last_backward,
            .powersgd_base = cost.powersgd_base,
            .powersgd_per_rank = cost.powersgd_per_rank,
            .rounding = cost.rounding,
            .no_spare_core = all_cores_compute(job, opened.device) ? 1.0 : 0.0,
            .requested_bucket = static_cast<double>(requested_bucket(options.workers))});
  Measured& m = preflight.measured;
  m.workers = job.size();
  m.gathers_parameters = options.workers.shard_optimizer;
  m.only_direct = options.workers.transport == Transport::kNccl;
  m.link = fit_link(preflight.curve, job.size());
  if (direct != nullptr) m.direct = fit_link(preflight.direct_curve, job.size());
  m.bucket = workers[0].requested_bucket > 0
                 ? static_cast<size_t>(workers[0].requested_bucket)
                 : bucket_for_link(layout.elements(),
                                   direct != nullptr ? preflight.direct_curve : preflight.curve);
  for (const WorkerTimes& w : workers) preflight.compute_by_rank.push_back(w.compute());
  const WorkerTimes& slowest = *std::max_element(
      workers.begin(), workers.end(),
      [](const WorkerTimes& a, const WorkerTimes& b) { return a.compute() < b.compute(); });
  m.compute = {.forward = slowest.forward,
               .backward = slowest.backward,
               .optimizer = slowest.optimizer,
               .muon = slowest.muon,
               .last_backward = slowest.last_backward};
  const double moving =
      m.link.cpu *
      traffic_per_step(layout, {.method = CompressMethod::kInt4}, m.workers, m.bucket).bytes /
      static_cast<double>(layout.elements());
  m.compress = {.powersgd_base = slowest.powersgd_base,
                .powersgd_per_rank = slowest.powersgd_per_rank,
                .rounding = std::max(0.0, slowest.rounding - moving)};
  m.no_spare_core = slowest.no_spare_core > 0;
  return preflight;
}

void measure_host_links(Job& job, double seconds, Preflight& preflight) {
  const std::vector<int> first = first_rank_of_each_machine(job.membership()->control().members());
  if (first.size() < 2) return;
  job.check(
      measure_pairs(job.membership()->group(), pairs_to_measure(first), seconds, preflight.links));
}

CompressSetting known_compression(const TrainOptions& options, uint64_t step,
                                  const Choices& choices) {
  const CompressSetting& given = options.workers.compress;
  return given.method == CompressMethod::kAuto && begun(step, choices)
             ? parse_compress(choices.compress)
             : given;
}

uint64_t warmup_steps(const TrainOptions& options) {
  constexpr int64_t kMost = 1000;
  constexpr uint64_t kWithoutMaxSteps = 500;
  const int64_t asked = options.workers.compress_warmup;
  if (asked >= 0) return static_cast<uint64_t>(asked);
  if (options.max_steps == 0) return kWithoutMaxSteps;
  return static_cast<uint64_t>(std::min(kMost, options.max_steps / 10));
}

void choose_compression(const TrainOptions& options, const Preflight& preflight,
                        const ParameterLayout& layout, uint64_t step, Choices& choices) {
  CompressSetting setting = known_compression(options, step, choices);
  if (setting.method == CompressMethod::kAuto) setting = choose_setting(preflight.measured, layout);
  choices.compress = text_of(setting);
  if (options.workers.compress_warmup >= 0 || !begun(step, choices)) {
    choices.compress_warmup = warmup_steps(options);
  }
}

std::optional<SlowRank> slow_rank(const std::vector<double>& compute_by_rank) {
  const auto slowest = std::max_element(compute_by_rank.begin(), compute_by_rank.end());
  const double usual = usual_seconds(compute_by_rank);
  if (slowest == compute_by_rank.end() || *slowest <= kSlowRankInProbe * usual) return {};
  return SlowRank{.rank = static_cast<int>(slowest - compute_by_rank.begin()),
                  .seconds = *slowest,
                  .usual = usual};
}

bool PreflightFindings::slow_warmup() const { return warmup_steps > 0 && waits_too_long(warmup); }

PreflightFindings findings_of(const Preflight& preflight, const ParameterLayout& layout,
                              const TrainOptions& options, uint64_t step, const Choices& choices) {
  const Measured& m = preflight.measured;
  const CompressSetting setting = parse_compress(choices.compress);
  PreflightFindings found;
  found.step = predict_step(m, layout, setting);
  found.link = m.link_for(setting);
  found.automatic = options.workers.compress.method == CompressMethod::kAuto;
  found.chosen_before = begun(step, choices);
  if (has_warmup(setting) && step < choices.compress_warmup) {
    found.warmup_steps = choices.compress_warmup - step;
    found.warmup = predict_warmup_step(m, layout);
  }
  found.slow = slow_rank(preflight.compute_by_rank);
  if (waits_too_long(found.step)) {
    found.auto_step = predict_step(m, layout, choose_setting(m, layout));
  }
  return found;
}

PreflightReport report_of(const Preflight& preflight, const ParameterLayout& layout,
                          const TrainOptions& options, uint64_t step, const Choices& choices) {
  const PreflightFindings found = findings_of(preflight, layout, options, step, choices);
  const StepPrediction& predicted = found.step;
  std::vector<MeasuredLink> links;
  for (const PairLink& link : preflight.links) {
    links.push_back(
        {static_cast<uint64_t>(link.from), static_cast<uint64_t>(link.to), link.bandwidth});
  }
  const bool better = found.auto_step && found.auto_step->setting != predicted.setting &&
                      found.auto_step->seconds < predicted.seconds;
  return {.prediction = {.step = step,
                         .method = choices.compress,
                         .seconds = predicted.seconds,
                         .compute = predicted.compute,
                         .compression = predicted.compression,
                         .exposed = predicted.exposed,
                         .bytes = predicted.bytes,
                         .bandwidth = found.link.bandwidth,
                         .latency = found.link.latency,
                         .better = better ? text_of(found.auto_step->setting) : "",
                         .better_seconds = better ? found.auto_step->seconds : 0,
                         .links = std::move(links)},
          .line = preflight_line(found),
          .warning = waiting_warning(found),
          .slow_worker = found.slow ? slow_worker_warning(*found.slow) : "",
          .slow_warmup = warmup_warning(found)};
}

}  // namespace reigen
