#include "train/workers/replay.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/json/json.h"
#include "observe/record/log_reader.h"
#include "observe/record/measurement_log.h"
#include "observe/record/record_parser.h"

namespace reigen {
namespace {

// A worker that joined and was lost before the next step never took part in one.
void note(const MembershipChangeRecord& record, RecordedChange& change) {
  for (const ChangedWorkerEntry& worker : record.joined) change.joined.push_back(worker.worker);
  const auto go = [&](uint64_t worker) {
    if (std::erase(change.joined, worker) == 0) change.gone.insert(worker);
  };
  for (const LostWorkerEntry& worker : record.lost) go(worker.worker);
  for (const ChangedWorkerEntry& worker : record.left) go(worker.worker);
}

Json json_of(const std::map<uint64_t, RecordedChange>& changes) {
  Json list = Json::array();
  for (const auto& [step, change] : changes) list.push_back({step, change.gone, change.joined});
  return list;
}

std::map<uint64_t, RecordedChange> changes_in(const Json& list) {
  std::map<uint64_t, RecordedChange> changes;
  for (const Json& entry : list) {
    changes[entry.at(0).get<uint64_t>()] = {entry.at(1).get<std::set<uint64_t>>(),
                                            entry.at(2).get<std::vector<uint64_t>>()};
  }
  return changes;
}

}  // namespace

std::map<uint64_t, RecordedChange> recorded_changes(const std::string& run) {
  std::map<uint64_t, RecordedChange> changes;
  size_t starts = 0;
  bool joined = false;
  bool shares = false;
  LogLineReader lines(MeasurementLog::path_of(run, 0));
  for (std::string_view line; lines.next(line);) {
    if (line.starts_with(line_start<StartRecord>())) ++starts;
    if (line.starts_with(line_start<SharesRecord>())) shares = true;
    if (!line.starts_with(line_start<MembershipChangeRecord>())) continue;
    const auto record = std::get<MembershipChangeRecord>(record_from_json(Json::parse(line)));
    joined = joined || !record.joined.empty();
    note(record, changes[record.step]);
  }
  std::erase_if(changes, [](const auto& entry) {
    return entry.second.gone.empty() && entry.second.joined.empty();
  });
  if (starts != 1) {
    throw ConfigError(
        format("--replay {}: a run that was started once can be repeated, this one was started {}",
               run, counted(starts, "time")));
  }
  if (joined && shares) {
    throw ConfigError(
        format("--replay {}: workers joined it, and it changed the shares of the batch, which is "
               "not repeated together",
               run));
  }
  return changes;
}

Replay::Replay(Job& job, const TrainOptions& options) : job_(job) {
  if (!job.elastic()) return;
  const std::string& like = options.workers.replay;  // on rank 0 only
  if (!job.any(!like.empty())) return;
  std::string text;
  if (job.first()) text = one_line(json_of(recorded_changes(like)));
  changes_ = changes_in(Json::parse(job.broadcast(text)));
}

bool Replay::is_gone(uint64_t step, uint64_t number) const {
  const auto found = changes_.find(step);
  if (found == changes_.end()) return false;
  return std::ranges::any_of(found->second.gone, [&](uint64_t recorded) {
    const auto here = here_.find(recorded);
    return (here == here_.end() ? recorded : here->second) == number;
  });
}

bool Replay::any_leaves(uint64_t step) const {
  if (changes_.empty() || job_.alone()) return false;
  return std::ranges::any_of(job_.membership()->members(), [&](const Member& member) {
    return is_gone(step, static_cast<uint64_t>(member.id.number));
  });
}

bool Replay::leaves(uint64_t step) const {
  if (changes_.empty() || job_.alone()) return false;
  return is_gone(step, static_cast<uint64_t>(job_.membership()->self().id.number));
}

size_t Replay::joining(uint64_t step) const {
  const auto found = changes_.find(step);
  return found == changes_.end() ? 0 : found->second.joined.size();
}

void Replay::added(uint64_t step, std::span<const uint64_t> numbers) {
  if (const auto found = changes_.find(step); found != changes_.end()) {
    const std::vector<uint64_t> recorded = std::exchange(found->second.joined, {});
    for (size_t i = 0; i < std::min(recorded.size(), numbers.size()); ++i) {
      here_[recorded[i]] = numbers[i];
    }
  }
  const Json all = Json::parse(job_.broadcast(one_line({json_of(changes_), Json(here_)})));
  changes_ = changes_in(all.at(0));
  all.at(1).get_to(here_);
}

}  // namespace reigen
