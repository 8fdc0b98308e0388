#include "train/workers/rank_logs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/format.h"

namespace reigen {
namespace {

constexpr double kWindowSeconds = 1;  // of steps in one span record

}  // namespace

RankLogs::RankLogs(Job& job, bool on_gpu) : job_(job), on_gpu_(on_gpu) { begin_sampling(); }

void RankLogs::begin_sampling() {
  if (!job_.first_here()) return;  // one rank samples the host
  SamplerOptions options;
  if (job_.membership() != nullptr) options.interface = job_.membership()->interface().name;
  options.gpus = on_gpu_;
  sampler_ = std::make_unique<Sampler>(std::move(options));
}

void RankLogs::rejoin() {
  if (!sampler_) begin_sampling();
}

void RankLogs::step(const StepRecord& record) {
  if (sampler_) sampler_->at_step(record.step);
  if (job_.first()) return;  // rank 0 logs each step
  add_step_to(window_, record);
  if (window_.seconds >= kWindowSeconds) close_window();
}

void RankLogs::close_window() {
  if (window_.steps == 0) return;
  records_.push_back(window_);
  window_ = {};
}

void RankLogs::stop_sampling() {
  if (sampler_) sampler_->stop();
}

std::vector<Record> RankLogs::parse(std::string_view lines, size_t rank) {
  std::vector<Record> records;
  const std::string source = format("records of rank {}", rank);
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    records.push_back(parser_.parse(line, source, records.size() + 1));
  }
  return records;
}

std::vector<std::vector<Record>> RankLogs::exchange() {
  close_window();
  if (sampler_) {
    for (SampleRecord& sample : sampler_->take()) records_.push_back(std::move(sample));
  }
  std::string lines;
  if (!job_.first()) {
    for (const Record& record : records_) lines += log_line(record);
  }
  const std::vector<std::string> sent = job_.gather(lines);
  std::vector<std::vector<Record>> all;
  if (job_.first()) all.push_back(std::move(records_));
  for (size_t rank = 1; rank < sent.size(); ++rank) all.push_back(parse(sent[rank], rank));
  records_.clear();
  return all;
}

}  // namespace reigen
