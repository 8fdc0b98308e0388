// Counters of this process since it began, and of the cores it may run on: who had the machine.
//
// Two readings make a record. Run delay is read from the schedstat file of each thread; a kernel or
// a sandbox without these files leaves it unknown.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "observe/record/process_record.h"

namespace reigen {

struct ProcessCounters {
  std::chrono::steady_clock::time_point when;
  double cpu = 0;  // seconds, of all threads
  // Seconds in which each thread waited for a core, by its id; nothing where they are hidden.
  std::optional<std::map<int, double>> run_delay;
  struct Thread {
    int id = 0;
    double cpu = 0;    // seconds
    double delay = 0;  // seconds in which it waited for a core
  };
  std::optional<Thread> input;  // the thread that reads and packs batches
  double throttled = 0;         // seconds, by a CPU quota; of the control group, over its cores
  uint64_t major_faults = 0;
  std::vector<int> cores;  // that the process may run on
  double core_limit = 0;
  double busy = 0;  // seconds of those cores
  double stolen = 0;
  std::string machine;
};

// `root` is for tests: a folder with proc/ and sys/. The CPU time and the cores that the process
// may run on come from system calls in any case. `input`: the id of the thread that reads batches,
// as a reading before has found it; 0 if none has.
ProcessCounters read_process_counters(const std::string& root = "", int input = 0);

// A thread that began between the readings counts in full. Where the cores that the process may run
// on have changed in between, the busy time of the cores is unknown and counts as its own CPU time.
ProcessRecord process_between(const ProcessCounters& before, const ProcessCounters& now);

// "0-3,8"
std::string list_of_cores(const std::vector<int>& cores);
// The opposite; empty for text that is no such list.
std::vector<int> cores_in(const std::string& list);

}  // namespace reigen
