// --hosts-file: the hosts of a job, one on each line, in a file that may change while an elastic
// job runs.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dist/launch/hosts/host_slots.h"

namespace reigen {

// The lines "vm1:2" and "vm2" are two workers on vm1 and one on vm2; text after # is a comment.
// Throws ConfigError that names file and line.
std::vector<HostSlots> parse_hosts_file(const std::string& content, const std::string& path);
std::vector<HostSlots> read_hosts_file(const std::string& path);  // and DataError

struct HostChanges {
  std::vector<HostSlots> added;
  std::vector<std::string> removed;
  std::vector<std::string> resized;  // with a different number of workers, which stays as it was
  bool operator==(const HostChanges&) const = default;
};
HostChanges changes_between(std::span<const HostSlots> before, std::span<const HostSlots> after);

// Reads the file again while a job runs.
class WatchedHosts {
 public:
  // No path: nothing ever changes. `present`: the hosts of the job.
  WatchedHosts(std::string path, std::vector<HostSlots> present);

  const std::string& path() const { return path_; }
  // The changes since the last call that had some. Two reads must agree, a second apart: the file
  // may be in the middle of being written. One that cannot be used is a warning, once for each
  // error, and changes nothing.
  std::optional<HostChanges> poll(std::chrono::steady_clock::time_point now);

 private:
  std::string path_;
  std::vector<HostSlots> present_;
  std::optional<std::string> last_;  // content
  std::string error_;                // that was warned of
  std::chrono::steady_clock::time_point next_ = {};
};

}  // namespace reigen
