// The family of errors that a user can get, each with its own documented exit code.
//
// Libraries throw these for the unexpected (a file that is missing, a value out of range) and
// return values for the expected. A message gives the value, the limit and the remedy.
// Only cli/main.cpp turns them into an exit status.
#pragma once

#include <stdexcept>
#include <string>

namespace reigen {

// Documented in README.md and printed by `reigen help`; scripts rely on them.
enum class ExitCode : int {
  kOk = 0,
  kInternal = 1,
  kConfig = 2,
  kData = 3,
  kCheckpoint = 4,
  kComm = 5,
  kDevice = 6,
  kIo = 7,
  kDiverged = 8,
  kPreempted = 9,
  kInterrupted = 130,
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// An invalid option, YAML file or command line.
struct ConfigError : Error {
  explicit ConfigError(const std::string& m) : Error(ExitCode::kConfig, m) {}
};

// Input text or prepared data that is missing, damaged or inconsistent.
struct DataError : Error {
  explicit DataError(const std::string& m) : Error(ExitCode::kData, m) {}
};

// The operating system refused a read or a write: no space, no permission, a failing disk.
struct IoError : Error {
  explicit IoError(const std::string& m) : Error(ExitCode::kIo, m) {}
};

// A checkpoint that is missing, damaged or of a different model.
struct CheckpointError : Error {
  explicit CheckpointError(const std::string& m) : Error(ExitCode::kCheckpoint, m) {}
};

// Workers that did not join, do not match or were lost.
struct CommError : Error {
  explicit CommError(const std::string& m) : Error(ExitCode::kComm, m) {}
};

// An accelerator, or the library that drives a device, failed.
struct DeviceError : Error {
  explicit DeviceError(const std::string& m) : Error(ExitCode::kDevice, m) {}
};

// The training loss is no longer finite.
struct DivergedError : Error {
  explicit DivergedError(const std::string& m) : Error(ExitCode::kDiverged, m) {}
};

// The provider takes the machine away, and said so before; the run is saved.
struct Preempted : Error {
  explicit Preempted(const std::string& m) : Error(ExitCode::kPreempted, m) {}
};

// The user asked to stop (Ctrl-C, SIGTERM); unfinished output has been removed.
struct Interrupted : Error {
  explicit Interrupted(const std::string& m) : Error(ExitCode::kInterrupted, m) {}
};

// The exit code and message for an exception that reaches the end of a process.
struct Failure {
  ExitCode code = ExitCode::kInternal;
  std::string message;
};
Failure failure_of(const std::exception& error);

// The system's text for an errno, such as "No space left on device".
std::string errno_text(int error_number);

}  // namespace reigen
