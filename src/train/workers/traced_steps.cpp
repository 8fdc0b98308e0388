#include "train/workers/traced_steps.h"

#include <array>
#include <cmath>

#include "base/format.h"
#include "base/host.h"
#include "base/terminal.h"
#include "config/train_options.h"

namespace reigen {
namespace {

using Clock = Timeline::Clock;

double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

void send(Job& job, double value, int to) {
  job.check(job.membership()->group().send(std::as_bytes(std::span(&value, 1)), to).wait());
}

double receive(Job& job, int from) {
  double value = 0;
  job.check(
      job.membership()->group().receive(std::as_writable_bytes(std::span(&value, 1)), from).wait());
  return value;
}

// "all-reduce 1.2 MB" says more than a number of a bucket, which compression does not have.
std::string name_of(const Operation& operation, uint64_t bytes) {
  return bytes > 0 ? format("{} {}", name_of(operation.kind), human_bytes(bytes))
                   : std::string(name_of(operation.kind));
}

}  // namespace

ClockDistance clock_distance(Job& job) {
  constexpr int kRounds = 20;
  ClockDistance distance;
  if (job.alone()) return distance;
  for (int rank = 1; rank < job.size(); ++rank) {
    if (job.first()) {
      for (int i = 0; i < kRounds; ++i) {
        receive(job, rank);
        send(job, now(), rank);
      }
    } else if (job.rank() == rank) {
      double quickest = INFINITY;
      for (int i = 0; i < kRounds; ++i) {
        const double left = now();
        send(job, left, 0);
        const double there = receive(job, 0);
        const double back = now();
        if (back - left >= quickest) continue;
        quickest = back - left;
        distance = {(left + back) / 2 - there, quickest / 2};
      }
    }
  }
  return distance;
}

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
  const ClockDistance distance = clock_distance(job_);
  const std::string name = format("rank {} on {}", job_.rank(), host_name());
  const Json mine = {{"events", timeline_.events(job_.rank(), name, distance.ahead)},
                     {"error", distance.error}};
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
  writer->keep(name_of_file, one_line(trace) + "\n");
  log_note(format("wrote {}: ui.perfetto.dev and chrome://tracing show it",
                  writer->run().file(name_of_file)));
}

}  // namespace reigen
