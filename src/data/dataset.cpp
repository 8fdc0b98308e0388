#include "data/dataset.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/terminal.h"

namespace reigen {

namespace {

// `found` is in the file, `recorded` in the manifest.
void check_equal(const std::string& path, const char* what, uint64_t found, uint64_t recorded) {
  if (found == recorded) return;
  throw DataError(format("{}: has {} {} but the manifest records {}; prepare the data again", path,
                         with_commas(found), what, with_commas(recorded)));
}

Shard open_shard(const std::string& directory, const ShardInfo& info) {
  const std::string path = directory + "/" + info.file;
  Shard shard(path);
  check_equal(path, "pairs", shard.pairs(), info.pairs);
  check_equal(path, "source tokens", shard.source_tokens(), info.source_tokens);
  check_equal(path, "target tokens", shard.target_tokens(), info.target_tokens);
  return shard;
}

// The lengths decide which models accept the data, and how much memory its longest pair takes.
void check_side(const std::string& directory, const std::string& corpus, const SideFacts& side,
                uint64_t pairs, uint64_t tokens, uint32_t longest) {
  const std::string where = format("{}: corpus {}", directory, corpus);
  check_equal(where, "sentences by length", side.lengths.sentences(), pairs);
  check_equal(where, "pieces", side.lengths.pieces(), tokens - pairs);
  if (pairs == 0) return;
  check_equal(where, "tokens in its longest sentence", longest,
              uint64_t{side.lengths.longest()} + 1);
}

}  // namespace

Dataset::Dataset(const std::string& directory, const std::vector<CorpusFacts>& corpora,
                 const PieceCounts& pieces) {
  for (const auto& corpus : corpora) {
    corpora_.push_back({pairs(), corpus.lines_kept, corpus.weight});
    uint64_t source_tokens = 0;
    uint64_t target_tokens = 0;
    Shard::Longest longest;
    for (const auto& info : corpus.shards) {
      Shard& shard = shards_.emplace_back(open_shard(directory, info));
      const Shard::Longest here = shard.verify(pieces);
      longest.source = std::max(longest.source, here.source);
      longest.target = std::max(longest.target, here.target);
      source_tokens += shard.source_tokens();
      target_tokens += shard.target_tokens();
      first_pair_.push_back(pairs() + shard.pairs());
    }
    const uint64_t found = pairs() - corpora_.back().first;
    check_equal(format("{}: corpus {}", directory, corpus.name), "pairs in its shards", found,
                corpus.lines_kept);
    check_side(directory, corpus.name, corpus.source, found, source_tokens, longest.source);
    check_side(directory, corpus.name, corpus.target, found, target_tokens, longest.target);
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

const std::string& Dataset::file_of(uint64_t pair) const { return find(pair).shard.path(); }

namespace {

Vocabulary open_recorded(const std::string& directory, const VocabFacts& facts) {
  const std::string path = directory + "/" + facts.file.file;
  Vocabulary vocabulary = Vocabulary::load(path);
  Sha256 sum;
  sum.update(vocabulary.bytes().data(), vocabulary.bytes().size());
  if (sum.hex() != facts.file.sha256) {
    throw DataError(
        format("{}: differs from the vocabulary of the manifest (SHA-256 does not match); prepare "
               "the data again",
               path));
  }
  check_equal(path, "pieces", vocabulary.size(), facts.size);
  if (vocabulary.cuts_text() != facts.cuts_text) {
    throw DataError(format("{}: the manifest records the wrong kind of vocabulary (cuts_text: {})",
                           path, facts.cuts_text));
  }
  return vocabulary;
}

}  // namespace

Vocabulary open_vocabulary(const std::string& directory, const Manifest& manifest) {
  Vocabulary vocabulary = open_recorded(directory, manifest.vocab);
  if (!manifest.source_vocab) return vocabulary;
  return Vocabulary::pair(open_recorded(directory, *manifest.source_vocab), std::move(vocabulary));
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
  for (const auto* split : {&manifest.train, &manifest.valid, &manifest.test}) {
    for (const auto& corpus : *split) {
      for (const auto& info : corpus.shards) open_shard(directory, info);
    }
  }
}

size_t verify_directory(const std::string& directory) {
  constexpr uint64_t kMostSumsBytes = 256 << 20;  // of a million files
  std::istringstream sums(read_file(directory + "/SHA256SUMS", kMostSumsBytes));
  std::vector<std::pair<std::string, std::string>> files;
  uint64_t total = 0;
  for (std::string line; std::getline(sums, line);) {
    if (line.size() < 67 || !is_plain_file_name(line.substr(66))) {
      throw DataError(format("{}/SHA256SUMS: damaged", directory));
    }
    files.emplace_back(line.substr(66), line.substr(0, 64));
    total += file_size(directory + "/" + files.back().first);
  }
  const Manifest manifest = read_manifest(directory);
  const PieceCounts pieces = open_vocabulary(directory, manifest).pieces();
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
    progress.add(file_size(path));
  }
  for (const auto* split : {&manifest.train, &manifest.valid, &manifest.test}) {
    Dataset(directory, *split, pieces);
  }
  // The list itself may be truncated: it must have every file of the manifest with the same sum.
  std::vector<OutputFile> named = manifest.files();
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
