// A shard: a file of encoded pairs with checksums, made for memory mapping.
//
// Layout, little-endian: a 64-byte header (magic, version, counts, checksums), then the end offset
// of each source and each target, then all source tokens, then all target tokens. Tokens take two
// bytes if the vocabulary allows it, else four. Every sentence ends with the end-of-sentence piece,
// so a stored length is the number of tokens that the model sees.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file/files.h"
#include "text/piece_counts.h"

namespace reigen {

// A shard as the manifest records it.
struct ShardInfo {
  std::string file;
  uint64_t pairs = 0;
  uint64_t source_tokens = 0;  // end of sentence included
  uint64_t target_tokens = 0;
  uint64_t bytes = 0;
  std::string sha256;
};

// Collects pairs in memory and writes them as one file.
class ShardBuilder {
 public:
  explicit ShardBuilder(size_t vocabulary_size);

  // Without ends of sentences, which are pieces of each side's vocabulary.
  void add(std::span<const uint32_t> source, std::span<const uint32_t> target, uint32_t source_eos,
           uint32_t target_eos);
  void add(std::span<const uint32_t> source, std::span<const uint32_t> target, uint32_t eos) {
    add(source, target, eos, eos);
  }
  uint64_t tokens() const { return source_.size() + target_.size(); }
  bool empty() const { return source_ends_.empty(); }

  // Writes directory/file and starts the next shard.
  ShardInfo write(const std::string& directory, const std::string& file);

 private:
  bool wide_;
  std::vector<uint32_t> source_ends_;
  std::vector<uint32_t> target_ends_;
  std::vector<uint32_t> source_;
  std::vector<uint32_t> target_;
};

// A mapped shard. Opening checks the header and the layout; verify() reads every byte. The file may
// still be overwritten while it is mapped, so lengths and tokens are checked again whenever they
// are read, against the limits that verify() found: DataError, and never memory outside of the
// shard.
class Shard {
 public:
  explicit Shard(const std::string& path);

  uint64_t pairs() const { return pairs_; }
  uint64_t source_tokens() const { return source_.tokens; }
  uint64_t target_tokens() const { return target_.tokens; }
  uint32_t source_length(uint64_t pair) const { return sentence(source_, pair).count; }
  uint32_t target_length(uint64_t pair) const { return sentence(target_, pair).count; }
  void append_source(uint64_t pair, std::vector<uint32_t>& out) const;
  void append_target(uint64_t pair, std::vector<uint32_t>& out) const;
  const std::string& path() const { return path_; }

  // The longest sentences in tokens, end of sentence included.
  struct Longest {
    uint32_t source = 0;
    uint32_t target = 0;
  };

  // Throws DataError naming the file unless its content matches its checksums and every token is
  // one of the `pieces` of its side: the embedding of any other lies outside of the model.
  Longest verify(const PieceCounts& pieces);

 private:
  struct Side {
    std::span<const uint32_t> ends;  // of its sentences
    size_t at = 0;                   // of its tokens in the file
    uint64_t tokens = 0;
    uint32_t longest = UINT32_MAX;        // sentence, once verified
    uint64_t pieces = uint64_t{1} << 31;  // of the vocabulary, once verified
  };
  struct Sentence {
    uint32_t begin;
    uint32_t count;
  };
  Sentence sentence(const Side& side, uint64_t pair) const;
  void check_content(const PieceCounts& pieces) const;
  void append(const Side& side, uint64_t pair, std::vector<uint32_t>& out) const;
  [[noreturn]] void throw_changed() const;

  std::string path_;
  MappedFile file_;
  uint32_t token_bytes_ = 0;
  uint64_t pairs_ = 0;
  uint64_t body_checksum_ = 0;
  Side source_;
  Side target_;
};

}  // namespace reigen
