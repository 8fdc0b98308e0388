#include "base/process/own_program.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/format.h"

namespace reigen {
namespace {

// The launcher of this process; empty if it has none.
std::string launcher() {
  const char* variable = std::getenv(kLauncherVariable);
  if (variable == nullptr) return "";
  const std::string value = variable;
  const std::string mine = format("{}:", getpid());
  return value.starts_with(mine) ? value.substr(mine.size()) : "";
}

}  // namespace

OwnProgram find_own_program(const std::string& link) {
  const std::string launched_by = launcher();
  if (!launched_by.empty()) return {launched_by, launched_by, true};
  std::error_code error;
  const std::string target = std::filesystem::read_symlink(link, error);
  if (!error) return {link, target, false};
  // AT_EXECFN: the path that was given to exec. The kernel passes its address as a number.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto* executed = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (executed == nullptr) return {"reigen", "reigen", false};  // searched in $PATH
  const std::string path = std::filesystem::canonical(executed, error);
  return error ? OwnProgram{executed, executed, false} : OwnProgram{path, path, false};
}

const OwnProgram& own_program() {
  static const OwnProgram program = find_own_program("/proc/self/exe");
  return program;
}

}  // namespace reigen
