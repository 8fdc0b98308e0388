#include "plan/forecast.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/format.h"
#include "dist/group/single_group.h"
#include "dist/group/wire_format.h"

namespace reigen {
namespace {

// A method is fast enough when a step takes at most so much more than it would without exchanging
// gradients. From int4 on the next one costs loss (docs/design/compression.md), so it may take
// longer.
double fast_enough(const CompressSetting& setting) {
  const bool last_exact = setting.method == CompressMethod::kInt4;
  return last_exact || setting.method == CompressMethod::kPowerSgd ? 1.25 : 1.15;
}

// What travels in a step, and how much of it backward cannot hide.
void forecast_traffic(const Measured& m, const ParameterLayout& layout, StepForecast& f) {
  const LinkModel& link = m.link_for(f.setting);
  const StepTraffic t = traffic_per_step(layout, f.setting, m.workers, m.bucket);
  // The network's thread rounds to integers, between one message and the next.
  const bool blocks =
      f.setting.method == CompressMethod::kInt8 || f.setting.method == CompressMethod::kInt4;
  const double rounding =
      blocks ? static_cast<double>(layout.elements()) * m.compress.element_blocks : 0;
  const double each_byte = 1 / link.bandwidth + rounding / t.bytes;
  const double late = t.late_messages * link.latency + t.late_bytes * each_byte;
  f.bytes = t.bytes;
  f.latency = t.messages * link.latency;
  f.communication = f.latency + t.bytes * each_byte;
  const double hides = (1 - layout.first_final_at()) * m.compute.last_backward;
  f.exposed = std::max(late, f.communication - hides);
  if (m.no_spare_core) {
    const double hidden = 1 - f.exposed / f.communication;
    f.compute += hidden * (t.bytes * link.cpu + rounding);
  }
  // Losses are summed in every step, too.
  f.latency += m.link.latency;
  f.communication += m.link.latency;
  f.exposed += m.link.latency;
}

void forecast_compression(const Measured& m, size_t elements, StepForecast& f) {
  double each = 0;
  if (f.setting.method == CompressMethod::kTopK) each = m.compress.element;
  if (f.setting.method == CompressMethod::kPowerSgd) {
    each = m.compress.element + m.compress.element_rank * static_cast<double>(f.setting.rank);
  }
  f.compression = static_cast<double>(elements) * each;
}

// There and back, for each element.
double block_seconds(const std::vector<float>& values) {
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
  cost.element_rank = std::max(0.0, (high - low) / 12);
  cost.element = std::max(0.0, low - 4 * cost.element_rank);
  cost.element_blocks = block_seconds(gradient);
  return cost;
}

StepForecast forecast(const Measured& m, const ParameterLayout& layout,
                      const CompressSetting& setting) {
  StepForecast f;
  f.setting = setting;
  f.compute = m.compute.all();
  if (m.workers > 1) {
    forecast_compression(m, layout.elements(), f);
    forecast_traffic(m, layout, f);
  }
  f.least = m.compute.all();
  if (m.shared_moments && m.workers > 1) {
    const LinkModel& link = m.link_for(setting);
    const double bytes = 4 * static_cast<double>(layout.elements()) * (m.workers - 1) / m.workers;
    const double seconds = link.latency + bytes / link.bandwidth;
    f.bytes += bytes;
    f.communication += seconds;
    f.exposed += seconds;
    f.least += seconds;
  }
  f.seconds = f.compute + f.compression + f.exposed;
  return f;
}

StepForecast forecast_warmup(const Measured& m, const ParameterLayout& layout) {
  Measured through_hosts = m;
  through_hosts.direct.reset();
  return forecast(through_hosts, layout, kWarmupSetting);
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

CompressSetting choose(const Measured& m, const ParameterLayout& layout) {
  std::vector<StepForecast> all;
  double limit = INFINITY;
  // Nothing is left out for a few percent: not of a step that is fast enough, and more of them
  // where the link is too slow for any.
  constexpr double kAsFast = 1.03;
  constexpr double kHardlySlower = 1.1;
  for (const CompressSetting& setting : candidates()) {
    if (m.only_direct && computed_on_host(setting)) continue;
    const StepForecast f = all.emplace_back(forecast(m, layout, setting));
    limit = std::min(limit, kHardlySlower * f.seconds);
    if (f.seconds > fast_enough(setting) * f.least) continue;
    limit = kAsFast * f.seconds;
    break;
  }
  return std::find_if(all.begin(), all.end(),
                      [&](const StepForecast& f) { return f.seconds <= limit; })
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
  // Every worker sends to every other: each costs the sender what two workers were seen to take
  // beyond the way itself.
  auto grow = [&](LinkModel& link) {
    const double each = std::max(5e-6, link.latency / 10);
    if (latency > 0) link.latency = latency;
    link.latency += 2 * each * std::max(0, workers - m.workers);
  };
  grow(other.link);
  if (other.direct) grow(*other.direct);
  return other;
}

StepVerdict verdict(const StepForecast& f, const LinkModel& link) {
  const double waiting = f.exposed / f.seconds;
  const std::string rate = format("{}/s", human_bytes(static_cast<uint64_t>(link.bandwidth)));
  if (waiting > kMuchWaiting && f.latency > f.communication / 2) {
    return {
        "network",
        format("the network is the bottleneck: a message takes {}, however small, and {:.0f}% of "
               "a step of {} is spent waiting for them",
               human_seconds(link.latency), 100 * waiting, human_seconds(f.seconds))};
  }
  if (waiting > kMuchWaiting) {
    return {"network",
            format("the network is the bottleneck: the link carries {}, and {:.0f}% of a "
                   "step of {} is spent waiting for it",
                   rate, 100 * waiting, human_seconds(f.seconds))};
  }
  if (f.compression > f.exposed && f.compression > kMuchWaiting * f.seconds) {
    return {"compression", format("compressing is the bottleneck: it takes {:.0f}% of a step of {}",
                                  100 * f.compression / f.seconds, human_seconds(f.seconds))};
  }
  return {"compute",
          format("computing is the bottleneck: it takes {:.0f}% of a step of {}, waiting "
                 "for the network {:.0f}%",
                 100 * f.compute / f.seconds, human_seconds(f.seconds), 100 * waiting)};
}

}  // namespace reigen
