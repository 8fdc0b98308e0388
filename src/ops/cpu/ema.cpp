// ops/ema.h on the CPU: a share of the buffer for each thread.
#include "ops/ema.h"

#include "ops/cpu/backend.h"

namespace reigen::cpu {
namespace {

constexpr int64_t kEmaGrain = 1 << 14;  // elements

}  // namespace

void CpuBackend::ema_step(const Device& device, double weight, std::span<const float> parameters,
                          std::span<float> average) {
  const auto share = static_cast<float>(weight);
  const float* from = parameters.data();
  float* to = average.data();
  parallel_for(device, static_cast<int64_t>(average.size()), kEmaGrain,
               [=](int64_t begin, int64_t end, int) {
                 for (int64_t i = begin; i < end; ++i) to[i] += share * (from[i] - to[i]);
               });
}

}  // namespace reigen::cpu
