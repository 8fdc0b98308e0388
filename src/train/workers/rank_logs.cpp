#include "train/workers/rank_logs.h"

#include <algorithm>

namespace reigen {
namespace {

constexpr double kWindowSeconds = 1;  // of steps in one span record

// The lowest rank on a host samples it.
bool lowest_on_host(Job& job) {
  if (job.alone()) return true;
  const std::vector<Member>& members = job.membership()->control().members();
  const auto mine = static_cast<size_t>(job.rank());
  return std::none_of(members.begin(), members.begin() + job.rank(),
                      [&](const Member& m) { return m.machine() == members[mine].machine(); });
}

}  // namespace

RankLogs::RankLogs(Job& job, bool on_gpu) : job_(job) {
  if (!lowest_on_host(job)) return;
  SamplerOptions options;
  if (!job.alone()) options.interface = job.membership()->interface().name;
  options.gpus = on_gpu;
  sampler_ = std::make_unique<Sampler>(std::move(options));
}

void RankLogs::step(const StepRecord& record) {
  if (sampler_) sampler_->at_step(record.step);
  if (job_.first()) return;  // rank 0 logs each step
  add_step_to(window_, record);
  if (window_.seconds >= kWindowSeconds) close_window();
}

void RankLogs::close_window() {
  if (window_.steps == 0) return;
  lines_ += log_line(window_);
  window_ = {};
}

void RankLogs::stop_sampling() {
  if (sampler_) sampler_->stop();
}

std::vector<std::string> RankLogs::exchange() {
  close_window();
  if (sampler_) {
    for (const SampleRecord& sample : sampler_->take()) lines_ += log_line(sample);
  }
  std::vector<std::string> all = job_.gather(lines_);
  lines_.clear();
  return all;
}

}  // namespace reigen
