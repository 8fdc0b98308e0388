#include "dist/launch/hosts/hosts_file.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/printable.h"
#include "base/terminal.h"

namespace reigen {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 20;
constexpr std::chrono::seconds kBetweenReads{1};

std::string without_comment(const std::string& line) {
  constexpr const char* kSpace = " \t\r";
  const std::string text = line.substr(0, line.find('#'));
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

HostSlots host_in(const std::string& entry) {
  if (entry.find_first_of(", \t") != std::string::npos) {
    throw ConfigError(format("'{}' is not one host; write vm1 or vm1:2", printable_line(entry)));
  }
  return parse_host(entry);
}

const HostSlots* find_host(std::span<const HostSlots> hosts, const std::string& name) {
  const auto found =
      std::find_if(hosts.begin(), hosts.end(), [&](const HostSlots& h) { return h.host == name; });
  return found == hosts.end() ? nullptr : &*found;
}

}  // namespace

std::vector<HostSlots> parse_hosts_file(const std::string& content, const std::string& path) {
  std::vector<HostSlots> hosts;
  std::map<std::string, int> lines;
  std::istringstream text(content);
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    const std::string entry = without_comment(line);
    if (entry.empty()) continue;
    try {
      const HostSlots slots = host_in(entry);
      const auto [first, is_new] = lines.emplace(slots.host, number);
      if (!is_new) {
        throw ConfigError(format("host {} is on line {} already; write its number of workers there",
                                 slots.host, first->second));
      }
      hosts.push_back(slots);
    } catch (const ConfigError& e) {
      throw ConfigError(format("{}, line {}: {}", path, number, e.what()));
    }
  }
  if (hosts.empty()) throw ConfigError(format("{} names no host; write one on each line", path));
  return hosts;
}

std::vector<HostSlots> read_hosts_file(const std::string& path) {
  return parse_hosts_file(read_file(path, kMostBytes), path);
}

HostChanges changes_between(std::span<const HostSlots> before, std::span<const HostSlots> after) {
  HostChanges changes;
  for (const HostSlots& host : after) {
    const HostSlots* known = find_host(before, host.host);
    if (known == nullptr) changes.added.push_back(host);
    if (known != nullptr && known->workers != host.workers) changes.resized.push_back(host.host);
  }
  for (const HostSlots& host : before) {
    if (find_host(after, host.host) == nullptr) changes.removed.push_back(host.host);
  }
  return changes;
}

WatchedHosts::WatchedHosts(std::string path, std::vector<HostSlots> present)
    : path_(std::move(path)), present_(std::move(present)) {}

std::optional<HostChanges> WatchedHosts::poll(std::chrono::steady_clock::time_point now) {
  if (path_.empty() || now < next_) return std::nullopt;
  next_ = now + kBetweenReads;
  try {
    std::string content = read_file(path_, kMostBytes);
    const bool settled = last_ == content;
    last_ = std::move(content);
    if (!settled) return std::nullopt;
    std::vector<HostSlots> hosts = parse_hosts_file(*last_, path_);
    error_.clear();
    HostChanges changes = changes_between(present_, hosts);
    present_ = std::move(hosts);
    if (changes == HostChanges()) return std::nullopt;
    return changes;
  } catch (const Error& e) {
    if (std::exchange(error_, e.what()) != e.what()) {
      log_warning(format("the job continues on its present hosts: {}", e.what()));
    }
    return std::nullopt;
  }
}

}  // namespace reigen
