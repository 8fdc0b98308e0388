// The machine this process runs on: its name, cores and memory as far as this process may use them,
// and whether one of its processes still runs.
#pragma once

#include <cstdint>
#include <string>

namespace reigen {

std::string host_name();  // "unknown" if the system does not report one

// Whether an address leads to this machine only: 127.0.0.0/8 or ::1 as numbers, or "localhost".
// A name that only begins like an address ("127.0.0.1.example.org") may lead anywhere.
bool is_loopback(const std::string& address);

// Cores that this process may use: `taskset` and batch systems grant fewer than the machine has,
// and a CPU quota the time of fewer: more threads than that would be stopped while others wait for
// them.
int usable_cores();
int cores_within(int cores, double limit);  // of a quota; 0: none

// Cores that a CPU quota of this process's control groups grants (a container's limit), such as
// 0.5; 0 without one. `root` is for tests: a folder with its own proc/ and sys/.
double core_limit(const std::string& root = "");
// Seconds so far in which such quotas stopped threads of this process's control groups, summed over
// the cores; 0 without one.
double throttled_seconds(const std::string& root = "");

// The value of an option `--threads`: 0 stands for all usable cores.
unsigned thread_count(int64_t threads);

// Lowers the priority of the calling thread and of the threads that it starts afterwards.
void lower_priority();

struct ProcessMemory {
  uint64_t resident_bytes = 0;
  uint64_t peak_resident_bytes = 0;
};

// Zeros if the system does not report them.
ProcessMemory process_memory();

// Memory that can be allocated without swapping: the machine's available memory, or less if the
// process is in a control group (a container, a batch job) with a limit. `root` is for tests: a
// folder with its own proc/ and sys/.
uint64_t available_memory(const std::string& root = "");
// The least memory that a control group of this process may use, in bytes; 0 without a limit.
uint64_t memory_limit(const std::string& root = "");

enum class ProcessState {
  kRunning,
  kEnded,
  kReplaced,  // its number belongs to a process that began later (or the clock was set since)
};

// Identifies a process of this machine for ever, unlike its number: the boot and the time of its
// start. Empty if there is no such process, or if it has ended and was not waited for.
std::string process_identity(uint64_t process);

// Whether a process is stopped (SIGSTOP, Ctrl-Z, a debugger).
bool process_is_stopped(uint64_t process);

// The state of a process of this host that was seen running at `seen`, in seconds since 1970.
ProcessState process_state(uint64_t process, double seen);

}  // namespace reigen
