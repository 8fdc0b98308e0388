#include "device/device.h"

#include <omp.h>
#include <algorithm>

#include "base/machine.h"
#include "base/thread.h"

namespace reigen {

namespace {

void start_threads(int threads) {
  const SignalsBlocked blocked;
#pragma omp parallel num_threads(threads)
  flush_subnormals();
}

}  // namespace

Device Device::cpu(int threads) {
  if (threads <= 0) threads = usable_cores();
  Device device(DeviceKind::kCpu, threads);
  device.use_threads();
  return device;
}

void Device::use_threads() const {
  omp_set_num_threads(threads_);  // for oneDNN
  start_threads(threads_);
}

int parallel_parts(const Device& device, int64_t count, int64_t grain) {
  int64_t most = std::max<int64_t>(1, count / std::max<int64_t>(1, grain));
  return static_cast<int>(std::min<int64_t>(device.threads(), most));
}

void parallel_for(const Device& device, int64_t count, int64_t grain,
                  const std::function<void(int64_t, int64_t, int)>& work) {
  if (count <= 0) return;
  const int parts = parallel_parts(device, count, grain);
  if (parts == 1) {
    work(0, count, 0);
    return;
  }
  // All threads, also when there are fewer parts: OpenMP would end and restart the others.
#pragma omp parallel for num_threads(device.threads()) schedule(static, 1)
  for (int part = 0; part < parts; ++part) {
    work(count * part / parts, count * (part + 1) / parts, part);
  }
}

}  // namespace reigen
