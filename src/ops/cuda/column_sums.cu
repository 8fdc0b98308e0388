#include "ops/cuda/column_sums.h"

#include "ops/cuda/kernel_support.cuh"

namespace reigen::cuda {
namespace {

constexpr int kColumns = 32;
constexpr int kRows = 32;

struct Jobs {
  ColumnSums::Job job[ColumnSums::kJobs];
  int count;
};

// A block owns 32 columns of one job; its 32 rows of threads walk the partial rows, then join.
__global__ __launch_bounds__(kColumns* kRows) void column_sums_kernel(const Jobs jobs) {
  __shared__ float sums[kRows][kColumns + 1];
  int index = 0;
  while (index + 1 < jobs.count &&
         static_cast<int>(blockIdx.x) >= jobs.job[index + 1].first_block) {
    ++index;
  }
  const ColumnSums::Job& job = jobs.job[index];
  const int first = (static_cast<int>(blockIdx.x) - job.first_block) * kColumns;
  const int all = job.targets.targets * job.targets.width;
  const int column = first + static_cast<int>(threadIdx.x);
  float sum = 0;
  if (column < all) {
#pragma unroll 4
    for (int p = static_cast<int>(threadIdx.y); p < job.parts; p += kRows) {
      sum += job.partials[static_cast<int64_t>(p) * all + column];
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  const float total = warp_sum(sums[threadIdx.x][threadIdx.y]);
  const int mine = first + static_cast<int>(threadIdx.y);
  if (threadIdx.x == 0 && mine < all) {
    float* target = job.targets.target[mine / job.targets.width];
    if (target != nullptr) target[mine % job.targets.width] += total;
  }
}

}  // namespace

ColumnSums::ColumnSums() : memory_(kBytes, "partial sums") {}

bool ColumnSums::pending(const ColumnTargets& targets) const {
  for (const Job& job : jobs_) {
    for (const float* old : job.targets.target) {
      for (const float* fresh : targets.target) {
        if (old != nullptr && old == fresh) return true;
      }
    }
  }
  return false;
}

float* ColumnSums::reserve(cudaStream_t stream, int parts, const ColumnTargets& targets) {
  const size_t need =
      static_cast<size_t>(parts) * static_cast<size_t>(targets.targets * targets.width);
  require(need * sizeof(float) <= kBytes, "at most 64 MiB of partial sums");
  if ((used_ + need) * sizeof(float) > kBytes || jobs_.size() == kJobs || pending(targets)) {
    add_up(stream);
  }
  float* partials = memory_.as<float>() + used_;
  jobs_.push_back({partials, targets, parts, 0});
  used_ += (need + 31) / 32 * 32;
  return partials;
}

void ColumnSums::add_up(cudaStream_t stream) {
  if (jobs_.empty()) return;
  Jobs jobs{};
  int blocks = 0;
  for (Job& job : jobs_) {
    job.first_block = blocks;
    blocks += (job.targets.targets * job.targets.width + kColumns - 1) / kColumns;
    jobs.job[jobs.count++] = job;
  }
  column_sums_kernel<<<static_cast<unsigned>(blocks), dim3(kColumns, kRows), 0, stream>>>(jobs);
  check_launch("column_sums");
  jobs_.clear();
  used_ = 0;
}

}  // namespace reigen::cuda
