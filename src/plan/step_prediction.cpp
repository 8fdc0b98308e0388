#include "plan/step_prediction.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/format.h"
#include "dist/group/single_group.h"
#include "dist/group/wire_format.h"

namespace reigen {
namespace {

// A method is fast enough when a step takes at most this many times the step without gradient
// exchange. The methods after int4 reach a higher training loss (docs/design/compression.md), so
// int4 and PowerSGD may take longer.
double fast_enough(const CompressSetting& setting) {
  const bool next_costs_loss =
      setting.method == CompressMethod::kInt4 || setting.method == CompressMethod::kPowerSgd;
  return next_costs_loss ? 1.25 : 1.15;
}

// Bytes and seconds of the gradient exchange, and the share that backward cannot hide.
void predict_traffic(const Measured& m, const ParameterLayout& layout, StepPrediction& p) {
  const LinkModel& link = m.link_for(p.setting);
  const StepTraffic t = traffic_per_step(layout, p.setting, m.workers, m.bucket);
  // The group's thread rounds to integers, between one message and the next.
  const bool blocks =
      p.setting.method == CompressMethod::kInt8 || p.setting.method == CompressMethod::kInt4;
  const double rounding = blocks ? static_cast<double>(layout.elements()) * m.compress.rounding : 0;
  const double each_byte = 1 / link.bandwidth + rounding / t.bytes;
  const double late = t.late_messages * link.latency + t.late_bytes * each_byte;
  p.bytes = t.bytes;
  p.latency = t.messages * link.latency;
  p.communication = p.latency + t.bytes * each_byte;
  const double hides = (1 - layout.first_final_at()) * m.compute.last_backward;
  p.exposed = std::max(late, p.communication - hides);
  if (m.no_spare_core) {
    const double hidden = 1 - p.exposed / p.communication;
    p.compute += hidden * (t.bytes * link.cpu + rounding);
  }
  // The all-reduce of the loss costs one more latency.
  p.latency += m.link.latency;
  p.communication += m.link.latency;
  p.exposed += m.link.latency;
}

void predict_compression(const Measured& m, size_t elements, StepPrediction& p) {
  double each = 0;
  if (p.setting.method == CompressMethod::kTopK) each = m.compress.powersgd_base;
  if (p.setting.method == CompressMethod::kPowerSgd) {
    each = m.compress.powersgd_base +
           m.compress.powersgd_per_rank * static_cast<double>(p.setting.rank);
  }
  p.compression = static_cast<double>(elements) * each;
}

// Rounding to int4 and back, per element.
double rounding_seconds(const std::vector<float>& values) {
  std::vector<std::byte> bytes(wire_bytes(Wire::kInt4, values.size()));
  std::vector<float> back(values.size());
  double best = INFINITY;
  for (int i = 0; i < 3; ++i) {
    Stopwatch watch;
    to_wire(Wire::kInt4, values, bytes.data());
    from_wire(Wire::kInt4, bytes.data(), back);
    best = std::min(best, watch.seconds());
  }
  return best / static_cast<double>(values.size());
}

}  // namespace

CompressCost measure_compress_cost(const Device& device) {
  ParameterLayout layout;
  for (int i = 0; i < 4; ++i) layout.add(format("m{}", i), 1024, 256);
  auto group = make_single_group(0);
  std::vector<float> gradient(layout.elements(), 1e-3F);
  auto time_of = [&](int64_t rank) {
    auto compressor = make_compressor(*group, device, layout,
                                      {{.method = CompressMethod::kPowerSgd, .rank = rank}, 0, 1});
    double best = INFINITY;
    for (int i = 0; i < 3; ++i) {
      Stopwatch watch;
      compressor->begin(gradient);
      compressor->finish();
      best = std::min(best, watch.seconds());
    }
    return best / static_cast<double>(layout.elements());
  };
  const double low = time_of(4);
  const double high = time_of(16);
  CompressCost cost;
  cost.powersgd_per_rank = std::max(0.0, (high - low) / 12);
  cost.powersgd_base = std::max(0.0, low - 4 * cost.powersgd_per_rank);
  cost.rounding = rounding_seconds(gradient);
  return cost;
}

StepPrediction predict_step(const Measured& m, const ParameterLayout& layout,
                            const CompressSetting& setting) {
  StepPrediction p;
  p.setting = setting;
  p.compute = m.compute.all();
  if (m.workers > 1) {
    predict_compression(m, layout.elements(), p);
    predict_traffic(m, layout, p);
  }
  p.without_gradients = m.compute.all();
  if (m.gathers_parameters && m.workers > 1) {
    const LinkModel& link = m.link_for(setting);
    const double bytes = 4 * static_cast<double>(layout.elements()) * (m.workers - 1) / m.workers;
    const double seconds = link.latency + bytes / link.bandwidth;
    p.bytes += bytes;
    p.communication += seconds;
    p.exposed += seconds;
    p.without_gradients += seconds;
  }
  p.seconds = p.compute + p.compression + p.exposed;
  return p;
}

StepPrediction predict_warmup_step(const Measured& m, const ParameterLayout& layout) {
  Measured through_hosts = m;
  through_hosts.direct.reset();
  return predict_step(through_hosts, layout, kWarmupSetting);
}

std::vector<CompressSetting> candidates() {
  std::vector<CompressSetting> all = {{},
                                      {.method = CompressMethod::kBf16},
                                      {.method = CompressMethod::kInt8},
                                      {.method = CompressMethod::kInt4}};
  for (int64_t rank : {32, 16, 8, 4}) {
    all.push_back({.method = CompressMethod::kPowerSgd, .rank = rank});
  }
  return all;
}

CompressSetting choose_setting(const Measured& m, const ParameterLayout& layout) {
  std::vector<StepPrediction> all;
  double limit = INFINITY;
  // A more exact setting is worth a few percent: 3% of a step that is fast enough, 10% where the
  // link is too slow for every setting.
  constexpr double kAsFast = 1.03;
  constexpr double kSlightlySlower = 1.1;
  for (const CompressSetting& setting : candidates()) {
    if (m.only_direct && computed_on_host(setting)) continue;
    const StepPrediction p = all.emplace_back(predict_step(m, layout, setting));
    limit = std::min(limit, kSlightlySlower * p.seconds);
    if (p.seconds > fast_enough(setting) * p.without_gradients) continue;
    limit = kAsFast * p.seconds;
    break;
  }
  return std::find_if(all.begin(), all.end(),
                      [&](const StepPrediction& p) { return p.seconds <= limit; })
      ->setting;
}

Measured simulate(const Measured& m, int workers, double bandwidth, double latency,
                  bool same_share) {
  Measured other = m;
  other.workers = workers;
  const double share = same_share ? 1.0 : static_cast<double>(m.workers) / workers;
  other.compute.forward *= share;
  other.compute.backward *= share;
  other.compute.last_backward = std::min(m.compute.last_backward, other.compute.backward);
  if (bandwidth > 0) {
    other.link.bandwidth = bandwidth;
    other.direct.reset();
  }
  // Every worker sends to every other, and each further peer costs the sender a tenth of the
  // measured latency, at least 5 microseconds.
  auto grow = [&](LinkModel& link) {
    const double each = std::max(5e-6, link.latency / 10);
    if (latency > 0) link.latency = latency;
    link.latency += 2 * each * std::max(0, workers - m.workers);
  };
  grow(other.link);
  if (other.direct) grow(*other.direct);
  return other;
}

StepVerdict verdict(const StepPrediction& p) {
  if (p.seconds <= 0) return {};
  const Decision decision = decide(
      p.compute / p.seconds,
      {{Cause::kNetwork, p.exposed / p.seconds}, {Cause::kCompression, p.compression / p.seconds}});
  return {.cause = decision.cause,
          .latency_bound = decision.cause == Cause::kNetwork && p.latency > p.communication / 2};
}

double usual_seconds(std::vector<double> seconds_by_rank) {
  if (seconds_by_rank.empty()) return 0;
  std::sort(seconds_by_rank.begin(), seconds_by_rank.end());
  return seconds_by_rank[(seconds_by_rank.size() - 1) / 2];
}

}  // namespace reigen
