#include "dist/launch/process_mark.h"

#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <system_error>

#include "base/format.h"
#include "base/machine.h"

namespace reigen {
namespace {

// In which process numbers are valid.
std::string process_space() {
  std::error_code none;
  return std::filesystem::read_symlink("/proc/self/ns/pid", none).string();
}

std::string boot_of(const std::string& identity) { return identity.substr(0, identity.find('/')); }

}  // namespace

std::string process_mark(uint64_t process) {
  const std::string identity = process_identity(process);
  return identity.empty() ? "" : format("{} {} {}", process_space(), process, identity);
}

bool may_still_run(const std::string& mark) {
  std::istringstream words(mark);
  std::string space;
  uint64_t process = 0;
  std::string identity;
  if (!(words >> space >> process >> identity)) return true;  // nothing is known
  const std::string own = process_identity(static_cast<uint64_t>(getpid()));
  if (boot_of(identity) != boot_of(own)) return false;
  return space != process_space() || process_identity(process) == identity;
}

}  // namespace reigen
