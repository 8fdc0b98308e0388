#include "dist/compress/compressor.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>

#include "dist/compress/power_sgd.h"
#include "dist/compress/top_k.h"
#include "dist/group/wire_format.h"

namespace reigen {
namespace {

// Who rounds what depends on where buckets end, so that is fixed where anything is rounded: a
// bucket that is measured would give every run its own rounding.
constexpr size_t kRoundedBucket = size_t{1} << 19;

// Everything travels, in full or rounded. What rounding to integers loses is kept for the next
// step.
class Dense : public Compressor {
 public:
  Dense(Group& group, size_t bucket, Wire wire) : group_(group), bucket_(bucket), wire_(wire) {}
  // Rounding to integers loses too much to forget it.
  Dense(Group& group, Wire wire, size_t elements, std::span<float> unsent)
      : Dense(group, kRoundedBucket, wire) {
    if (unsent.empty()) own_.resize(elements);
    unsent_ = unsent.empty() ? std::span<float>(own_) : unsent;
  }

  void begin(std::span<float> gradient) override {
    gradient_ = gradient;
    reducer_.emplace(group_, gradient, bucket_, wire_, unsent_);
    reducer_->begin();
  }
  void ready(size_t elements) override { reducer_->ready(elements); }
  CommStatus finish() override {
    CommStatus status = reducer_->finish();
    // All skip such a step, and its remains would spoil the next.
    if (!unsent_.empty() && !all_finite(gradient_)) std::fill(unsent_.begin(), unsent_.end(), 0.0F);
    return status;
  }
  ReduceTimes times() const override { return reducer_->times(); }
  std::vector<KeptTensor> kept() override {
    if (unsent_.empty()) return {};
    return {{"unsent", unsent_, true}};
  }
  std::span<float> unsent() override { return unsent_; }

 private:
  // The largest exponent tells, and is found with vectors.
  static bool all_finite(std::span<const float> values) {
    int32_t largest = 0;
    for (const float x : values) {
      largest = std::max(largest, std::bit_cast<int32_t>(x) & 0x7FFFFFFF);
    }
    return largest < 0x7F800000;
  }

  Group& group_;
  size_t bucket_;
  Wire wire_;
  std::vector<float> own_;
  std::span<float> unsent_;
  std::span<float> gradient_;
  std::optional<BucketReducer> reducer_;
};

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
  return {bytes, static_cast<double>(messages), late * bytes,
          static_cast<double>(messages - before)};
}

}  // namespace

std::unique_ptr<Compressor> make_compressor(Group& group, const Device& device,
                                            const ParameterLayout& layout,
                                            const CompressorPlan& plan) {
  switch (plan.setting.method) {
    case CompressMethod::kNone:
      return std::make_unique<Dense>(group, plan.bucket, Wire::kFp32);
    case CompressMethod::kBf16:
      return std::make_unique<Dense>(group, kRoundedBucket, Wire::kBf16);
    case CompressMethod::kFp16:
      return std::make_unique<Dense>(group, kRoundedBucket, Wire::kFp16);
    case CompressMethod::kInt8:
      return std::make_unique<Dense>(group, Wire::kInt8, layout.elements(), plan.unsent);
    case CompressMethod::kInt4:
      return std::make_unique<Dense>(group, Wire::kInt4, layout.elements(), plan.unsent);
    case CompressMethod::kPowerSgd:
      return std::make_unique<PowerSgd>(group, device, layout, plan.setting.rank, plan.seed);
    case CompressMethod::kTopK:
      return std::make_unique<TopK>(group, device, layout.elements(), plan.setting.fraction);
    case CompressMethod::kLocal:
    case CompressMethod::kAuto:
      break;
  }
  throw std::logic_error("not a method that sums gradients");
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
      return {bytes, own.messages, bytes * own.late_bytes / own.bytes, own.late_messages};
    }
    case CompressMethod::kTopK:
      return {bytes, 1, bytes, 1};
    case CompressMethod::kLocal: {
      const StepTraffic meeting = in_buckets(layout, bytes, bucket);
      const double messages = meeting.messages / static_cast<double>(setting.every);
      return {bytes, messages, bytes, messages};
    }
    default:
      return in_buckets(layout, bytes, kRoundedBucket);
  }
}

}  // namespace reigen
