// What the system has counted since it started: cores, interfaces, disks; and memory in use.
//
// Two readings make a sample. A reading is five small files of /proc and /sys; see bench/observe
// for what it costs.
#pragma once

#include <chrono>
#include <cstdint>
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
    uint64_t speed = 0;  // bytes a second; 0 unknown
  };
  std::chrono::steady_clock::time_point when;
  std::vector<Core> cores;
  std::vector<Interface> interfaces;
  uint64_t memory_used = 0;
  uint64_t memory_total = 0;
  uint64_t disk_read = 0;  // bytes, all disks
  uint64_t disk_written = 0;
};

// `root` is for tests: a folder that holds proc/ and sys/. What is missing there is left at zero.
HostCounters read_host_counters(const std::string& root = "");

// Rates between two readings. `used` names the interface the job uses. A counter that went back (an
// interface made anew) counts as nothing.
SampleRecord sample_between(const HostCounters& before, const HostCounters& now,
                            const std::string& used);

}  // namespace reigen
