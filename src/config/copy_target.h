// --checkpoint.copy-to: where the second copy of a run's last checkpoint is.
#pragma once

#include <cstdint>
#include <string>

namespace reigen {

struct CopyTarget {
  enum class Kind : uint8_t { kDirectory, kHost, kCommand };
  Kind kind = Kind::kDirectory;
  std::string host;   // of kHost
  std::string place;  // a directory, or the command
};

inline constexpr const char* kCopyCommand = "command:";

// "/mnt/copy" (absolute), "vm2:/data/copy" or "command:./backup.sh"; throws ConfigError.
CopyTarget parse_copy_target(const std::string& text);

}  // namespace reigen
