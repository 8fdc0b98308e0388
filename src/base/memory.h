// How much memory this process uses, and how much more it could get.
#pragma once

#include <cstdint>
#include <string>

namespace reigen {

struct ProcessMemory {
  uint64_t resident_bytes = 0;
  uint64_t peak_resident_bytes = 0;
};

// Zeros where the system does not say.
ProcessMemory process_memory();

// What can still be had without swapping: what the machine has available, or less where the
// process is in a control group (a container, a batch job) with a limit. `root` is for tests: a
// folder that holds proc/ and sys/.
uint64_t available_memory(const std::string& root = "");

}  // namespace reigen
