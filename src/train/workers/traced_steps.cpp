#include "train/workers/traced_steps.h"

#include "base/format.h"
#include "base/machine.h"
#include "base/terminal.h"
#include "config/train_options.h"
#include "dist/group/clock_offset.h"

namespace reigen {
namespace {

using Clock = Timeline::Clock;

double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// The offset of this worker's steady clock from rank 0's. Collective.
ClockOffset clock_offset(Job& job) {
  if (job.alone()) return {};
  constexpr int kRounds = 20;
  std::vector<ClockOffset> offsets;
  job.check(measure_clock_offsets(job.membership()->group(), now, kRounds, offsets));
  return offsets[static_cast<size_t>(job.rank())];
}

// "all-reduce 1.2 MB": the size is more useful than a bucket number, and compressed gradients have
// no buckets.
std::string name_of(const Operation& operation, uint64_t bytes) {
  return bytes > 0 ? format("{} {}", name_of(operation.kind), human_bytes(bytes))
                   : std::string(name_of(operation.kind));
}

}  // namespace

std::unique_ptr<TracedSteps> TracedSteps::of(Job& job, const std::string& range) {
  if (range.empty()) return nullptr;
  const StepRange steps = parse_step_range(range);
  return std::make_unique<TracedSteps>(job, steps.first, steps.last);
}

TracedSteps::TracedSteps(Job& job, uint64_t first, uint64_t last)
    : job_(job), timeline_(first, last) {
  if (job_.alone()) return;
  job_.membership()->group().watch(
      [this](const Operation& operation, const OpTimes& times, uint64_t bytes) {
        timeline_.add("network", name_of(operation, bytes), times.begin, times.end, bytes);
      });
}

TracedSteps::~TracedSteps() {
  if (!job_.alone()) job_.membership()->group().watch({});
}

void TracedSteps::after(uint64_t step, RunWriter* writer, bool ending) {
  timeline_.lap("observe");
  const bool chosen = step >= timeline_.first() && step <= timeline_.last();
  if (!ending && chosen) ++traced_;
  if (done_ || (!ending && step < timeline_.last())) return;
  done_ = true;
  timeline_.at_step(0);
  if (traced_ > 0) write(writer);
}

void TracedSteps::write(RunWriter* writer) {
  const ClockOffset offset = clock_offset(job_);
  const std::string name = format("rank {} on {}", job_.rank(), host_name());
  const Json mine = {{"events", timeline_.events(job_.rank(), name, offset.seconds)},
                     {"error", offset.error}};
  const std::vector<std::string> all = job_.gather(one_line(mine));
  if (writer == nullptr) return;
  Json trace = {{"traceEvents", Json::array()}, {"displayTimeUnit", "ms"}};
  Json errors = Json::array();
  for (const std::string& text : all) {
    Json one = Json::parse(text);
    for (Json& event : one["events"]) trace["traceEvents"].push_back(std::move(event));
    errors.push_back(one["error"]);
  }
  trace["otherData"] = {{"clock", "rank 0's steady clock"}, {"clock_error_seconds", errors}};
  const std::string name_of_file =
      format("timeline-{}-{}.json", timeline_.first(), timeline_.last());
  writer->write_file(name_of_file, one_line(trace) + "\n");
  log_note(format("timeline written to {}; open it in ui.perfetto.dev or chrome://tracing",
                  writer->run().file(name_of_file)));
}

}  // namespace reigen
