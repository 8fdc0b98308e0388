#include "observe/sample/nvml.h"

#include <dlfcn.h>

#include "base/format.h"

namespace reigen {
namespace {

// From NVML's documented interface, unchanged since its first versions.
using DeviceHandle = void*;
struct Utilisation {
  unsigned gpu;
  unsigned memory;
};
struct MemoryInfo {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
constexpr int kClockSm = 1;
constexpr unsigned kNameBytes = 96;
constexpr double kWattsPerMilliwatt = 1e-3;

}  // namespace

struct Nvml::Calls {
  void* library = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, DeviceHandle*) = nullptr;
  int (*name)(DeviceHandle, char*, unsigned) = nullptr;
  int (*utilisation)(DeviceHandle, Utilisation*) = nullptr;
  int (*memory)(DeviceHandle, MemoryInfo*) = nullptr;
  int (*power)(DeviceHandle, unsigned*) = nullptr;
  int (*clock)(DeviceHandle, int, unsigned*) = nullptr;

  template <class F>
  bool find(F& function, const char* symbol) {
    function = reinterpret_cast<F>(dlsym(library, symbol));
    return function != nullptr;
  }
  bool find_all() {
    return find(init, "nvmlInit_v2") && find(shutdown, "nvmlShutdown") &&
           find(count, "nvmlDeviceGetCount_v2") && find(handle, "nvmlDeviceGetHandleByIndex_v2") &&
           find(name, "nvmlDeviceGetName") && find(utilisation, "nvmlDeviceGetUtilizationRates") &&
           find(memory, "nvmlDeviceGetMemoryInfo") && find(power, "nvmlDeviceGetPowerUsage") &&
           find(clock, "nvmlDeviceGetClockInfo");
  }
};

Nvml::Nvml(const char* library) : calls_(std::make_unique<Calls>()) {
  calls_->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (calls_->library == nullptr) {
    absent_ = format("{} was not found", library);
  } else if (!calls_->find_all()) {
    absent_ = format("{} lacks a function that is needed", library);
  } else if (const int status = calls_->init(); status != 0) {
    absent_ = format("{} failed to initialise (status {})", library, status);
  }
}

Nvml::~Nvml() {
  if (absent_.empty()) calls_->shutdown();
  if (calls_->library != nullptr) dlclose(calls_->library);
}

std::vector<GpuSample> Nvml::sample() const {
  std::vector<GpuSample> gpus;
  unsigned count = 0;
  if (!absent_.empty() || calls_->count(&count) != 0) return gpus;
  for (unsigned i = 0; i < count; ++i) {
    DeviceHandle device = nullptr;
    if (calls_->handle(i, &device) != 0) continue;
    GpuSample gpu;
    char name[kNameBytes] = {};
    if (calls_->name(device, name, kNameBytes) == 0) gpu.name = name;
    Utilisation utilisation = {};
    if (calls_->utilisation(device, &utilisation) == 0) gpu.utilisation = utilisation.gpu;
    MemoryInfo memory = {};
    if (calls_->memory(device, &memory) == 0) {
      gpu.memory_used = memory.used;
      gpu.memory_total = memory.total;
    }
    unsigned value = 0;
    if (calls_->power(device, &value) == 0) gpu.watts = value * kWattsPerMilliwatt;
    if (calls_->clock(device, kClockSm, &value) == 0) gpu.megahertz = value;
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace reigen
