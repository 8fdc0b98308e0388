// JSON of workers for the messages between them. Readers return nothing for any other content.
#pragma once

#include <optional>

#include "base/json/json.h"
#include "dist/members/succession.h"

namespace reigen {

Json json_of(const WorkerId& worker);
std::optional<WorkerId> worker_in(const Json& json);
std::optional<WorkerId> worker_field(const Json& message, const char* name);

// A worker id with random bits, for a process that becomes worker `number`.
WorkerId new_worker(int number);

}  // namespace reigen
