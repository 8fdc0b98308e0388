#include "plan/bucket_size.h"

#include <algorithm>

namespace reigen {
namespace {

constexpr double kNearlyFastest = 0.9;  // share of the largest message's throughput
// Elements. Smaller buckets spend more time on waking threads than on the link where all cores are
// busy (0.30 s per step with 256 KB, 0.11 s with 1 MB; `small`, two workers on two cores).
constexpr uint64_t kSmallestChosen = 1 << 18;
constexpr size_t kFewestBuckets = 16;
constexpr uint64_t kSmallestRequested = 1 << 10;  // elements; the lower limit of --bucket

}  // namespace

uint64_t requested_bucket(const WorkerOptions& options) {
  if (options.bucket == 0) return 0;
  return std::max<uint64_t>(options.bucket / sizeof(float), kSmallestRequested);
}

uint64_t bucket_for_link(size_t elements, const std::vector<CurvePoint>& curve) {
  const double most = curve.back().bytes / curve.back().seconds;
  double chosen = curve.back().bytes;
  for (const CurvePoint& p : curve) {
    if (p.bytes / p.seconds < kNearlyFastest * most) continue;
    chosen = p.bytes;
    break;
  }
  return std::clamp(static_cast<uint64_t>(chosen) / sizeof(float), kSmallestChosen,
                    std::max<uint64_t>(kSmallestChosen, elements / kFewestBuckets));
}

}  // namespace reigen
