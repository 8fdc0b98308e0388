// The device that runs an operation: the CPU with its threads, or one GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace reigen {

class Gpu;

enum class DeviceKind : uint8_t { kCpu, kGpu };

// Base of the object that carries out a device's operations. Its interface is ops/backend.h; a
// Device only passes it on.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;
};

class Device {
 public:
  // `threads` 0 means all cores this process may use. The number of threads decides how sums are
  // split, so a run is bit-identical only with the same number. It is set for the whole process.
  // All of them flush subnormal numbers to zero (base/thread.h).
  static Device cpu(int threads);

  // Operations are appended to one queue and run in order; the host does not wait for them.
  // `gpu` may be part of the same object as `backend`.
  static Device gpu(std::shared_ptr<Gpu> gpu, std::shared_ptr<DeviceBackend> backend) {
    return {DeviceKind::kGpu, 1, std::move(gpu), std::move(backend)};
  }

  // Gives the process this CPU's number of threads again, after a Device::cpu() with a different
  // one.
  void use_threads() const;

  // The same device with a different implementation of its operations, such as a timed one.
  Device with_backend(std::shared_ptr<DeviceBackend> backend) const {
    return {kind_, threads_, gpu_, std::move(backend)};
  }

  DeviceKind kind() const { return kind_; }
  int threads() const { return threads_; }
  Gpu* gpu() const { return gpu_.get(); }                    // null on the CPU
  DeviceBackend* backend() const { return backend_.get(); }  // null: the CPU's (ops/backend.h)

 private:
  Device(DeviceKind kind, int threads, std::shared_ptr<Gpu> gpu = nullptr,
         std::shared_ptr<DeviceBackend> backend = nullptr)
      : kind_(kind), threads_(threads), gpu_(std::move(gpu)), backend_(std::move(backend)) {}
  DeviceKind kind_;
  int threads_;
  std::shared_ptr<Gpu> gpu_;
  std::shared_ptr<DeviceBackend> backend_;
};

// Calls `work(begin, end, part)` for parts of [0, count) on the device's threads. The split is a
// pure function of (count, grain, threads): parts are equal, contiguous, at least `grain` long, and
// numbered from 0 in order. Shares OpenMP's threads with oneDNN, so that the two never compete.
void parallel_for(const Device& device, int64_t count, int64_t grain,
                  const std::function<void(int64_t begin, int64_t end, int part)>& work);

// How many parts parallel_for makes.
int parallel_parts(const Device& device, int64_t count, int64_t grain);

}  // namespace reigen
