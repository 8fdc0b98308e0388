#include "observe/record/records.h"

#include <algorithm>
#include <numeric>

#include "observe/record/field_columns.h"
#include "observe/record/field_writer.h"
#include "observe/record/record_reader.h"

namespace reigen {
namespace {

template <class Value>
double sum_of_used(const SampleRecord& r, Value&& value) {
  const bool marked =
      std::any_of(r.interfaces.begin(), r.interfaces.end(), [](const auto& i) { return i.used; });
  double sum = 0;
  for (const InterfaceSample& i : r.interfaces) {
    if (marked ? i.used : i.name != "lo") sum += value(i);
  }
  return sum;
}

}  // namespace

double SampleRecord::core_use() const {
  if (cores.empty()) return 0;
  return std::accumulate(cores.begin(), cores.end(), 0.0) / static_cast<double>(cores.size());
}

double SampleRecord::busiest_core() const {
  return cores.empty() ? 0 : *std::max_element(cores.begin(), cores.end());
}

double SampleRecord::network_in() const {
  return sum_of_used(*this, [](const InterfaceSample& i) { return i.in; });
}

double SampleRecord::network_out() const {
  return sum_of_used(*this, [](const InterfaceSample& i) { return i.out; });
}

double SampleRecord::fastest_direction() const {
  double fastest = 0;
  sum_of_used(*this, [&](const InterfaceSample& i) {
    fastest = std::max({fastest, i.in, i.out});
    return 0.0;
  });
  return fastest;
}

double SampleRecord::gpu_use() const {
  double use = 0;
  for (const GpuSample& g : gpus) use += g.utilisation / static_cast<double>(gpus.size());
  return use;
}

double SampleRecord::gpu_memory() const {
  uint64_t most = 0;
  for (const GpuSample& g : gpus) most = std::max(most, g.memory_used);
  return static_cast<double>(most);
}

double SampleRecord::gpu_watts() const {
  double watts = 0;
  for (const GpuSample& g : gpus) watts += g.watts;
  return watts;
}

double SampleRecord::gpu_megahertz() const {
  double clock = 0;
  for (const GpuSample& g : gpus) clock += g.megahertz / static_cast<double>(gpus.size());
  return clock;
}

bool SampleRecord::gpu_slowed() const {
  return std::any_of(gpus.begin(), gpus.end(), [](const GpuSample& g) {
    return g.slowed_by.find("thermal") != std::string::npos ||
           g.slowed_by.find("hardware") != std::string::npos ||
           g.slowed_by.find("power-brake") != std::string::npos;
  });
}

double SampleRecord::gpu_others() const {
  double others = 0;
  for (const GpuSample& g : gpus) others += static_cast<double>(g.other_processes.value_or(0));
  return others;
}

namespace {

// A process that waits for a collective also counts as use.
constexpr double kInUse = 50;  // percent
// Clocks of GPUs that compute at their power limit vary by this share.
constexpr double kUsualClockLoss = 0.15;

// Calls visit(gpu) for the GPUs that this job uses; where that is hidden, for those in use.
template <class Visit>
void visit_gpus_in_use(const std::vector<GpuSample>& gpus, Visit&& visit) {
  const bool known = std::any_of(gpus.begin(), gpus.end(),
                                 [](const GpuSample& g) { return g.other_processes.has_value(); });
  for (const GpuSample& g : gpus) {
    if (known ? g.other_processes.has_value() : g.utilisation >= kInUse) visit(g);
  }
}

}  // namespace

double SampleRecord::gpu_lost_clock() const {
  double most = 0;
  visit_gpus_in_use(gpus, [&](const GpuSample& g) {
    if (g.max_megahertz <= 0 || g.megahertz <= 0 || g.utilisation < kInUse) return;
    const double lost = 1 - g.megahertz / g.max_megahertz;
    if (lost > kUsualClockLoss) most = std::max(most, lost);
  });
  return most;
}

double SampleRecord::gpu_other_use() const {
  double most = 0;
  visit_gpus_in_use(
      gpus, [&](const GpuSample& g) { most = std::max(most, g.other_use.value_or(0) / 100); });
  return most;
}

bool SampleRecord::gpu_clock_known() const {
  return std::any_of(gpus.begin(), gpus.end(),
                     [](const GpuSample& g) { return g.max_megahertz > 0; });
}

bool SampleRecord::gpu_other_use_known() const {
  return std::any_of(gpus.begin(), gpus.end(),
                     [](const GpuSample& g) { return g.other_use.has_value(); });
}

void add_step_to(SpansRecord& sum, const StepRecord& step) {
  sum.step = step.step;
  sum.time = step.time;
  ++sum.steps;
  add_fields(sum, step, rank_fields<SpansRecord>(Combine::kSum),
             rank_fields<StepRecord>(Combine::kSum));
}

uint64_t step_of(const Record& record) {
  return std::visit([](const auto& r) { return r.step; }, record);
}

Json to_json(const Record& record) {
  return std::visit(
      []<class R>(const R& r) {
        Json json = {{"kind", R::kKind.name}};
        write_fields(r, json);
        return json;
      },
      record);
}

Record record_from_json(const Json& json) { return read_record(JsonValue(json)); }

std::string log_line(const Record& record) { return one_line(to_json(record)) + "\n"; }

}  // namespace reigen
