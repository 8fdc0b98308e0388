// Elements of a gradient bucket: as requested by --bucket, or chosen from the measured link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "config/worker_options.h"
#include "plan/link_probe.h"

namespace reigen {

// Elements per bucket from --bucket; 0 when the size has to be measured.
uint64_t requested_bucket(const WorkerOptions& options);

// The smallest bucket whose throughput is at least 90% of the largest measured message's. The last
// bucket cannot overlap with backward, so a bucket is at most a sixteenth of the gradient's
// `elements`.
uint64_t bucket_for_link(size_t elements, const std::vector<CurvePoint>& curve);

}  // namespace reigen
