// A stand-in for NVIDIA's management library, for hosts without a GPU: one GPU that is throttled
// for its temperature and by its power cap, on which process 4242 and two others compute. The use
// of the processes is new in every second call.
#include <cstring>

namespace {

struct Utilisation {
  unsigned gpu;
  unsigned memory;
};
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct Process {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};
struct ProcessUse {
  unsigned pid;
  unsigned long long time;
  unsigned multiprocessors;
  unsigned memory;
  unsigned encoder;
  unsigned decoder;
};
constexpr int kOk = 0;
constexpr int kNotFound = 6;
constexpr int kTooSmall = 7;

}  // namespace

extern "C" {

int nvmlInit_v2() { return kOk; }
int nvmlShutdown() { return kOk; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 1;
  return kOk;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  static int gpu = 0;
  *device = &gpu;
  return index == 0 ? kOk : 2;
}
int nvmlDeviceGetName(void*, char* name, unsigned bytes) {
  std::strncpy(name, "stand-in", bytes);
  return kOk;
}
int nvmlDeviceGetUtilizationRates(void*, Utilisation* use) {
  *use = {.gpu = 70, .memory = 30};
  return kOk;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  *memory = {.total = 1000, .free = 400, .used = 600};
  return kOk;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 350'000;
  return kOk;
}
int nvmlDeviceGetClockInfo(void*, int, unsigned* megahertz) {
  *megahertz = 1200;
  return kOk;
}
int nvmlDeviceGetMaxClockInfo(void*, int, unsigned* megahertz) {
  *megahertz = 1980;
  return kOk;
}
int nvmlDeviceGetProcessUtilization(void*, ProcessUse* uses, unsigned* count,
                                    unsigned long long seen) {
  constexpr unsigned long long kNow = 1000;
  if (seen >= kNow) return kNotFound;
  if (*count < 3) return kTooSmall;
  *count = 3;
  const unsigned pids[] = {77, 4242, 78};
  const unsigned shares[] = {20, 40, 25};
  for (int i = 0; i < 3; ++i) {
    uses[i] = {.pid = pids[i], .time = kNow, .multiprocessors = shares[i]};
  }
  return kOk;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = 0x04 | 0x20 | 0x40;
  return kOk;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* processes) {
  if (*count < 3) return kTooSmall;
  *count = 3;
  processes[0] = {.pid = 77, .memory = 200, .gpu_instance = 0, .compute_instance = 0};
  processes[1] = {.pid = 4242, .memory = 300, .gpu_instance = 0, .compute_instance = 0};
  processes[2] = {.pid = 78, .memory = ~0ULL, .gpu_instance = 0, .compute_instance = 0};
  return kOk;
}

}  // extern "C"
