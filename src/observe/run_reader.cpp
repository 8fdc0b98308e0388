#include "observe/run_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/format.h"
#include "base/hash.h"
#include "observe/log_reader.h"
#include "observe/measurement_log.h"

namespace reigen {
namespace {

constexpr int kVersion = 3;
constexpr uint64_t kHashedBytes = 256;

std::string rollup_of(const std::string& run) { return run + "/measurements/rollup.json"; }

// Of the bytes just before `end`; nothing when the file is shorter.
std::optional<uint64_t> hash_before(const std::string& path, uint64_t end) {
  std::ifstream in(path, std::ios::binary);
  const uint64_t size = std::min(end, kHashedBytes);
  std::string bytes(size, '\0');
  in.seekg(static_cast<std::streamoff>(end - size));
  if (!in.read(bytes.data(), static_cast<std::streamsize>(size))) return std::nullopt;
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

bool RunReader::load() {
  const std::string path = rollup_of(directory_);
  if (!path_exists(path)) return false;
  try {
    const Json json = read_json(path);
    if (json.at("version") != kVersion) return false;
    for (const Json& entry : json.at("positions")) {
      positions_[entry.at("rank").get<int>()] = {entry.at("bytes").get<uint64_t>(),
                                                 entry.at("hash").get<uint64_t>()};
    }
    damaged_ = json.at("damaged_lines").get<uint64_t>();
    fold_ = RunFold::from_json(json.at("run"));
  } catch (const Json::exception&) {
    return false;
  } catch (const DataError&) {
    return false;
  }
  return true;
}

bool RunReader::fits() const {
  return std::all_of(positions_.begin(), positions_.end(), [&](const auto& entry) {
    const auto& [rank, position] = entry;
    return hash_before(MeasurementLog::path_of(directory_, rank), position.bytes) == position.hash;
  });
}

bool RunReader::read_log(int rank) {
  const std::string path = MeasurementLog::path_of(directory_, rank);
  Position& position = positions_[rank];
  LineReader reader(path, position.bytes);
  std::string_view line;
  bool any = false;
  while (reader.next(line)) {
    any = true;
    try {
      fold_.add(rank, parse_record(line, path, reader.number()));
    } catch (const DataError&) {
      ++damaged_;
    }
  }
  position.bytes = reader.end();
  position.hash = hash_before(path, position.bytes).value_or(0);
  return any;
}

bool RunReader::refresh() {
  const std::vector<int> ranks = ranks_logged(directory_);
  if (ranks.empty()) {
    throw DataError(format("{}: is not a run (it has no measurements/rank-0.jsonl)", directory_));
  }
  bool any = false;
  if (!opened_) any = load();
  opened_ = true;
  if (!fits()) {
    fold_ = RunFold();
    positions_.clear();
    damaged_ = 0;
    any = true;
  }
  for (int rank : ranks) any = read_log(rank) || any;
  return any;
}

void RunReader::save() const {
  Json positions = Json::array();
  for (const auto& [rank, position] : positions_) {
    positions.push_back({{"rank", rank}, {"bytes", position.bytes}, {"hash", position.hash}});
  }
  const std::string path = rollup_of(directory_);
  const std::string partial = format("{}.{}", path, getpid());  // a reader may save one as well
  try {
    FileWriter writer(partial);
    writer.write(one_line({{"version", kVersion},
                           {"positions", std::move(positions)},
                           {"damaged_lines", damaged_},
                           {"run", fold_.to_json()}}));
    writer.close();
    std::filesystem::rename(partial, path);
  } catch (const std::exception&) {  // the logs have everything
  }
}

}  // namespace reigen
