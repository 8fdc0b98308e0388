#include "train/workers/shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/json/json.h"
#include "base/statistics.h"
#include "observe/record/log_reader.h"

namespace reigen {
namespace {

constexpr size_t kLeastMeasured = 10;  // steps
constexpr double kUnit = 1000;         // shares are whole multiples of its inverse
constexpr double kWorthwhile = 0.97;   // of the time of a step

// The time of a step in which each worker computes its share.
double time_of(std::span<const double> speeds, const std::vector<double>& shares) {
  double sum = 0;
  double slowest = 0;
  for (size_t r = 0; r < speeds.size(); ++r) {
    const double share = shares.empty() ? 1 : shares[r];
    sum += share;
    slowest = std::max(slowest, share / speeds[r]);
  }
  return slowest / sum;
}

Json to_json(const std::map<uint64_t, std::vector<double>>& planned) {
  Json list = Json::array();
  for (const auto& [step, shares] : planned) list.push_back({{"step", step}, {"shares", shares}});
  return list;
}

}  // namespace

std::vector<double> better_shares(std::span<const double> speeds, const std::vector<double>& now) {
  const bool known = std::all_of(speeds.begin(), speeds.end(),
                                 [](double speed) { return std::isfinite(speed) && speed > 0; });
  if (!known || speeds.empty()) return now;
  const double all = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  std::vector<double> shares;
  for (const double speed : speeds) {
    shares.push_back(std::max(1.0, std::round(kUnit * speed / all)) / kUnit);
  }
  return time_of(speeds, shares) < kWorthwhile * time_of(speeds, now) ? shares : now;
}

std::map<uint64_t, std::vector<double>> recorded_shares(const std::string& run) {
  const std::string log = run + "/measurements/rank-0.jsonl";
  std::map<uint64_t, std::vector<double>> planned;
  LogLineReader lines(log);
  for (std::string_view line; lines.next(line);) {
    if (!line.starts_with(line_start<SharesRecord>())) continue;
    const auto record = std::get<SharesRecord>(record_from_json(Json::parse(line)));
    planned[record.step] = record.shares;
  }
  return planned;
}

WorkerShares::WorkerShares(Job& job, const TrainOptions& options, Choices& choices)
    : job_(job), choices_(choices), measures_(options.workers.shares == Shares::kMeasured) {
  const auto workers = static_cast<size_t>(job.size());
  if (choices.shares.size() != workers || job.alone()) choices.shares.clear();
  if (job.alone()) return;
  const std::string& like = options.workers.shares_of;  // on rank 0 only
  const bool planned = job.any(!like.empty());
  if (!measures_ && !planned) choices.shares.clear();
  if (!planned) return;
  measures_ = false;
  std::string text;
  if (job.first()) {
    planned_ = recorded_shares(like);
    for (const auto& [step, shares] : planned_) {
      if (shares.size() == workers) continue;
      throw ConfigError(
          format("--shares-of {}: has the shares of {} workers at step {}, but this "
                 "job has {}",
                 like, shares.size(), with_commas(step), workers));
    }
    text = one_line(to_json(planned_));
  }
  text = job.broadcast(text);
  for (const Json& entry : Json::parse(text)) {
    planned_[entry.at("step").get<uint64_t>()] = entry.at("shares").get<std::vector<double>>();
  }
}

void WorkerShares::measured(const ReadyBatch& ready, const StepRecord& record) {
  if (!measures_ || job_.alone()) return;
  double seconds = 0;
  for (const auto& [name, value] : record.spans) {
    if (name == "forward" || name == "loss" || name == "backward") seconds += value;
  }
  if (seconds <= 0 || ready.share <= 0) return;
  speeds_.push_back(ready.share / seconds);
  if (speeds_.size() > kEvery) speeds_.erase(speeds_.begin());
}

bool WorkerShares::due(uint64_t step) const {
  if (job_.alone()) return false;
  return measures_ ? step > 0 && step % kEvery == 0 : planned_.contains(step);
}

double WorkerShares::own_speed() const {
  return speeds_.size() < kLeastMeasured ? 0 : median(speeds_);
}

bool WorkerShares::adapt(uint64_t step) {
  if (const auto planned = planned_.find(step); planned != planned_.end()) {
    return use(step, planned->second);
  }
  std::vector<double> speeds(static_cast<size_t>(job_.size()));
  speeds[static_cast<size_t>(job_.rank())] = own_speed();
  job_.sum(speeds);
  record_.speeds = speeds;
  // Every rank computes the same from the same numbers.
  return use(step, better_shares(speeds, choices_.shares));
}

bool WorkerShares::use(uint64_t step, const std::vector<double>& shares) {
  if (shares == choices_.shares) return false;
  choices_.shares = shares;
  speeds_.clear();
  record_.step = step;
  record_.time = unix_now();
  record_.shares = shares;
  return true;
}

}  // namespace reigen
