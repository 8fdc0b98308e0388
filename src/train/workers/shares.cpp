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

Json to_json(const std::map<uint64_t, PlannedShares>& planned) {
  Json list = Json::array();
  for (const auto& [step, p] : planned) list.push_back({step, p.shares, p.workers});
  return list;
}

std::vector<int> numbers_of(Job& job) {
  std::vector<int> numbers(static_cast<size_t>(job.size()));
  std::iota(numbers.begin(), numbers.end(), 0);
  if (!job.elastic()) return numbers;
  const std::vector<Member>& members = job.membership()->members();
  std::ranges::transform(members, numbers.begin(), [](const Member& m) { return m.id.number; });
  return numbers;
}

// A worker without a share gets the mean of those that are known.
std::vector<double> shares_of(const std::vector<int>& workers, const PlannedShares& known) {
  std::vector<double> shares(workers.size());
  double sum = 0;
  size_t found = 0;
  for (size_t r = 0; r < workers.size(); ++r) {
    const auto at = std::ranges::find(known.workers, workers[r]) - known.workers.begin();
    if (static_cast<size_t>(at) == known.shares.size()) continue;
    sum += shares[r] = known.shares[static_cast<size_t>(at)];
    ++found;
  }
  if (found == 0 || workers.size() == 1) return {};
  for (double& share : shares) {
    if (share == 0) share = sum / static_cast<double>(found);
  }
  return shares;
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

std::map<uint64_t, PlannedShares> recorded_shares(const std::string& run) {
  const std::string log = run + "/measurements/rank-0.jsonl";
  std::map<uint64_t, PlannedShares> planned;
  LogLineReader lines(log);
  for (std::string_view line; lines.next(line);) {
    if (!line.starts_with(line_start<SharesRecord>())) continue;
    const auto record = std::get<SharesRecord>(record_from_json(Json::parse(line)));
    PlannedShares& last = planned[record.step] = {record.shares, {}};
    last.workers.assign(record.workers.begin(), record.workers.end());
    last.workers.resize(last.shares.size());
    if (record.workers.empty()) std::iota(last.workers.begin(), last.workers.end(), 0);
  }
  return planned;
}

WorkerShares::WorkerShares(Job& job, const TrainOptions& options, Choices& choices)
    : job_(job),
      choices_(choices),
      workers_(numbers_of(job)),
      measures_(options.workers.shares == Shares::kMeasured) {
  if (choices.shares.size() != workers_.size() || job.alone()) choices.shares.clear();
  if (job.alone()) return;
  const WorkerOptions& w = options.workers;
  const std::string& like = w.shares_of.empty() ? w.replay : w.shares_of;  // on rank 0 only
  const bool planned = job.any(!like.empty());
  if (!measures_ && !planned) choices.shares.clear();
  if (!planned) return;
  measures_ = false;
  std::string text;
  if (job.first()) {
    planned_ = recorded_shares(like);
    for (const auto& [step, known] : planned_) {
      if (known.shares.size() == workers_.size() || job.elastic()) continue;
      throw ConfigError(
          format("--shares-of {}: has the shares of {} workers at step {}, but this "
                 "job has {}",
                 like, known.shares.size(), with_commas(step), workers_.size()));
    }
    text = one_line(to_json(planned_));
  }
  text = job.broadcast(text);
  for (const Json& entry : Json::parse(text)) {
    planned_[entry.at(0).get<uint64_t>()] = {entry.at(1).get<std::vector<double>>(),
                                             entry.at(2).get<std::vector<int>>()};
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
    return use(step, shares_of(workers_, planned->second));
  }
  std::vector<double> speeds(static_cast<size_t>(job_.size()));
  speeds[static_cast<size_t>(job_.rank())] = own_speed();
  job_.sum(speeds);
  // Every rank computes the same from the same numbers.
  if (!use(step, better_shares(speeds, choices_.shares))) return false;
  record_.speeds = speeds;
  return true;
}

bool WorkerShares::use(uint64_t step, std::vector<double> shares) {
  if (shares == choices_.shares) return false;
  choices_.shares = std::move(shares);
  speeds_.clear();
  note(step);
  return true;
}

void WorkerShares::rejoin(uint64_t step) {
  const std::vector<int> now = numbers_of(job_);
  if (!choices_.shares.empty()) choices_.shares = shares_of(now, {choices_.shares, workers_});
  workers_ = now;
  note(step);
}

void WorkerShares::note(uint64_t step) {
  record_ = {.step = step, .shares = choices_.shares};
  if (job_.elastic()) record_.workers.assign(workers_.begin(), workers_.end());
}

}  // namespace reigen
