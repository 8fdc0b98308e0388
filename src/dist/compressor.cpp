#include "dist/compressor.h"

#include <stdexcept>

#include "dist/power_sgd.h"
#include "dist/top_k.h"

namespace reigen {
namespace {

// Everything travels, in full or rounded.
class Dense : public Compressor {
 public:
  Dense(Group& group, size_t bucket, Wire wire) : group_(group), bucket_(bucket), wire_(wire) {}

  void begin(std::span<float> gradient) override {
    reducer_.emplace(group_, gradient, bucket_, wire_);
    reducer_->begin();
  }
  void ready(size_t elements) override { reducer_->ready(elements); }
  CommStatus finish() override { return reducer_->finish(); }
  ReduceTimes times() const override { return reducer_->times(); }

 private:
  Group& group_;
  size_t bucket_;
  Wire wire_;
  std::optional<BucketReducer> reducer_;
};

}  // namespace

std::unique_ptr<Compressor> make_compressor(Group& group, const Device& device,
                                            const ParameterLayout& layout,
                                            const CompressorPlan& plan) {
  switch (plan.setting.method) {
    case CompressMethod::kNone:
      return std::make_unique<Dense>(group, plan.bucket, Wire::kFp32);
    case CompressMethod::kBf16:
      return std::make_unique<Dense>(group, plan.bucket, Wire::kBf16);
    case CompressMethod::kFp16:
      return std::make_unique<Dense>(group, plan.bucket, Wire::kFp16);
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

double bytes_per_step(const ParameterLayout& layout, const CompressSetting& setting, int workers) {
  const auto n = static_cast<double>(workers);
  const double reduced = 2 * (n - 1) / n;
  const auto elements = static_cast<double>(layout.elements());
  switch (setting.method) {
    case CompressMethod::kBf16:
    case CompressMethod::kFp16:
      return reduced * 2 * elements;
    case CompressMethod::kPowerSgd:
      return reduced * PowerSgd::payload_bytes(layout, setting.rank);
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

}  // namespace reigen
