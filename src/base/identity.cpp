#include "base/identity.h"

#include <unistd.h>

#include <chrono>

namespace reigen {

double unix_now() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace reigen
