#include "data/shard.h"

#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"

namespace reigen {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are little-endian");

constexpr char kMagic[8] = {'R', 'E', 'I', 'G', 'S', 'H', 'R', 'D'};
constexpr uint32_t kVersion = 1;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t token_bytes;
  uint64_t pairs;
  uint64_t source_tokens;
  uint64_t target_tokens;
  uint64_t reserved;
  uint64_t body_checksum;    // XXH3 of all bytes after the header
  uint64_t header_checksum;  // XXH3 of the header up to here
};
static_assert(sizeof(Header) == 64);

uint64_t header_checksum(const Header& header) {
  return xxh3(&header, offsetof(Header, header_checksum));
}

void append_tokens(std::string& body, const std::vector<uint32_t>& tokens, bool wide) {
  if (wide) {
    body.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * 4);
    return;
  }
  size_t at = body.size();
  body.resize(at + tokens.size() * 2);
  for (uint32_t token : tokens) {
    auto narrow = static_cast<uint16_t>(token);
    std::memcpy(body.data() + at, &narrow, 2);
    at += 2;
  }
}

}  // namespace

ShardBuilder::ShardBuilder(size_t vocabulary_size) : wide_(vocabulary_size > 65'536) {}

void ShardBuilder::add(std::span<const uint32_t> source, std::span<const uint32_t> target,
                       uint32_t eos) {
  source_.insert(source_.end(), source.begin(), source.end());
  source_.push_back(eos);
  target_.insert(target_.end(), target.begin(), target.end());
  target_.push_back(eos);
  source_ends_.push_back(static_cast<uint32_t>(source_.size()));
  target_ends_.push_back(static_cast<uint32_t>(target_.size()));
}

ShardInfo ShardBuilder::write(const std::string& directory, const std::string& file) {
  std::string body;
  body.reserve((source_ends_.size() * 2 + tokens()) * 4);
  append_tokens(body, source_ends_, true);
  append_tokens(body, target_ends_, true);
  append_tokens(body, source_, wide_);
  append_tokens(body, target_, wide_);

  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.token_bytes = wide_ ? 4 : 2;
  header.pairs = source_ends_.size();
  header.source_tokens = source_.size();
  header.target_tokens = target_.size();
  header.body_checksum = xxh3(body.data(), body.size());
  header.header_checksum = header_checksum(header);

  FileWriter out(directory + "/" + file);
  out.write(&header, sizeof header);
  out.write(body);
  out.close();
  ShardInfo info{file,        header.pairs, header.source_tokens, header.target_tokens,
                 out.bytes(), out.sha256()};
  source_ends_.clear();
  target_ends_.clear();
  source_.clear();
  target_.clear();
  return info;
}

Shard::Shard(const std::string& path) : path_(path), file_(path) {
  Header header;
  if (file_.size() < sizeof header) throw DataError(format("{}: too short for a shard", path));
  std::memcpy(&header, file_.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) {
    throw DataError(format("{}: not a shard (wrong magic)", path));
  }
  if (header.header_checksum != header_checksum(header)) {
    throw DataError(
        format("{}: damaged (header checksum does not match); prepare the data again", path));
  }
  if (header.version != kVersion) {
    throw DataError(
        format("{}: shard version {}, but this reigen reads version {}; prepare the "
               "data again",
               path, header.version, kVersion));
  }
  // Sums of products of 64-bit counts may wrap, so each count is bounded by the file first.
  uint64_t room = file_.size();
  bool sane = (header.token_bytes == 2 || header.token_bytes == 4) && header.pairs <= room &&
              header.source_tokens <= room && header.target_tokens <= room;
  uint64_t tokens = header.source_tokens + header.target_tokens;
  if (!sane || sizeof header + header.pairs * 8 + tokens * header.token_bytes != file_.size()) {
    throw DataError(
        format("{}: damaged (its size of {} bytes does not match its header); prepare "
               "the data again",
               path, with_commas(file_.size())));
  }
  token_bytes_ = header.token_bytes;
  pairs_ = header.pairs;
  source_tokens_ = header.source_tokens;
  target_tokens_ = header.target_tokens;
  body_checksum_ = header.body_checksum;
  const auto* ends = reinterpret_cast<const uint32_t*>(file_.data() + sizeof header);
  source_ends_ = {ends, pairs_};
  target_ends_ = {ends + pairs_, pairs_};
  source_at_ = sizeof header + pairs_ * 8;
  target_at_ = source_at_ + source_tokens_ * token_bytes_;
}

void Shard::verify() const {
  const std::byte* body = file_.data() + sizeof(Header);
  if (xxh3(body, file_.size() - sizeof(Header)) != body_checksum_) {
    throw DataError(format("{}: damaged (checksum does not match); prepare the data again", path_));
  }
  auto rises_to = [](std::span<const uint32_t> ends, uint64_t total) {
    uint32_t last = 0;
    for (uint32_t end : ends) {
      if (end <= last) return false;  // every sentence has at least its end
      last = end;
    }
    return last == total;
  };
  if (!rises_to(source_ends_, source_tokens_) || !rises_to(target_ends_, target_tokens_)) {
    throw DataError(
        format("{}: damaged (sentence offsets are not in order); prepare the data again", path_));
  }
}

void Shard::append(std::span<const uint32_t> ends, size_t tokens_at, uint64_t pair,
                   std::vector<uint32_t>& out) const {
  uint32_t begin = pair == 0 ? 0 : ends[pair - 1];
  uint32_t count = ends[pair] - begin;
  const std::byte* from = file_.data() + tokens_at + size_t{begin} * token_bytes_;
  size_t at = out.size();
  out.resize(at + count);
  if (token_bytes_ == 4) {
    std::memcpy(out.data() + at, from, size_t{count} * 4);
    return;
  }
  for (uint32_t i = 0; i < count; ++i) {
    uint16_t token;
    std::memcpy(&token, from + size_t{i} * 2, 2);
    out[at + i] = token;
  }
}

void Shard::append_source(uint64_t pair, std::vector<uint32_t>& out) const {
  append(source_ends_, source_at_, pair, out);
}

void Shard::append_target(uint64_t pair, std::vector<uint32_t>& out) const {
  append(target_ends_, target_at_, pair, out);
}

}  // namespace reigen
