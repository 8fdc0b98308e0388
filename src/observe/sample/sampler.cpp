#include "observe/sample/sampler.h"

#include <pthread.h>

#include <utility>

#include "base/clock.h"
#include "base/format.h"
#include "base/machine.h"
#include "base/terminal.h"
#include "base/thread.h"
#include "observe/sample/host_counters.h"
#include "observe/sample/nvml.h"

namespace reigen {

Sampler::Sampler(SamplerOptions options) : options_(std::move(options)) {
  thread_ = thread_without_signals([this] { run(); });
}

Sampler::~Sampler() { stop(); }

void Sampler::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::vector<SampleRecord> Sampler::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(samples_, {});
}

void Sampler::run() {
  pthread_setname_np(pthread_self(), "sampler");
  const Nvml nvml;
  if (options_.gpus && !nvml.absent().empty()) {
    log_warning(
        format("{}; utilisation, memory, power and clock of GPUs are not recorded", nvml.absent()));
  }
  const std::string host = host_name();
  HostCounters before = read_host_counters();
  auto next = before.when + options_.every;
  std::unique_lock lock(mutex_);
  for (bool last = false; !last;) {
    last = wake_.wait_until(lock, next, [this] { return stopping_; });
    lock.unlock();
    HostCounters now = read_host_counters();
    // Rates over a very short interval are mostly noise.
    if (last && now.when - before.when < options_.every / 20) return;
    SampleRecord sample = sample_between(before, now, options_.interface);
    sample.time = unix_now();
    sample.step = step_.load(std::memory_order_relaxed);
    sample.host = host;
    sample.gpus = nvml.sample();
    before = std::move(now);
    // A host that was asleep or overloaded skips samples instead of catching up.
    next = std::max(next + options_.every, before.when + options_.every / 2);
    lock.lock();
    samples_.push_back(std::move(sample));
  }
}

}  // namespace reigen
