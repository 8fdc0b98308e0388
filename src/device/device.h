// Where an operation runs: the CPU's cores, or a GPU behind the interface of ops/gpu_ops.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace reigen {

class GpuOps;

enum class DeviceKind : uint8_t { kCpu, kGpu };

class Device {
 public:
  // `threads` 0 means all cores this process may use. The number of threads decides how sums are
  // split, so a run is bit-identical only with the same number.
  static Device cpu(int threads);

  // Operations on it are put into one queue and done in order; the host goes on at once.
  static Device gpu(std::shared_ptr<GpuOps> ops) { return Device(DeviceKind::kGpu, 1, ops); }

  DeviceKind kind() const { return kind_; }
  int threads() const { return threads_; }
  GpuOps* gpu() const { return gpu_.get(); }  // null on the CPU

 private:
  Device(DeviceKind kind, int threads, std::shared_ptr<GpuOps> gpu = nullptr)
      : kind_(kind), threads_(threads), gpu_(std::move(gpu)) {}
  DeviceKind kind_;
  int threads_;
  std::shared_ptr<GpuOps> gpu_;
};

// Calls `work(begin, end, part)` for parts of [0, count) on the device's threads. The split is a
// pure function of (count, grain, threads): parts are equal, contiguous, at least `grain` long, and
// numbered from 0 in order. Shares OpenMP's threads with oneDNN, so that the two never compete.
void parallel_for(const Device& device, int64_t count, int64_t grain,
                  const std::function<void(int64_t begin, int64_t end, int part)>& work);

// How many parts parallel_for makes.
int parallel_parts(const Device& device, int64_t count, int64_t grain);

}  // namespace reigen
