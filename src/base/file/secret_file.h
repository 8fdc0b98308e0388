// Secrets in files: only the owner of a file may read it.
//
// A secret on a command line is visible to every user of the machine (`ps`); a file of mode 0600 is
// not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace reigen {

inline constexpr size_t kMostSecretBytes = 1024;

// The text of a file without white space at its ends. Throws ConfigError if it cannot be read, is
// no regular file, is empty or longer than kMostSecretBytes, belongs to a user other than this one
// and root, or if users other than its owner have any access to it.
std::string read_secret_file(const std::string& path);

// Writes `text` with mode 0600: the file has the new text or the old one, never a part of it. A
// symbolic link at `path` is replaced, not followed. Throws IoError.
void write_secret_file(const std::string& path, std::string_view text);

}  // namespace reigen
