#include "observe/record/run_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/file/files.h"
#include "base/file/own_file.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/json/json_view.h"
#include "base/machine.h"
#include "base/thread.h"
#include "observe/record/log_reader.h"
#include "observe/record/measurement_log.h"
#include "observe/record/record_parser.h"

namespace reigen {
namespace {

constexpr int kVersion = 8;  // of rollup.json
constexpr uint64_t kHashedBytes = 256;
constexpr uint64_t kBytesWorthThreads = 16 << 20;
constexpr size_t kMaxThreads = 8;

std::string rollup_of(const std::string& run) { return run + "/measurements/rollup.json"; }

// Hash of the bytes just before `end`; nothing when the file is shorter.
std::optional<uint64_t> hash_before(const std::string& path, uint64_t end) {
  const uint64_t size = std::min(end, kHashedBytes);
  std::string bytes(size, '\0');
  try {
    const int fd = open_own_for_reading(path);
    const ssize_t got = pread(fd, bytes.data(), size, static_cast<off_t>(end - size));
    ::close(fd);
    if (got != static_cast<ssize_t>(size)) return std::nullopt;
  } catch (const DataError&) {
    return std::nullopt;
  }
  return xxh3(bytes.data(), bytes.size());
}

}  // namespace

std::vector<int> ranks_logged(const std::string& run_directory) {
  std::vector<int> ranks;
  std::error_code none;
  for (const auto& entry :
       std::filesystem::directory_iterator(run_directory + "/measurements", none)) {
    const std::string name = entry.path().filename().string();
    int rank = -1;
    char rest = 0;
    const bool is_log = std::sscanf(name.c_str(), "rank-%d.json%c", &rank, &rest) == 2 &&
                        name == format("rank-{}.jsonl", rank);
    if (is_log && rank >= 0) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

RunReader::RunReader(std::string run_directory) : directory_(std::move(run_directory)) {}

// Loads rollup.json as a whole or not at all.
bool RunReader::load() {
  const std::string path = rollup_of(directory_);
  if (!path_exists(path)) return false;
  try {
    const Json json = read_own_json(path);
    if (json.at("version") != kVersion) return false;
    std::map<int, Position> positions;
    for (const Json& entry : json.at("positions")) {
      const JsonView position(entry);
      positions[position.at("rank")] = {position.at("bytes"), position.at("hash")};
    }
    const uint64_t damaged = JsonView(json).at("damaged_lines");
    summary_ = RunSummary::from_json(json.at("run"));
    positions_ = std::move(positions);
    damaged_ = damaged;
  } catch (const Json::exception&) {
    return false;
  } catch (const DataError&) {
    return false;
  }
  return true;
}

bool RunReader::matches_logs() const {
  return std::all_of(positions_.begin(), positions_.end(), [&](const auto& entry) {
    const auto& [rank, position] = entry;
    return hash_before(MeasurementLog::path_of(directory_, rank), position.bytes) == position.hash;
  });
}

double RunReader::progress() const {
  const uint64_t all = to_read_;
  return all == 0 ? 0 : static_cast<double>(have_read_) / static_cast<double>(all);
}

// Changes only this rank's part of the summary; that of rank 0 includes the lists.
void RunReader::read_log(int rank) {
  const std::string path = MeasurementLog::path_of(directory_, rank);
  Position& position = positions_.at(rank);
  LogLineReader reader(path, position.bytes);
  RecordParser parser;
  std::string_view line;
  while (reader.next(line)) {
    if (cancelled_) throw Interrupted("reading the logs was cancelled");
    try {
      summary_.add(rank, parser.parse(line, path, reader.number()));
    } catch (const DataError&) {
      ++damaged_;
    }
    have_read_.fetch_add(line.size() + 1, std::memory_order_relaxed);
  }
  if (reader.end() == position.bytes) return;
  position.bytes = reader.end();
  position.hash = hash_before(path, position.bytes).value_or(0);
}

// Gigabytes of logs are read by several threads, the records of some seconds by one.
void RunReader::read_logs(const std::vector<int>& ranks) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  auto work = [&] {
    for (size_t i = next++; i < ranks.size(); i = next++) {
      try {
        read_log(ranks[i]);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  std::vector<std::thread> helpers;
  if (to_read_ > kBytesWorthThreads) {
    const auto cores = static_cast<size_t>(usable_cores());
    while (helpers.size() + 1 < std::min({cores, ranks.size(), kMaxThreads})) {
      helpers.push_back(thread_without_signals(work));
    }
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
}

bool RunReader::refresh() {
  const std::vector<int> ranks = ranks_logged(directory_);
  if (ranks.empty()) {
    throw DataError(format("{}: is not a run: it has no measurements/rank-0.jsonl", directory_));
  }
  bool any = false;
  if (!opened_) any = load();
  opened_ = true;
  if (!matches_logs()) {
    summary_ = RunSummary();
    positions_.clear();
    damaged_ = 0;
    any = true;
  }
  uint64_t bytes = 0;
  for (int rank : ranks) {
    const uint64_t size = file_size(MeasurementLog::path_of(directory_, rank));
    bytes += size - std::min(size, positions_[rank].bytes);
    summary_.ranks[rank];
  }
  have_read_ = 0;
  to_read_ = bytes;
  read_logs(ranks);
  unfinished_ = static_cast<uint64_t>(std::count_if(ranks.begin(), ranks.end(), [&](int rank) {
    return file_size(MeasurementLog::path_of(directory_, rank)) > positions_[rank].bytes;
  }));
  // A log without records is not a rank yet.
  std::erase_if(summary_.ranks, [](const auto& entry) {
    return entry.second.spans.rows().empty() && !entry.second.last_sample;
  });
  return any || have_read_ > 0;
}

void RunReader::save() const {
  Json positions = Json::array();
  for (const auto& [rank, position] : positions_) {
    positions.push_back({{"rank", rank}, {"bytes", position.bytes}, {"hash", position.hash}});
  }
  const std::string path = rollup_of(directory_);
  // Several readers may save at once, also in the process that trains.
  static std::atomic<int> saved = 0;
  const std::string partial = format("{}.{}.{}", path, getpid(), saved++);
  try {
    FileWriter writer(partial);
    writer.write(one_line({{"version", kVersion},
                           {"positions", std::move(positions)},
                           {"damaged_lines", damaged_.load()},
                           {"run", summary_.to_json()}}));
    writer.close();
    std::filesystem::rename(partial, path);
  } catch (const std::exception&) {  // the logs have everything
    std::error_code none;
    std::filesystem::remove(partial, none);
  }
}

}  // namespace reigen
