// The record of a host: cores, memory, disks, network interfaces and GPUs over about one second.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "observe/record/field.h"

namespace reigen {

struct InterfaceSample {
  std::string name;
  double in = 0;
  double out = 0;
  uint64_t speed = 0;
  bool used = false;
  bool operator==(const InterfaceSample&) const = default;

  static constexpr auto fields() {
    using R = InterfaceSample;
    return std::tuple{
        field(&R::name, "name", kNoUnit, "name of the network interface"),
        field(&R::in, "in", kSampledBytesPerSecond, "bytes received per second")
            .scalar("network_in_MB_per_second", 1e6),
        field(&R::out, "out", kSampledBytesPerSecond, "bytes sent per second")
            .scalar("network_out_MB_per_second", 1e6),
        field(&R::speed, "speed", kBytesPerSecond, "nominal speed (driver); 0 if unknown"),
        field(&R::used, "used", kNoUnit, "true: workers exchange gradients over it")
            .omitted_when_empty()};
  }
};

struct GpuSample {
  std::string name;
  double utilisation = 0;
  uint64_t memory_used = 0;
  uint64_t memory_total = 0;
  double watts = 0;
  double megahertz = 0;
  bool operator==(const GpuSample&) const = default;

  static constexpr auto fields() {
    using R = GpuSample;
    return std::tuple{
        field(&R::name, "name", kNoUnit, "product name"),
        field(&R::utilisation, "utilisation", kSampledPercent,
              "time in which any kernel ran, waiting collectives included, as NVML reports it")
            .scalar("percent_as_NVML_says"),
        field(&R::memory_used, "memory_used", kBytes, "memory in use").scalar("memory_GB", 1e9),
        field(&R::memory_total, "memory_total", kBytes, "memory of the GPU"),
        field(&R::watts, "watts", kSampledWatts, "power draw").scalar("watts"),
        field(&R::megahertz, "megahertz", kSampledMegahertz, "clock of the multiprocessors")};
  }
};

struct SampleRecord {
  uint64_t step = 0;
  double time = unix_now();
  double seconds = 0;
  std::string host;
  std::vector<double> cores;
  uint64_t memory_used = 0;
  uint64_t memory_total = 0;
  double disk_read = 0;
  double disk_written = 0;
  std::vector<InterfaceSample> interfaces;
  std::vector<GpuSample> gpus;
  bool operator==(const SampleRecord&) const = default;

  // Means over cores and GPUs, sums over the interfaces that the job uses (over all but loopback
  // when none is marked).
  double core_use() const;
  double busiest_core() const;
  double network_in() const;
  double network_out() const;
  double fastest_direction() const;
  double gpu_use() const;
  double gpu_memory() const;
  double gpu_watts() const;
  double gpu_megahertz() const;

  static constexpr RecordKind kKind = {
      "sample",
      "Counters of a host over about one second, in the log of its lowest rank. TensorBoard tags "
      "begin with `machine of rank N/`, those of GPUs with `machine of rank N/gpuM_`."};
  static constexpr auto fields() {
    using R = SampleRecord;
    return std::tuple{
        field(&R::step, "step", kCount, "last finished step"),
        field(&R::time, "time", kUnixTime, "end of the interval"),
        field(&R::seconds, "seconds", kSampledSeconds, "length of the interval")
            .over_steps(Combine::kSum),
        field(&R::host, "host", kNoUnit, "host name"),
        field(&R::cores, "cores", kSampledPercent, "busy time of each core"),
        field(&R::memory_used, "memory_used", kBytes, "memory in use on the host")
            .over_steps(Combine::kMax),
        field(&R::memory_total, "memory_total", kBytes, "memory of the host"),
        field(&R::disk_read, "disk_read", kSampledBytesPerSecond, "bytes read from all disks"),
        field(&R::disk_written, "disk_written", kSampledBytesPerSecond,
              "bytes written to all disks"),
        field(&R::interfaces, "interfaces", kNoUnit, "network interfaces"),
        field(&R::gpus, "gpus", kNoUnit, "GPUs of the host").omitted_when_empty()};
  }
  // Columns of rates are weighted with the length of the interval.
  static constexpr auto derived() {
    using R = SampleRecord;
    return std::array{
        Derived<R>{"cpu", [](const R& r) { return r.seconds * r.core_use(); }, Combine::kSum},
        Derived<R>{"busiest", [](const R& r) { return r.busiest_core(); }, Combine::kMax},
        Derived<R>{"disk_read", [](const R& r) { return r.seconds * r.disk_read; }, Combine::kSum},
        Derived<R>{"disk_written", [](const R& r) { return r.seconds * r.disk_written; },
                   Combine::kSum},
        Derived<R>{"in", [](const R& r) { return r.seconds * r.network_in(); }, Combine::kSum},
        Derived<R>{"out", [](const R& r) { return r.seconds * r.network_out(); }, Combine::kSum},
        Derived<R>{"fastest", [](const R& r) { return r.fastest_direction(); }, Combine::kMax},
        Derived<R>{"gpu", [](const R& r) { return r.seconds * r.gpu_use(); }, Combine::kSum},
        Derived<R>{"gpu_memory", [](const R& r) { return r.gpu_memory(); }, Combine::kMax},
        Derived<R>{"watts", [](const R& r) { return r.seconds * r.gpu_watts(); }, Combine::kSum},
        Derived<R>{"megahertz", [](const R& r) { return r.seconds * r.gpu_megahertz(); },
                   Combine::kSum},
        Derived<R>{"cores_percent", [](const R& r) { return r.core_use(); }, Combine::kNone,
                   [](const R&) { return true; }}};
  }
};

}  // namespace reigen
