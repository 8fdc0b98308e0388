#include "data/dataset.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/terminal.h"

namespace reigen {

Dataset::Dataset(const std::string& directory, const std::vector<CorpusFacts>& corpora) {
  for (const auto& corpus : corpora) {
    corpora_.push_back({pairs(), corpus.lines_kept, corpus.weight});
    for (const auto& info : corpus.shards) {
      std::string path = directory + "/" + info.file;
      Shard& shard = shards_.emplace_back(path);
      shard.verify();
      if (shard.pairs() != info.pairs) {
        throw DataError(
            format("{}: has {} pairs but the manifest records {}; prepare the data again", path,
                   shard.pairs(), info.pairs));
      }
      first_pair_.push_back(pairs() + shard.pairs());
    }
    if (pairs() - corpora_.back().first != corpus.lines_kept) {
      throw DataError(format("{}: corpus {} should have {} pairs but its shards have {}", directory,
                             corpus.name, corpus.lines_kept, pairs() - corpora_.back().first));
    }
  }
}

Dataset::Place Dataset::find(uint64_t pair) const {
  auto above = std::upper_bound(first_pair_.begin(), first_pair_.end(), pair);
  auto shard = static_cast<size_t>(above - first_pair_.begin()) - 1;
  return {shards_[shard], pair - first_pair_[shard]};
}

uint32_t Dataset::source_length(uint64_t pair) const {
  Place place = find(pair);
  return place.shard.source_length(place.pair);
}

uint32_t Dataset::target_length(uint64_t pair) const {
  Place place = find(pair);
  return place.shard.target_length(place.pair);
}

void Dataset::append_source(uint64_t pair, std::vector<uint32_t>& out) const {
  Place place = find(pair);
  place.shard.append_source(place.pair, out);
}

void Dataset::append_target(uint64_t pair, std::vector<uint32_t>& out) const {
  Place place = find(pair);
  place.shard.append_target(place.pair, out);
}

void check_files(const std::string& directory, const Manifest& manifest) {
  for (const OutputFile& file : manifest.files()) {
    const std::string path = directory + "/" + file.file;
    const uint64_t bytes = file_size(path);
    if (bytes != file.bytes) {
      throw DataError(format("{}: has {} bytes but the manifest records {}; prepare the data again",
                             path, with_commas(bytes), with_commas(file.bytes)));
    }
  }
}

size_t verify_directory(const std::string& directory) {
  std::istringstream sums(read_file(directory + "/SHA256SUMS"));
  std::vector<std::pair<std::string, std::string>> files;
  uint64_t total = 0;
  for (std::string line; std::getline(sums, line);) {
    if (line.size() < 67) throw DataError(format("{}/SHA256SUMS: damaged", directory));
    files.emplace_back(line.substr(66), line.substr(0, 64));
    total += file_size(directory + "/" + files.back().first);
  }
  Progress progress("verify", total, "B");
  for (const auto& [name, sum] : files) {
    check_interrupt();
    std::string path = directory + "/" + name;
    if (sha256_of_file(path) != sum) {
      throw DataError(
          format("{}: damaged (SHA-256 does not match SHA256SUMS); prepare the data "
                 "again",
                 path));
    }
    if (name.ends_with(".shard")) Shard(path).verify();
    progress.add(file_size(path));
  }
  // The list itself may be truncated: it must have every file of the manifest with the same sum.
  std::vector<OutputFile> named = read_manifest(directory).files();
  named.push_back({"manifest.json", 0, sha256_of_file(directory + "/manifest.json")});
  for (const OutputFile& file : named) {
    bool listed = std::any_of(files.begin(), files.end(), [&](const auto& f) {
      return f.first == file.file && f.second == file.sha256;
    });
    if (!listed) {
      throw DataError(
          format("{}/SHA256SUMS: lacks {} or has a wrong sum for it; prepare the data again",
                 directory, file.file));
    }
  }
  return files.size();
}

}  // namespace reigen
