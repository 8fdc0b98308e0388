// The cost of sampling: CPU time of taking one sample of this host and writing its log line, as a
// share of the second between two samples.
#include <ctime>

#include <algorithm>
#include <vector>

#include "base/format.h"
#include "base/terminal.h"
#include "observe/sample/host_counters.h"
#include "observe/sample/nvml.h"
#include "observe/sample/process_counters.h"

namespace {

double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

int main() {
  constexpr int kSamples = 301;
  const reigen::Nvml nvml;
  std::vector<double> taken;
  size_t bytes = 0;
  reigen::HostCounters before = reigen::read_host_counters();
  reigen::ProcessCounters process = reigen::read_process_counters();
  for (int i = 0; i < kSamples; ++i) {
    const double start = thread_seconds();
    reigen::HostCounters now = reigen::read_host_counters();
    reigen::SampleRecord sample = reigen::sample_between(before, now, "eth0");
    sample.gpus = nvml.sample();
    reigen::ProcessCounters process_now = reigen::read_process_counters();
    const reigen::ProcessRecord own = reigen::process_between(process, process_now);
    bytes = reigen::log_line(sample).size() + reigen::log_line(own).size();
    process = std::move(process_now);
    before = std::move(now);
    taken.push_back(thread_seconds() - start);
  }
  std::sort(taken.begin(), taken.end());
  const double median = taken[kSamples / 2];
  if (before.cores.empty()) return 1;  // nothing was sampled
  reigen::print(reigen::format(
      "{{\"cores\": {}, \"gpus\": {}, \"median_us\": {:.0f}, \"largest_us\": {:.0f}, "
      "\"bytes\": {}, \"percent_of_one_core\": {:.4f}}}\n",
      before.cores.size(), nvml.sample().size(), 1e6 * median, 1e6 * taken.back(), bytes,
      100 * median));
}
