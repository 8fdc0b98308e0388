#include "base/host.h"

#include <sys/resource.h>
#include <unistd.h>

namespace reigen {

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "unknown";
  return name;
}

void lower_priority() {
  constexpr int kLow = 10;
  setpriority(PRIO_PROCESS, 0, kLow);  // on Linux, of a thread
}

}  // namespace reigen
