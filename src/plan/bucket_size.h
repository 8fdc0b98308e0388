// How many elements of the gradient one message carries: as asked, or from the measured link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "config/worker_options.h"
#include "plan/link_probe.h"

namespace reigen {

// Elements per bucket from --bucket; 0 when the size has to be measured.
uint64_t asked_bucket(const WorkerOptions& options);

// The smallest size whose throughput is nearly that of the largest measured message. The last
// bucket cannot overlap with backward, so a bucket is at most a sixteenth of the gradient's
// `elements`.
uint64_t measured_bucket(size_t elements, const std::vector<CurvePoint>& curve);

}  // namespace reigen
