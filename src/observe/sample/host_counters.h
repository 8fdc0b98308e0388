// Counters of the host since it booted (cores, network interfaces, disks) and its memory in use.
//
// Two readings make a sample. A reading takes some small files of /proc and /sys; bench/observe
// measures its cost.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "observe/record/records.h"

namespace reigen {

struct HostCounters {
  struct Core {
    uint64_t busy = 0;  // ticks
    uint64_t all = 0;
  };
  struct Interface {
    std::string name;
    uint64_t in = 0;  // bytes
    uint64_t out = 0;
    uint64_t speed = 0;  // bytes per second; 0 if unknown
  };
  std::chrono::steady_clock::time_point when;
  std::vector<Core> cores;
  std::vector<Interface> interfaces;
  uint64_t memory_used = 0;
  uint64_t memory_total = 0;
  uint64_t disk_read = 0;  // bytes of all disks
  uint64_t disk_written = 0;
  uint64_t tcp_sent = 0;  // segments
  uint64_t tcp_resent = 0;
  std::optional<uint64_t> memory_stall;  // microseconds
  std::optional<double> clock;           // MHz, mean of the cores
  std::optional<uint64_t> throttled;     // times
};

// `root` is for tests: a folder with proc/ and sys/. Counters that are missing there are zero.
HostCounters read_host_counters(const std::string& root = "");

// Rates between two readings. `used` is the network interface of the job. A counter that decreased
// (an interface was created again) counts as zero.
SampleRecord sample_between(const HostCounters& before, const HostCounters& now,
                            const std::string& used);

}  // namespace reigen
