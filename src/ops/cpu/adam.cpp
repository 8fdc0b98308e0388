// ops/adam.h on the CPU: a share of the buffer for each thread, kernels in row_kernels.cpp.
#include "ops/adam.h"

#include <cmath>
#include <vector>

#include "ops/cpu/backend.h"
#include "ops/cpu/kernels.h"

namespace reigen::cpu {
namespace {

constexpr int64_t kAdamGrain = 1 << 14;  // elements

}  // namespace

double CpuBackend::global_norm(const Device& device, std::span<const float> gradient) {
  const auto count = static_cast<int64_t>(gradient.size());
  std::vector<double> sums(static_cast<size_t>(parallel_parts(device, count, kAdamGrain)));
  parallel_for(device, count, kAdamGrain, [&](int64_t begin, int64_t end, int part) {
    sums[static_cast<size_t>(part)] =
        sum_of_squares(gradient.data() + begin, static_cast<size_t>(end - begin));
  });
  double total = 0;
  for (double sum : sums) total += sum;
  return std::sqrt(total);
}

void CpuBackend::adam_step(const Device& device, const AdamStep& options,
                           std::span<const float> gradient, std::span<float> parameters,
                           std::span<float> first_moment, std::span<float> second_moment) {
  const auto count = static_cast<int64_t>(gradient.size());
  parallel_for(device, count, kAdamGrain, [&](int64_t begin, int64_t end, int) {
    adam_range(options, gradient.data() + begin, parameters.data() + begin,
               first_moment.data() + begin, second_moment.data() + begin,
               static_cast<size_t>(end - begin));
  });
}

}  // namespace reigen::cpu
