// GPUs as NVIDIA's management library sees them, where that library is.
//
// It is loaded at run time and the few calls needed are declared here: nvml.h is often missing
// where a GPU is present, and most machines that build Reigen have neither.
#pragma once

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

  // Why there is nothing to sample; empty when there is.
  const std::string& absent() const { return absent_; }
  std::vector<GpuSample> sample() const;  // one for each GPU of the machine

 private:
  struct Calls;
  std::unique_ptr<Calls> calls_;
  std::string absent_;
};

}  // namespace reigen
