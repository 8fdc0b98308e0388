#include "plan/link_probe.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <string>

#include "base/clock.h"
#include "base/statistics.h"
#include "dist/group/clock_offset.h"

namespace reigen {
namespace {

constexpr size_t kSegment = 1 << 20;  // bytes

double segments_of(double bytes) {
  return std::max(1.0, std::ceil(bytes / static_cast<double>(kSegment)));
}

// The values of rank `root`, on all ranks.
CommStatus broadcast_values(Group& group, int root, std::span<double> values) {
  if (group.rank() != root) std::fill(values.begin(), values.end(), 0.0);
  return group.sum(values).wait();
}

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Round trips of one byte; their seconds, measured by `from`.
CommStatus ping(Group& group, int from, int to, int times, std::vector<double>& seconds) {
  std::byte byte{};
  const std::span<std::byte> one(&byte, 1);
  for (int i = 0; i < times; ++i) {
    Stopwatch watch;
    CommStatus status;
    if (group.rank() == from) {
      status = group.send(one, to).wait();
      if (status.ok()) status = group.receive(one, to).wait();
      seconds.push_back(watch.seconds());
    } else if (group.rank() == to) {
      status = group.receive(one, from).wait();
      if (status.ok()) status = group.send(one, from).wait();
    }
    if (!status.ok()) return status;
  }
  return {};
}

// As training sends gradients: one segment after the other without a pause, so that no burst builds
// up.
CommStatus reduce_in_segments(Group& group, std::span<float> data) {
  constexpr size_t kElements = kSegment / sizeof(float);
  std::vector<Pending> pending;
  for (size_t at = 0; at < data.size(); at += kElements) {
    pending.push_back(group.all_reduce(data.subspan(at, std::min(kElements, data.size() - at))));
  }
  CommStatus status;
  for (const Pending& segment : pending) {
    CommStatus ended = segment.wait();
    if (status.ok()) status = std::move(ended);
  }
  return status;
}

}  // namespace

double LinkModel::seconds(double bytes, int workers) const {
  const double n = workers;
  return workers < 2 ? 0 : segments_of(bytes) * latency + 2 * (n - 1) / n * bytes / bandwidth;
}

CommStatus measure_all_reduce(Group& group, std::span<float> data, double budget,
                              std::vector<CurvePoint>& curve) {
  constexpr double kFirst = 1 << 12;
  constexpr double kSmall = 1 << 18;
  constexpr double kGrowth = 4;
  int repeats = 5;
  Stopwatch all;
  for (double bytes = kFirst; bytes <= static_cast<double>(data.size_bytes()); bytes *= kGrowth) {
    const std::span<float> part = data.first(static_cast<size_t>(bytes) / sizeof(float));
    std::vector<double> times;
    const double cpu = cpu_seconds();
    for (int i = 0; i <= repeats; ++i) {
      Stopwatch watch;
      const CommStatus status = reduce_in_segments(group, part);
      if (!status.ok()) return status;
      if (i > 0) times.push_back(watch.seconds());
    }
    // The smallest sizes give the latency. Other load only adds to it, so the minimum counts.
    const double time = bytes < kSmall ? *std::min_element(times.begin(), times.end())
                        : repeats > 2  ? median(times)
                                       : (times.front() + times.back()) / 2;
    double shared[] = {time, all.seconds(), (cpu_seconds() - cpu) / (repeats + 1)};
    const CommStatus status = broadcast_values(group, 0, shared);
    if (!status.ok()) return status;
    curve.push_back({bytes, shared[0], shared[2]});
    const double next = kGrowth * shared[0];  // each time
    const bool late = part.size() >= kSmallestProbe || (bytes >= kSmall && shared[1] > 2 * budget);
    if (late && shared[1] + 3 * next > budget) break;
    repeats = bytes < kSmall ? 5 : 2;
    if (shared[1] + (repeats + 1) * next > budget) repeats = 1;
  }
  return {};
}

// Least squares of relative errors, because times range from microseconds to minutes.
LinkModel fit_link(const std::vector<CurvePoint>& curve, int workers) {
  LinkModel model;
  if (curve.empty() || workers < 2) return model;
  const double n = workers;
  double s0 = 0, s1 = 0, s2 = 0, t0 = 0, t1 = 0;
  for (const CurvePoint& p : curve) {
    const double x = 2 * (n - 1) / n * p.bytes;
    const double k = segments_of(p.bytes);
    const double w = 1 / (p.seconds * p.seconds);
    s0 += w * k * k;
    s1 += w * k * x;
    s2 += w * x * x;
    t0 += w * k * p.seconds;
    t1 += w * x * p.seconds;
  }
  const double determinant = s0 * s2 - s1 * s1;
  double slope = determinant > 0 ? (s0 * t1 - s1 * t0) / determinant : 0;
  double latency = (t0 - slope * s1) / s0;
  const CurvePoint& last = curve.back();
  auto slope_of_largest = [&](double latency_then) {
    return (last.seconds - latency_then * segments_of(last.bytes)) / (2 * (n - 1) / n * last.bytes);
  };
  const CurvePoint& fastest =
      *std::min_element(curve.begin(), curve.end(),
                        [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  // Large messages decide the step time. Bursts make small messages too fast and other load makes
  // them too slow, and both bend the line; but every message has the latency.
  if (latency < 0 || slope <= 0 || latency > 1.1 * fastest.seconds ||
      std::abs(slope_of_largest(latency) / slope - 1) > 0.1) {
    // The fastest message is nearly all latency, even more so within a burst.
    const double moved = slope_of_largest(0) * 2 * (n - 1) / n * fastest.bytes;
    const double most = last.seconds / segments_of(last.bytes) / 2;
    latency = std::min(std::max(fastest.seconds - moved, fastest.seconds / 2), most);
    slope = slope_of_largest(latency);
  }
  model.cpu = last.cpu / (2 * (n - 1) / n * last.bytes);
  model.bandwidth = 1 / slope;
  model.latency = latency;
  for (const CurvePoint& p : curve) {
    model.error = std::max(model.error, std::abs(model.seconds(p.bytes, workers) / p.seconds - 1));
  }
  return model;
}

CommStatus measure_rounding(Group& group, const std::vector<CurvePoint>& curve, double& each) {
  constexpr double kLongest = 0.2;  // seconds
  const double rate = curve.back().bytes / curve.back().seconds;
  const auto bytes = static_cast<size_t>(kLongest * rate);
  const size_t elements = std::clamp<size_t>(bytes, 1 << 16, 1 << 20) & ~size_t{63};
  std::vector<float> data(elements), residual(elements);
  for (size_t i = 0; i < elements; ++i) data[i] = 1e-3F * static_cast<float>(i % 61);
  for (int round = 0; round < 2; ++round) {  // the first allocates memory
    const double before = cpu_seconds();
    const CommStatus status = group.all_reduce(data, Wire::kInt4, {residual, residual}).wait();
    if (!status.ok()) return status;
    each = (cpu_seconds() - before) / static_cast<double>(elements);
  }
  return {};
}

CommStatus measure_pair(Group& group, int from, int to, double seconds, PairLink& link) {
  constexpr int kPings = 20;
  constexpr size_t kFirst = 1 << 18;
  constexpr size_t kMost = 1 << 28;
  constexpr size_t kGrowth = 4;
  link = {.from = from, .to = to};
  std::vector<double> trips;
  CommStatus status = ping(group, from, to, kPings, trips);
  if (!status.ok()) return status;
  double facts[] = {median(trips) / 2, 0, 0};
  // The last of the rising sizes counts: a burst is used up by then.
  for (size_t bytes = kFirst; bytes <= kMost && facts[2] < seconds / kGrowth; bytes *= kGrowth) {
    std::vector<std::byte> data(bytes);
    Stopwatch watch;
    std::byte done{};
    if (group.rank() == from) {
      status = group.send(data, to).wait();
      if (status.ok()) status = group.receive({&done, 1}, to).wait();
      facts[2] = watch.seconds();
      facts[1] = static_cast<double>(bytes) / std::max(1e-6, facts[2] - facts[0]);
    } else if (group.rank() == to) {
      status = group.receive(data, from).wait();
      if (status.ok()) status = group.send({&done, 1}, from).wait();
    }
    if (status.ok()) status = broadcast_values(group, from, facts);
    if (!status.ok()) return status;
  }
  link.latency = facts[0];
  link.bandwidth = facts[1];
  return {};
}

std::vector<std::pair<int, int>> pairs_to_measure(const std::vector<int>& ranks) {
  constexpr size_t kFew = 6;
  std::vector<std::pair<int, int>> pairs;
  for (size_t i = 0; i < ranks.size(); ++i) {
    for (size_t j = i + 1; j < ranks.size(); ++j) {
      const bool neighbours = j == i + 1 || (i == 0 && j + 1 == ranks.size());
      if (ranks.size() <= kFew || neighbours) pairs.emplace_back(ranks[i], ranks[j]);
    }
  }
  return pairs;
}

CommStatus measure_pairs(Group& group, const std::vector<std::pair<int, int>>& pairs,
                         double seconds, std::vector<PairLink>& links) {
  const double each = std::min(1.0, seconds / static_cast<double>(2 * pairs.size()));
  for (const auto& [a, b] : pairs) {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      PairLink link;
      const CommStatus status = measure_pair(group, from, to, each, link);
      if (!status.ok()) return status;
      links.push_back(link);
    }
  }
  return {};
}

CommStatus measure_clocks(Group& group, std::vector<double>& ahead) {
  constexpr int kTries = 5;
  std::vector<ClockOffset> offsets;
  CommStatus status = measure_clock_offsets(group, unix_now, kTries, offsets);
  ahead.clear();
  for (const ClockOffset& offset : offsets) ahead.push_back(offset.seconds);
  return status;
}

}  // namespace reigen
