// How this program starts itself again: as a worker, an agent, the process of the live page.
//
// A program of the relocatable archive is run by a launcher (packaging/launcher.cpp), which has to
// run it again, too. The launcher names itself in the environment with the number of the process,
// which exec keeps: a program started by this one finds a different number and is its own.
#pragma once

#include <string>

namespace reigen {

struct OwnProgram {
  std::string file;       // to execute
  std::string path;       // absolute, for people and for other hosts
  bool launched = false;  // by the launcher of the relocatable archive, whose path this is
};

// Found once, at the first call, which comes before any change of the working directory and before
// any fork.
const OwnProgram& own_program();

inline constexpr const char* kLauncherVariable = "REIGEN_LAUNCHER";  // "PROCESS:PATH"

// `link`: of the kernel to the program of this process. It leads to the program also after a new
// build took its path. Without it (no /proc) the path is the one that was executed.
OwnProgram find_own_program(const std::string& link);

}  // namespace reigen
