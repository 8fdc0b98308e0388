// The record of a host: cores, memory, disks, network interfaces and GPUs over about one second. A
// figure that the system hides is absent.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
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
  double max_megahertz = 0;
  std::string slowed_by;
  std::optional<uint64_t> other_processes;
  uint64_t other_memory = 0;
  std::optional<double> other_use;
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
        field(&R::megahertz, "megahertz", kSampledMegahertz, "clock of the multiprocessors"),
        field(&R::max_megahertz, "max_megahertz", kSampledMegahertz,
              "highest clock of the multiprocessors; absent where NVML hides it")
            .since("0.2")
            .omitted_when_empty(),
        field(
            &R::slowed_by, "slowed_by", kNoUnit,
            "reasons why the clock is below its maximum, as NVML reports them: power-cap, thermal, "
            "hardware, power-brake")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::other_processes, "other_processes", kCount,
              "processes other than this job's workers that compute on the GPU; absent where NVML "
              "hides the workers' own")
            .since("0.2"),
        field(&R::other_memory, "other_memory", kBytes,
              "memory of the GPU that those processes use")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::other_use, "other_use", kSampledPercent,
              "time in which kernels of those processes ran on the multiprocessors; absent where "
              "NVML hides it")
            .since("0.2")};
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
  std::optional<double> memory_pressure;
  std::optional<double> clock;
  std::optional<uint64_t> throttled;
  double disk_read = 0;
  double disk_written = 0;
  uint64_t tcp_sent = 0;
  uint64_t tcp_resent = 0;
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
  bool gpu_slowed() const;    // any, for its temperature or by its hardware
  double gpu_others() const;  // processes of others on all GPUs
  // Of the GPU that lost most: the share of its highest clock that it did not reach, where that is
  // more than the usual variation; and the use by others. Only of GPUs that this job uses, or that
  // are in use where it is not known which those are.
  double gpu_lost_clock() const;
  double gpu_other_use() const;
  bool gpu_clock_known() const;
  bool gpu_other_use_known() const;

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
        field(&R::memory_pressure, "memory_pressure", kSampledPercent,
              "time in which any process of the host waited for memory (pressure stall "
              "information)")
            .since("0.2"),
        field(&R::clock, "clock", kSampledMegahertz,
              "mean clock of the cores; absent where a virtual machine hides it")
            .since("0.2"),
        field(&R::throttled, "throttled", kCount,
              "times that a core was slowed down for its temperature; absent where a virtual "
              "machine hides it")
            .since("0.2"),
        field(&R::disk_read, "disk_read", kSampledBytesPerSecond, "bytes read from all disks"),
        field(&R::disk_written, "disk_written", kSampledBytesPerSecond,
              "bytes written to all disks"),
        field(&R::tcp_sent, "tcp_sent", kCount, "TCP segments that the host sent")
            .since("0.2")
            .omitted_when_empty()
            .over_steps(Combine::kSum),
        field(&R::tcp_resent, "tcp_resent", kCount,
              "TCP segments that the host sent again because no acknowledgement came")
            .since("0.2")
            .omitted_when_empty()
            .over_steps(Combine::kSum),
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
        Derived<R>{"pressure", [](const R& r) { return r.seconds * r.memory_pressure.value_or(0); },
                   Combine::kSum},
        Derived<R>{"pressure_known", [](const R& r) { return r.memory_pressure ? r.seconds : 0; },
                   Combine::kSum},
        Derived<R>{"clock", [](const R& r) { return r.seconds * r.clock.value_or(0); },
                   Combine::kSum},
        Derived<R>{"clock_known", [](const R& r) { return r.clock ? r.seconds : 0; },
                   Combine::kSum},
        Derived<R>{"throttled",
                   [](const R& r) { return static_cast<double>(r.throttled.value_or(0)); },
                   Combine::kSum},
        Derived<R>{"gpu_slowed", [](const R& r) { return r.gpu_slowed() ? r.seconds : 0; },
                   Combine::kSum},
        Derived<R>{"gpu_others", [](const R& r) { return r.seconds * r.gpu_others(); },
                   Combine::kSum},
        Derived<R>{"gpu_lost_clock", [](const R& r) { return r.seconds * r.gpu_lost_clock(); },
                   Combine::kSum},
        Derived<R>{"gpu_clock_known",
                   [](const R& r) { return r.gpu_clock_known() ? r.seconds : 0; }, Combine::kSum},
        Derived<R>{"gpu_other_use", [](const R& r) { return r.seconds * r.gpu_other_use(); },
                   Combine::kSum},
        Derived<R>{"gpu_other_use_known",
                   [](const R& r) { return r.gpu_other_use_known() ? r.seconds : 0; },
                   Combine::kSum},
        Derived<R>{"cores_percent", [](const R& r) { return r.core_use(); }, Combine::kNone,
                   [](const R&) { return true; }}};
  }
};

}  // namespace reigen
