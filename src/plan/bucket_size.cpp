#include "plan/bucket_size.h"

#include <algorithm>

namespace reigen {
namespace {

constexpr double kNearly = 0.9;  // of the largest message's throughput
// Elements. Smaller buckets spend more on waking threads than on the link where all cores are busy
// (0.30 s a step with 256 KB, 0.11 s with 1 MB; `small`, two workers on two cores).
constexpr uint64_t kLeastBucket = 1 << 18;
constexpr size_t kLeastBuckets = 16;
constexpr uint64_t kSmallestBucket = 1 << 10;  // elements; the lower limit of --bucket

}  // namespace

uint64_t asked_bucket(const WorkerOptions& options) {
  if (options.bucket == 0) return 0;
  return std::max<uint64_t>(options.bucket / sizeof(float), kSmallestBucket);
}

uint64_t measured_bucket(size_t elements, const std::vector<CurvePoint>& curve) {
  const double most = curve.back().bytes / curve.back().seconds;
  double chosen = curve.back().bytes;
  for (const CurvePoint& p : curve) {
    if (p.bytes / p.seconds < kNearly * most) continue;
    chosen = p.bytes;
    break;
  }
  return std::clamp(static_cast<uint64_t>(chosen) / sizeof(float), kLeastBucket,
                    std::max<uint64_t>(kLeastBucket, elements / kLeastBuckets));
}

}  // namespace reigen
