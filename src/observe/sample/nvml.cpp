#include "observe/sample/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

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
// nvmlProcessInfo_v2_t; version 3 of the call has the same layout.
struct ProcessInfo {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};
// nvmlProcessUtilizationSample_t: shares of the time since the sample before, in percent.
struct ProcessUse {
  unsigned pid;
  unsigned long long time;
  unsigned multiprocessors;
  unsigned memory;
  unsigned encoder;
  unsigned decoder;
};
constexpr int kNoNewSample = 6;  // NVML_ERROR_NOT_FOUND
constexpr unsigned long long kUnknownMemory = ~0ULL;
constexpr size_t kMostProcesses = 64;
constexpr int kClockSm = 1;

// Bits of nvmlDeviceGetCurrentClocksThrottleReasons. An idle GPU and clocks that its owner set are
// no reasons to report.
struct SlowReason {
  unsigned long long bit;
  const char* name;
};
constexpr SlowReason kSlowReasons[] = {{0x04, "power-cap"},
                                       {0x08, "hardware"},
                                       {0x20, "thermal"},
                                       {0x40, "thermal"},
                                       {0x80, "power-brake"}};

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

  // Missing in old drivers: their figures are then absent.
  int (*max_clock)(DeviceHandle, int, unsigned*) = nullptr;
  int (*uses)(DeviceHandle, ProcessUse*, unsigned*, unsigned long long) = nullptr;
  int (*slow_reasons)(DeviceHandle, unsigned long long*) = nullptr;
  int (*processes)(DeviceHandle, unsigned*, ProcessInfo*) = nullptr;

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
  void find_optional() {
    find(max_clock, "nvmlDeviceGetMaxClockInfo");
    find(uses, "nvmlDeviceGetProcessUtilization");
    find(slow_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
    if (!find(processes, "nvmlDeviceGetComputeRunningProcesses_v3"))
      find(processes, "nvmlDeviceGetComputeRunningProcesses_v2");
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
  } else {
    calls_->find_optional();
  }
}

Nvml::~Nvml() {
  if (absent_.empty()) calls_->shutdown();
  if (calls_->library != nullptr) dlclose(calls_->library);
}

// Process ids of a different namespace (a container's host) never match: the list is then useless.
void Nvml::add_processes(void* device, const std::vector<uint64_t>& own, GpuSample& gpu) const {
  std::array<ProcessInfo, kMostProcesses> found{};
  unsigned count = found.size();
  if (calls_->processes == nullptr || calls_->processes(device, &count, found.data()) != 0) return;
  uint64_t others = 0;
  bool mine = false;
  for (size_t i = 0; i < std::min<size_t>(count, found.size()); ++i) {
    if (std::find(own.begin(), own.end(), found[i].pid) != own.end()) {
      mine = true;
      continue;
    }
    ++others;
    if (found[i].memory != kUnknownMemory) gpu.other_memory += found[i].memory;
  }
  if (mine) {
    gpu.other_processes = others;
    add_other_use(device, own, gpu);
  } else {
    gpu.other_memory = 0;
  }
}

// NVML returns one use for each process that has computed since the time given.
void Nvml::add_other_use(void* device, const std::vector<uint64_t>& own, GpuSample& gpu) const {
  if (calls_->uses == nullptr) return;
  std::array<ProcessUse, kMostProcesses> found{};
  unsigned count = found.size();
  unsigned long long& seen = seen_[device];
  const int status = calls_->uses(device, found.data(), &count, seen);
  if (status == kNoNewSample) gpu.other_use = 0;
  if (status != 0) return;
  gpu.other_use = 0;
  for (size_t i = 0; i < std::min<size_t>(count, found.size()); ++i) {
    const bool new_one = found[i].time > seen;
    if (new_one && std::find(own.begin(), own.end(), found[i].pid) == own.end()) {
      *gpu.other_use += found[i].multiprocessors;
    }
  }
  for (size_t i = 0; i < std::min<size_t>(count, found.size()); ++i) {
    seen = std::max(seen, found[i].time);
  }
  gpu.other_use = std::min(100.0, *gpu.other_use);
}

std::vector<GpuSample> Nvml::sample(const std::vector<uint64_t>& own) const {
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
    if (calls_->max_clock != nullptr && calls_->max_clock(device, kClockSm, &value) == 0) {
      gpu.max_megahertz = value;
    }
    unsigned long long reasons = 0;
    if (calls_->slow_reasons != nullptr && calls_->slow_reasons(device, &reasons) == 0) {
      for (const SlowReason& reason : kSlowReasons) {
        if ((reasons & reason.bit) == 0 || gpu.slowed_by.find(reason.name) != std::string::npos)
          continue;
        gpu.slowed_by += (gpu.slowed_by.empty() ? "" : " ") + std::string(reason.name);
      }
    }
    add_processes(device, own, gpu);
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace reigen
