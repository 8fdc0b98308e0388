#include "dist/compress/compressor.h"

#include <stdexcept>
#include <utility>

#include "dist/compress/bucket_reducer.h"
#include "dist/compress/power_sgd.h"
#include "dist/compress/top_k.h"
#include "dist/group/wire_format.h"

namespace reigen {
namespace {

// The owner of a value rounds it, and bucket boundaries decide the owner. The bucket size is
// therefore fixed wherever values are rounded: a measured size would give every run its own bits.
constexpr size_t kRoundedBucket = size_t{1} << 19;

std::unique_ptr<Compressor> dense(Group& group, Wire wire, size_t bucket = kRoundedBucket) {
  return std::make_unique<BucketReducer>(group, bucket, wire);
}

// Rounding to integers loses too much to go without error feedback.
std::unique_ptr<Compressor> quantised(Group& group, Wire wire, size_t elements,
                                      const CompressorPlan& plan) {
  auto residual =
      plan.residual ? plan.residual : std::make_shared<Residual>(elements, plan.repeatable);
  return std::make_unique<BucketReducer>(group, kRoundedBucket, wire, std::move(residual));
}

double bytes_of(const ParameterLayout& layout, const CompressSetting& setting, int workers) {
  const auto n = static_cast<double>(workers);
  const double reduced = 2 * (n - 1) / n;
  const auto elements = static_cast<double>(layout.elements());
  switch (setting.method) {
    case CompressMethod::kBf16:
    case CompressMethod::kFp16:
      return reduced * 2 * elements;
    case CompressMethod::kInt8:
      return reduced * static_cast<double>(wire_bytes(Wire::kInt8, layout.elements()));
    case CompressMethod::kInt4:
      return reduced * static_cast<double>(wire_bytes(Wire::kInt4, layout.elements()));
    case CompressMethod::kPowerSgd:
      return reduced * PowerSgd::payload(layout, setting.rank).bytes;
    case CompressMethod::kTopK:
      return (n - 1) * 8 * static_cast<double>(TopK::entries(layout.elements(), setting.fraction));
    case CompressMethod::kLocal:
      return reduced * 2 * elements / static_cast<double>(setting.every);
    case CompressMethod::kNone:
    case CompressMethod::kAuto:
      break;
  }
  return reduced * 4 * elements;
}

StepTraffic in_buckets(const ParameterLayout& layout, double bytes, size_t bucket) {
  const size_t even = even_bucket(layout.elements(), bucket);
  const size_t before = layout.last_final_from() / even;
  const size_t messages = (layout.elements() + even - 1) / even;
  const double late = static_cast<double>(layout.elements() - before * even) /
                      static_cast<double>(layout.elements());
  return {.bytes = bytes,
          .messages = static_cast<double>(messages),
          .late_bytes = late * bytes,
          .late_messages = static_cast<double>(messages - before)};
}

}  // namespace

std::unique_ptr<Compressor> make_compressor(Group& group, const Device& device,
                                            const ParameterLayout& layout,
                                            const CompressorPlan& plan) {
  switch (plan.setting.method) {
    case CompressMethod::kNone:
      return dense(group, Wire::kFp32, plan.bucket);
    case CompressMethod::kBf16:
      return dense(group, Wire::kBf16);
    case CompressMethod::kFp16:
      return dense(group, Wire::kFp16);
    case CompressMethod::kInt8:
      return quantised(group, Wire::kInt8, layout.elements(), plan);
    case CompressMethod::kInt4:
      return quantised(group, Wire::kInt4, layout.elements(), plan);
    case CompressMethod::kPowerSgd:
      return std::make_unique<PowerSgd>(group, device, layout, plan);
    case CompressMethod::kTopK:
      return std::make_unique<TopK>(group, layout.elements(), plan);
    case CompressMethod::kLocal:
    case CompressMethod::kAuto:
      break;
  }
  throw std::logic_error("make_compressor: local and auto have no Compressor");
}

bool has_warmup(const CompressSetting& setting) {
  return setting.method == CompressMethod::kPowerSgd || setting.method == CompressMethod::kTopK ||
         setting.method == CompressMethod::kLocal;
}

bool computed_on_host(const CompressSetting& setting) {
  return setting.method != CompressMethod::kNone && setting.method != CompressMethod::kBf16 &&
         setting.method != CompressMethod::kFp16;
}

StepTraffic traffic_per_step(const ParameterLayout& layout, const CompressSetting& setting,
                             int workers, size_t bucket) {
  const double bytes = bytes_of(layout, setting, workers);
  switch (setting.method) {
    case CompressMethod::kNone:
    case CompressMethod::kAuto:
      return in_buckets(layout, bytes, bucket);
    case CompressMethod::kPowerSgd: {
      const StepTraffic own = PowerSgd::payload(layout, setting.rank);
      return {.bytes = bytes,
              .messages = own.messages,
              .late_bytes = bytes * own.late_bytes / own.bytes,
              .late_messages = own.late_messages};
    }
    case CompressMethod::kTopK:
      return {.bytes = bytes, .messages = 1, .late_bytes = bytes, .late_messages = 1};
    case CompressMethod::kLocal: {
      const double messages =
          in_buckets(layout, bytes, bucket).messages / static_cast<double>(setting.every);
      return {.bytes = bytes, .messages = messages, .late_bytes = bytes, .late_messages = messages};
    }
    default:
      return in_buckets(layout, bytes, kRoundedBucket);
  }
}

}  // namespace reigen
