#include "report/job_workers.h"

#include <map>

namespace reigen {
namespace {

void add_changes(const MembershipChangeRecord& record, std::vector<WorkerChange>& changes) {
  using What = WorkerChange::What;
  for (const LostWorkerEntry& lost : record.lost) {
    changes.push_back({record.step, What::kLost, lost.worker, lost.host, lost.why});
  }
  for (const ChangedWorkerEntry& left : record.left) {
    changes.push_back({record.step, What::kLeft, left.worker, left.host, left.why});
  }
  for (const ChangedWorkerEntry& joined : record.joined) {
    changes.push_back({record.step, What::kJoined, joined.worker, joined.host, joined.why});
  }
}

}  // namespace

const char* name_of(WorkerChange::What what) {
  switch (what) {
    case WorkerChange::What::kLost:
      return "lost";
    case WorkerChange::What::kLeft:
      return "left";
    case WorkerChange::What::kJoined:
      break;
  }
  return "joined";
}

JobWorkers workers_of_job(const RunSummary& run) {
  JobWorkers workers;
  if (run.starts.empty()) return workers;
  const StartRecord& start = run.starts.back();
  std::map<uint64_t, uint64_t> since;
  const auto set = [&](const std::vector<MemberEntry>& members, uint64_t otherwise) {
    workers.present.clear();
    for (const MemberEntry& member : members) {
      const uint64_t step = since.try_emplace(member.worker, otherwise).first->second;
      workers.present.push_back({member.worker, member.host, step});
    }
  };
  set(start.members, start.step);
  for (const MembershipChangeRecord& change : run.memberships) {
    if (change.time < start.time) continue;  // of an earlier attempt
    add_changes(change, workers.changes);
    for (const ChangedWorkerEntry& joined : change.joined) since[joined.worker] = change.step;
    set(change.members, start.step);
  }
  return workers;
}

}  // namespace reigen
