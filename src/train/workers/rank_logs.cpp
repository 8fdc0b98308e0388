#include "train/workers/rank_logs.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "base/format.h"

namespace reigen {
namespace {

constexpr double kWindowSeconds = 1;  // of steps in one span record

// The process ids of the workers on this host: this one and those that the same launcher started.
std::vector<uint64_t> processes_here() {
  std::vector<uint64_t> here = {static_cast<uint64_t>(getpid())};
  const pid_t launcher = getppid();
  if (launcher <= 1) return here;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", none)) {
    const uint64_t process = std::strtoull(entry.path().filename().c_str(), nullptr, 10);
    if (process == 0 || process == here[0]) continue;
    std::ifstream in(entry.path() / "stat");
    const std::string text(std::istreambuf_iterator<char>(in), {});
    // The name in brackets may contain anything; state and parent follow it.
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) continue;
    std::istringstream fields(text.substr(name_end + 1));
    char state = 0;
    pid_t parent = 0;
    if (fields >> state >> parent && parent == launcher) here.push_back(process);
  }
  return here;
}

}  // namespace

RankLogs::RankLogs(Job& job, bool on_gpu, int threads)
    : job_(job), on_gpu_(on_gpu), threads_(threads) {
  begin_sampling();
}

// One rank samples the host.
void RankLogs::begin_sampling() {
  samples_host_ = job_.first_here();
  SamplerOptions options;
  options.host = samples_host_;
  options.threads = static_cast<uint64_t>(threads_);
  if (on_gpu_ && samples_host_) options.processes = processes_here();
  if (job_.membership() != nullptr) options.interface = job_.membership()->interface().name;
  options.gpus = on_gpu_;
  sampler_ = std::make_unique<Sampler>(std::move(options));
}

void RankLogs::rejoin() {
  if (samples_host_ || !job_.first_here()) return;
  for (Record& sample : sampler_->take()) records_.push_back(std::move(sample));
  begin_sampling();
}

void RankLogs::step(const StepRecord& record) {
  sampler_->at_step(record.step);
  if (job_.first()) return;  // rank 0 logs each step
  add_step_to(window_, record);
  if (window_.seconds >= kWindowSeconds) close_window();
}

void RankLogs::close_window() {
  if (window_.steps == 0) return;
  records_.push_back(window_);
  window_ = {};
}

void RankLogs::stop_sampling() { sampler_->stop(); }

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
  for (Record& sample : sampler_->take()) records_.push_back(std::move(sample));
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
