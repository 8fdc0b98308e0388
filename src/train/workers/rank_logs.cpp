#include "train/workers/rank_logs.h"

#include <algorithm>

namespace reigen {
namespace {

constexpr double kWindowSeconds = 1;

// The lowest rank on a machine samples it.
bool first_on_machine(Job& job) {
  if (job.alone()) return true;
  const std::vector<Member>& members = job.membership()->control().members();
  const auto mine = static_cast<size_t>(job.rank());
  return std::none_of(members.begin(), members.begin() + job.rank(),
                      [&](const Member& m) { return m.machine() == members[mine].machine(); });
}

}  // namespace

void add_step(SpansRecord& sum, const StepRecord& record) {
  sum.step = record.step;
  sum.time = record.time;
  ++sum.steps;
  sum.seconds += record.seconds;
  sum.held_seconds += record.held_seconds;
  for (const auto& [name, seconds] : record.spans) {
    const auto found = std::find_if(sum.spans.begin(), sum.spans.end(),
                                    [&](const auto& span) { return span.first == name; });
    if (found == sum.spans.end()) {
      sum.spans.emplace_back(name, seconds);
    } else {
      found->second += seconds;
    }
  }
  if (!record.communication) return;
  sum.communication.least += record.communication->least;
  sum.communication.busy += record.communication->busy;
  sum.communication.hidden += record.communication->hidden;
  sum.communication.hideable += record.communication->hideable;
  sum.communication.sent += record.communication->sent;
  sum.communication.sent_away += record.communication->sent_away;
}

RankLogs::RankLogs(Job& job, bool on_gpu) : job_(job) {
  if (!first_on_machine(job)) return;
  SamplerOptions options;
  if (!job.alone()) options.interface = job.membership()->interface().name;
  options.gpus = on_gpu;
  sampler_ = std::make_unique<Sampler>(std::move(options));
}

void RankLogs::step(const StepRecord& record) {
  if (sampler_) sampler_->at_step(record.step);
  if (job_.first()) return;  // its steps are in the log one by one
  add_step(window_, record);
  if (window_.seconds >= kWindowSeconds) close_window();
}

void RankLogs::close_window() {
  if (window_.steps == 0) return;
  lines_ += one_line(to_json(window_)) + "\n";
  window_ = {};
}

void RankLogs::stop_sampling() {
  if (sampler_) sampler_->stop();
}

std::vector<std::string> RankLogs::exchange() {
  close_window();
  if (sampler_) {
    for (const SampleRecord& sample : sampler_->take()) lines_ += one_line(to_json(sample)) + "\n";
  }
  std::vector<std::string> all = job_.gather(lines_);
  lines_.clear();
  return all;
}

}  // namespace reigen
