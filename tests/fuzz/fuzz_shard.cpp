// Shards: any bytes give a shard that can be read to its end, or a reigen::Error.
//
// Checksums would reject nearly every input, so each is tried three times: unchanged, with correct
// checksums, and with counts that match its size as well.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "data/shard.h"
#include "fuzz/memory_file.h"

namespace {

using namespace reigen;

// The header's layout, repeated on purpose: a change of the format must be deliberate.
constexpr size_t kHeaderBytes = 64;
constexpr size_t kTokenBytesAt = 12;
constexpr size_t kPairsAt = 16;
constexpr size_t kSourceTokensAt = 24;
constexpr size_t kTargetTokensAt = 32;
constexpr size_t kBodyChecksumAt = 48;
constexpr size_t kHeaderChecksumAt = 56;

constexpr uint64_t kPieces = 70'000;

using Bytes = std::vector<uint8_t>;

uint64_t get(const Bytes& bytes, size_t at) {
  uint64_t value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

void put(Bytes& bytes, size_t at, uint64_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

void fix_checksums(Bytes& bytes) {
  put(bytes, kBodyChecksumAt, xxh3(bytes.data() + kHeaderBytes, bytes.size() - kHeaderBytes));
  put(bytes, kHeaderChecksumAt, xxh3(bytes.data(), kHeaderChecksumAt));
}

// Does not change the body, except that a tail which no count can cover is cut off.
void fix_counts(Bytes& bytes) {
  std::memcpy(bytes.data(), "REIGSHRD\1\0\0\0", 12);
  const uint32_t width = bytes[kTokenBytesAt] % 2 == 0 ? 2 : 4;
  std::memcpy(bytes.data() + kTokenBytesAt, &width, sizeof width);
  const uint64_t body = bytes.size() - kHeaderBytes;
  const uint64_t pairs = get(bytes, kPairsAt) % (body / 8 + 1);
  const uint64_t tokens = (body - pairs * 8) / width;
  const uint64_t source_tokens = get(bytes, kSourceTokensAt) % (tokens + 1);
  put(bytes, kPairsAt, pairs);
  put(bytes, kSourceTokensAt, source_tokens);
  put(bytes, kTargetTokensAt, tokens - source_tokens);
  bytes.resize(kHeaderBytes + pairs * 8 + tokens * width);
}

void read_shard(const Bytes& bytes) {
  try {
    Shard shard(memory_file(bytes.data(), bytes.size()));
    const Shard::Longest longest = shard.verify(kPieces);
    std::vector<uint32_t> source;
    std::vector<uint32_t> target;
    for (uint64_t pair = 0; pair < shard.pairs(); ++pair) {
      shard.append_source(pair, source);
      shard.append_target(pair, target);
    }
    for (const auto* ids : {&source, &target}) {
      if (!ids->empty() && *std::max_element(ids->begin(), ids->end()) >= kPieces) std::abort();
    }
    if (shard.pairs() > 0 && longest.source > source.size()) std::abort();
    bool whole = source.size() == shard.source_tokens() && target.size() == shard.target_tokens();
    if (!whole) std::abort();  // a verified shard has exactly the tokens of its header
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, data + size);
  read_shard(bytes);
  if (size < kHeaderBytes) return 0;
  fix_checksums(bytes);
  read_shard(bytes);
  fix_counts(bytes);
  fix_checksums(bytes);
  read_shard(bytes);
  return 0;
}
