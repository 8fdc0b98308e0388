// RUN/decay-now: the request of `train --decay-now` to a run, which may be training in a different
// process. The file stays until a checkpoint records the decay, so that a crash does not lose it.
#pragma once

#include <cstdint>
#include <string>

namespace reigen {

inline constexpr const char* kDecayRequest = "decay-now";

// Throws ConfigError when the run has no checkpoint.
void check_can_decay(const std::string& run, int64_t steps);

// Requests a decay of `steps` steps.
void request_decay(const std::string& run, int64_t steps);

// The requested length; 0: no request. A malformed file is removed with a warning: no request.
uint64_t decay_request(const std::string& run);

void remove_decay_request(const std::string& run);

}  // namespace reigen
