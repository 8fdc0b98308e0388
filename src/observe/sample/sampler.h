// A thread beside training that samples the machine once a second.
//
// Samples wait here until somebody takes them: the thread never writes, so training is never in the
// way of a disk.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "observe/record/records.h"

namespace reigen {

struct SamplerOptions {
  std::string interface;  // the one the job uses; empty for none
  bool gpus = false;      // whether the absence of NVML is worth a warning
  std::chrono::milliseconds every{1000};
};

class Sampler {
 public:
  explicit Sampler(SamplerOptions options);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  void at_step(uint64_t step) { step_.store(step, std::memory_order_relaxed); }
  std::vector<SampleRecord> take();  // those since the last call
  void stop();  // after a last sample, of the part of a second since the one before

 private:
  void run();

  SamplerOptions options_;
  std::atomic<uint64_t> step_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::vector<SampleRecord> samples_;
  std::thread thread_;
};

}  // namespace reigen
