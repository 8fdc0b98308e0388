// The record of a worker process: its CPU time, its waiting for a core, and the cores it may use,
// over about one second.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "base/clock.h"
#include "observe/record/field.h"

namespace reigen {

struct ProcessRecord {
  uint64_t step = 0;
  double time = unix_now();
  double seconds = 0;
  std::string machine;
  std::string cores;
  uint64_t core_count = 0;
  double core_limit = 0;
  uint64_t memory_limit = 0;
  uint64_t threads = 0;
  double cpu = 0;
  std::optional<double> run_delay;
  double throttled = 0;
  std::optional<double> input_cpu;
  double input_delay = 0;
  double cores_busy = 0;
  double stolen = 0;
  uint64_t major_faults = 0;
  bool operator==(const ProcessRecord&) const = default;

  static constexpr RecordKind kKind = {
      "process",
      "Counters of a worker process over about one second. A figure that the system hides is "
      "absent.",
      "0.2"};
  static constexpr auto fields() {
    using R = ProcessRecord;
    return std::tuple{
        field(&R::step, "step", kCount, "last finished step").since("0.2"),
        field(&R::time, "time", kUnixTime, "end of the interval").since("0.2"),
        field(&R::seconds, "seconds", kSampledSeconds, "length of the interval")
            .since("0.2")
            .over_steps(Combine::kSum),
        field(&R::machine, "machine", kNoUnit,
              "identifies the running kernel: processes with the same value share cores")
            .since("0.2"),
        field(&R::cores, "cores", kNoUnit, "cores that the process may run on: \"0-3,8\"")
            .since("0.2"),
        field(&R::core_count, "core_count", kCount, "number of those cores").since("0.2"),
        field(&R::core_limit, "core_limit", kNoUnit,
              "cores that a CPU quota of its control group grants; absent without one")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::memory_limit, "memory_limit", kBytes,
              "memory that its control group may use; absent without a limit")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::threads, "threads", kCount, "threads that compute (--threads)")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::cpu, "cpu", kSampledSeconds, "CPU time of the process")
            .since("0.2")
            .over_steps(Combine::kSum),
        field(&R::run_delay, "run_delay", kSampledSeconds,
              "time in which its threads were runnable and waited for a core, summed over the "
              "threads")
            .since("0.2"),
        field(&R::throttled, "throttled", kSampledSeconds,
              "time in which the CPU quota of its control group stopped threads of that group, "
              "summed over the cores; part of run_delay")
            .since("0.2")
            .omitted_when_empty()
            .over_steps(Combine::kSum),
        field(&R::input_cpu, "input_cpu", kSampledSeconds,
              "CPU time of the thread that reads and packs batches")
            .since("0.2"),
        field(&R::input_delay, "input_delay", kSampledSeconds,
              "time in which that thread was runnable and waited for a core")
            .since("0.2")
            .omitted_when_empty()
            .over_steps(Combine::kSum),
        field(&R::cores_busy, "cores_busy", kSampledSeconds,
              "time in which the cores it may run on were busy with any process, summed over the "
              "cores")
            .since("0.2")
            .over_steps(Combine::kSum),
        field(&R::stolen, "stolen", kSampledSeconds,
              "time that the hypervisor gave to others, summed over those cores")
            .since("0.2")
            .omitted_when_empty()
            .over_steps(Combine::kSum),
        field(&R::major_faults, "major_faults", kCount,
              "pages that had to be read from disk before the process could continue")
            .since("0.2")
            .omitted_when_empty()
            .over_steps(Combine::kSum)};
  }
  // Divided by "seconds", or by "delay_known" and "input_known", which are the times for which
  // run_delay and input_cpu are known.
  static constexpr auto derived() {
    using R = ProcessRecord;
    return std::array{
        Derived<R>{"core_seconds",
                   [](const R& r) { return r.seconds * static_cast<double>(r.core_count); },
                   Combine::kSum},
        Derived<R>{"delay", [](const R& r) { return r.run_delay.value_or(0); }, Combine::kSum},
        Derived<R>{"delay_known", [](const R& r) { return r.run_delay ? r.seconds : 0; },
                   Combine::kSum},
        Derived<R>{"input_running", [](const R& r) { return r.input_cpu.value_or(0); },
                   Combine::kSum},
        Derived<R>{"input_known", [](const R& r) { return r.input_cpu ? r.seconds : 0; },
                   Combine::kSum}};
  }
};

}  // namespace reigen
