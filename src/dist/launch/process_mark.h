// A worker's process as a launcher remembers it, to find out later whether it still runs: over a
// new connection to its host, which may have started again since.
#pragma once

#include <cstdint>
#include <string>

namespace reigen {

// Of a process of this machine, for ever. Empty if there is no such process.
std::string process_mark(uint64_t process);

// False only if the process with this mark has certainly ended: it is not here any more, or this
// machine was started again. In a different container of the machine that cannot be seen.
bool may_still_run(const std::string& mark);

}  // namespace reigen
