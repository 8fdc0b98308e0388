// RUN/decay-now: the request of `train --decay-now` to a run, which may be training in a different
// process. The file stays until a checkpoint records the decay, so that a crash does not lose it. A
// run has at most one decay: a further request is refused by the command, or by the run where the
// command could not know, and removed.
#pragma once

#include <cstdint>
#include <string>

namespace reigen {

inline constexpr const char* kDecayRequest = "decay-now";

// For a run that is resumed with --max-steps `max_steps`, and for one that trains. Throws
// ConfigError when the first has no checkpoint, and when a decay was requested, is under way or has
// ended the run. A new --max-steps cancels an earlier decay.
void check_can_decay(const std::string& run, int64_t steps, int64_t max_steps);
void check_can_request(const std::string& run, int64_t steps);

// Requests a decay of `steps` steps.
void request_decay(const std::string& run, int64_t steps);

// The requested length; 0: no request. A malformed file or a link is removed with a warning: no
// request.
uint64_t decay_request(const std::string& run);

bool remove_decay_request(const std::string& run);  // whether there was one

}  // namespace reigen
