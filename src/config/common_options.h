// Options that several commands have: the output directory, threads, quiet.
#pragma once

#include <cstdint>
#include <string>

#include "config/schema.h"

namespace reigen {

inline constexpr int64_t kMaxPairs = 1'000'000'000;

// --output and --overwrite. `what` names the output, such as "dataset directory".
void describe_output(Schema& schema, std::string& output, bool& overwrite, const std::string& what);

// Return the schema, to refine the option. `note` follows the meaning, such as "; results do not
// depend on it".
Schema& describe_threads(Schema& schema, int64_t& threads, const std::string& note = "");

// --to, of the commands that use a model.
void describe_to(Schema& schema, std::string& to);

Schema& describe_quiet(Schema& schema, bool& quiet, const std::string& note = "");

}  // namespace reigen
