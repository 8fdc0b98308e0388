#include "train/workers/replay.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/json/json.h"
#include "observe/record/log_reader.h"
#include "observe/record/measurement_log.h"
#include "observe/record/record_parser.h"

namespace reigen {

std::map<uint64_t, std::set<uint64_t>> recorded_losses(const std::string& run) {
  std::map<uint64_t, std::set<uint64_t>> lost;
  LogLineReader lines(MeasurementLog::path_of(run, 0));
  for (std::string_view line; lines.next(line);) {
    if (!line.starts_with(line_start<MembershipChangeRecord>())) continue;
    const auto record = std::get<MembershipChangeRecord>(record_from_json(Json::parse(line)));
    if (!record.joined.empty()) {
      throw ConfigError(
          format("--replay {}: workers were added after step {}, which is not repeated", run,
                 with_commas(record.step)));
    }
    for (const auto& worker : record.lost) lost[record.step].insert(worker.worker);
    for (const auto& worker : record.left) lost[record.step].insert(worker.worker);
  }
  return lost;
}

Replay::Replay(Job& job, const TrainOptions& options) : job_(job) {
  if (!job.elastic()) return;
  const std::string& like = options.workers.replay;  // on rank 0 only
  if (!job.any(!like.empty())) return;
  Json list = Json::array();
  if (job.first()) {
    for (const auto& [step, lost] : recorded_losses(like)) list.push_back({step, lost});
  }
  for (const Json& entry : Json::parse(job.broadcast(one_line(list)))) {
    lost_[entry.at(0).get<uint64_t>()] = entry.at(1).get<std::set<uint64_t>>();
  }
}

bool Replay::due(uint64_t step) const {
  const auto found = lost_.find(step);
  if (found == lost_.end() || job_.alone()) return false;
  return std::ranges::any_of(job_.membership()->members(), [&](const Member& member) {
    return found->second.contains(static_cast<uint64_t>(member.id.number));
  });
}

bool Replay::leaves(uint64_t step) const {
  const auto found = lost_.find(step);
  if (found == lost_.end() || job_.alone()) return false;
  const int own = job_.membership()->self().id.number;
  return found->second.contains(static_cast<uint64_t>(own));
}

}  // namespace reigen
