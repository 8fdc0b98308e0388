#include "observe/sample/sampler.h"

#include <pthread.h>

#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/format.h"
#include "base/machine.h"
#include "base/terminal.h"
#include "base/thread.h"
#include "observe/sample/host_counters.h"
#include "observe/sample/nvml.h"
#include "observe/sample/process_counters.h"

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

std::vector<Record> Sampler::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(samples_, {});
}

bool Sampler::wait_until(std::chrono::steady_clock::time_point next) {
  std::unique_lock lock(mutex_);
  return wake_.wait_until(lock, next, [this] { return stopping_; });
}

void Sampler::store(Record record) {
  const std::lock_guard lock(mutex_);
  samples_.push_back(std::move(record));
}

void Sampler::run() {
  pthread_setname_np(pthread_self(), "sampler");
  std::optional<Nvml> nvml;
  if (options_.host) nvml.emplace();
  if (nvml && options_.gpus && !nvml->absent().empty()) {
    log_warning(
        format("{}; utilisation, memory, power, clock, throttling and other processes of GPUs are "
               "not recorded",
               nvml->absent()));
  }
  const std::string host = host_name();
  const uint64_t memory = memory_limit();
  ProcessCounters process_before = read_process_counters();
  HostCounters before;
  if (options_.host) before = read_host_counters();
  auto next = process_before.when + options_.every;
  for (bool last = false; !last;) {
    last = wait_until(next);
    const int input = process_before.input ? process_before.input->id : 0;
    ProcessCounters process = read_process_counters("", input);
    // Rates over a very short interval are mostly noise.
    if (last && process.when - process_before.when < options_.every / 20) return;
    const uint64_t step = step_.load(std::memory_order_relaxed);
    ProcessRecord own = process_between(process_before, process);
    own.step = step;
    own.threads = options_.threads;
    own.memory_limit = memory;
    if (options_.host) {
      HostCounters now = read_host_counters();
      SampleRecord sample = sample_between(before, now, options_.interface);
      sample.time = own.time;
      sample.step = step;
      sample.host = host;
      sample.gpus = nvml->sample(options_.processes);
      before = std::move(now);
      store(std::move(sample));
    }
    store(std::move(own));
    process_before = std::move(process);
    // A host that was asleep or overloaded skips samples instead of catching up.
    next = std::max(next + options_.every, process_before.when + options_.every / 2);
  }
}

}  // namespace reigen
