// A thread that samples this process, and on one rank of each host the host, once per second during
// training.
//
// Samples stay in memory until take(): the thread never writes to disk.
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
  bool host = true;                      // sample the host as well as this process
  std::string interface;                 // network interface of the job; empty for none
  bool gpus = false;                     // warn when NVML is missing
  std::vector<uint64_t> processes = {};  // of the job, on this host
  uint64_t threads = 0;                  // of this process that compute
  std::chrono::milliseconds every{1000};
};

class Sampler {
 public:
  explicit Sampler(SamplerOptions options);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  void at_step(uint64_t step) { step_.store(step, std::memory_order_relaxed); }
  std::vector<Record> take();  // SampleRecord and ProcessRecord since the last call
  void stop();                 // after a last sample of the time since the one before

 private:
  void run();
  bool wait_until(std::chrono::steady_clock::time_point next);
  void store(Record record);

  SamplerOptions options_;
  std::atomic<uint64_t> step_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::vector<Record> samples_;
  std::thread thread_;
};

}  // namespace reigen
