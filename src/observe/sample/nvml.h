// GPU counters by NVML, NVIDIA's management library.
//
// The library is loaded at run time and its few functions are declared here: nvml.h is often
// missing on hosts with a GPU, and most hosts that build Reigen have neither.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "observe/record/records.h"

namespace reigen {

class Nvml {
 public:
  explicit Nvml(const char* library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // The reason why there is nothing to sample; empty when NVML works.
  const std::string& absent() const { return absent_; }
  // One per GPU of the host. `own`: process ids of the job's workers on it.
  std::vector<GpuSample> sample(const std::vector<uint64_t>& own = {}) const;

 private:
  struct Calls;
  void add_processes(void* device, const std::vector<uint64_t>& own, GpuSample& gpu) const;
  void add_other_use(void* device, const std::vector<uint64_t>& own, GpuSample& gpu) const;

  std::unique_ptr<Calls> calls_;
  std::string absent_;
  // By device: the time of the newest use of a process that NVML has returned.
  mutable std::map<void*, unsigned long long> seen_;
};

}  // namespace reigen
