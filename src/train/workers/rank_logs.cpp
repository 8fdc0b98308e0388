#include "train/workers/rank_logs.h"

namespace reigen {
namespace {

constexpr double kWindowSeconds = 1;  // of steps in one span record

}  // namespace

RankLogs::RankLogs(Job& job, bool on_gpu) : job_(job) {
  if (!job.first_here()) return;  // one rank samples the host
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
