#include "config/copy_target.h"

#include "base/error.h"
#include "base/format.h"

namespace reigen {

CopyTarget parse_copy_target(const std::string& text) {
  constexpr std::string_view kCommand = kCopyCommand;
  if (text.starts_with(kCommand) && text.size() > kCommand.size()) {
    return {CopyTarget::Kind::kCommand, "", text.substr(kCommand.size())};
  }
  if (text.starts_with('/')) return {CopyTarget::Kind::kDirectory, "", text};
  const size_t colon = text.find(':');
  const bool host = colon != std::string::npos && colon > 0 && colon < text.find('/') &&
                    colon + 1 < text.size() && !text.starts_with('-');
  if (host && !text.starts_with(kCommand)) {
    return {CopyTarget::Kind::kHost, text.substr(0, colon), text.substr(colon + 1)};
  }
  throw ConfigError(
      format("'{}' is no place for a copy; write an absolute directory such as /mnt/copy, HOST:DIR "
             "such as vm2:/data/copy, or command:PROGRAM",
             text));
}

}  // namespace reigen
