// Pages about all commands, made from their tables of options: the manual page, and completions for
// shells. `reigen help --man` and `reigen help --completion SHELL` print them for packages.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/schema.h"

namespace reigen {

// `overview`: the text of `reigen help`.
std::string man_page(std::span<const Schema> commands, const std::string& version,
                     const std::string& overview);

// `shell`: bash, zsh or fish. Throws ConfigError for a different one.
std::string completion(std::span<const Schema> commands, const std::string& shell);

}  // namespace reigen
