#include "train/join.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "device/device.h"
#include "dist/launch.h"
#include "observe/memory.h"

namespace reigen {
namespace {

// Each worker's own business; everything else must be the same for all.
const std::set<std::string> kOwn = {
    "run",    "data",      "threads",           "memory",         "quiet",          "interface",
    "device", "dashboard", "dashboard-address", "dashboard-port", "dashboard-token"};

void add_facts(const Json& options, const std::string& prefix,
               std::map<std::string, std::string>& facts) {
  for (const auto& [key, value] : options.items()) {
    const std::string path = prefix + key;
    if (kOwn.contains(path)) continue;
    if (value.is_object()) {
      add_facts(value, path + ".", facts);
    } else {
      facts["option " + path] = one_line(value);
    }
  }
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds));
}

}  // namespace

bool started_as_worker() {
  const std::optional<Placement> placement = detect_launch();
  return placement && placement->size > 1;
}

Crew join_crew(TrainOptions& options, const std::string& version) {
  std::optional<Placement> placement = detect_launch();
  if (!placement || placement->size <= 1) return {};
  const int local = std::max(1, placement->local_size);
  if (options.threads == 0) options.threads = std::max(1, usable_cores() / local);
  if (options.memory == 0) options.memory = available_memory() / 2 / static_cast<uint64_t>(local);
  TeamOptions team = meet(std::move(*placement));
  team.interface = options.workers.interface;
  team.start_within = milliseconds(options.workers.start_within);
  team.silence = milliseconds(options.workers.silence);
  team.facts["version"] = version;
  add_facts(options.as_given, "", team.facts);
  return Crew(std::make_unique<Team>(std::move(team)));
}

}  // namespace reigen
