// Shards return the pairs that were added, and any change of a file is detected.
#include "data/shard.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file/files.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ShardInfo write_sample(const TempDir& dir, size_t vocabulary_size) {
  ShardBuilder builder(vocabulary_size);
  builder.add(std::vector<uint32_t>{5, 6, 7}, std::vector<uint32_t>{8}, 1);
  builder.add(std::vector<uint32_t>{}, std::vector<uint32_t>{9, 10}, 1);
  builder.add(std::vector<uint32_t>{static_cast<uint32_t>(vocabulary_size - 1)},
              std::vector<uint32_t>{11, 12}, 1);
  EXPECT_EQ(builder.tokens(), 3u + 1 + 0 + 2 + 1 + 2 + 6);
  return builder.write(dir.path(), "a.shard");
}

class ShardWidths : public ::testing::TestWithParam<size_t> {};

TEST_P(ShardWidths, ReturnEveryPairWithItsEndOfSentence) {
  TempDir dir;
  ShardInfo info = write_sample(dir, GetParam());
  Shard shard(dir.path("a.shard"));
  shard.verify(GetParam());
  EXPECT_EQ(info.pairs, 3u);
  EXPECT_EQ(info.source_tokens, 7u);
  EXPECT_EQ(info.target_tokens, 8u);
  EXPECT_EQ(info.bytes, file_size(dir.path("a.shard")));
  EXPECT_EQ(info.sha256, sha256_of_file(dir.path("a.shard")));
  EXPECT_EQ(shard.source_length(0), 4u);
  EXPECT_EQ(shard.source_length(1), 1u);
  EXPECT_EQ(shard.target_length(2), 3u);
  std::vector<uint32_t> out = {99};
  shard.append_source(0, out);
  shard.append_source(1, out);
  shard.append_source(2, out);
  EXPECT_THAT(out, ElementsAre(99, 5, 6, 7, 1, 1, static_cast<uint32_t>(GetParam() - 1), 1));
  out.clear();
  shard.append_target(1, out);
  EXPECT_THAT(out, ElementsAre(9, 10, 1));
}

TEST_P(ShardWidths, DetectEveryFlippedByte) {
  TempDir dir;
  write_sample(dir, GetParam());
  const std::string bytes = read_file(dir.path("a.shard"));
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    write_text(dir.path("b.shard"), changed);
    try {
      Shard(dir.path("b.shard")).verify(GetParam());
      FAIL() << "byte " << at << " changed unnoticed";
    } catch (const DataError& e) {
      EXPECT_THAT(e.what(), HasSubstr("b.shard"));
    }
  }
}

TEST_P(ShardWidths, DetectEveryTruncation) {
  TempDir dir;
  write_sample(dir, GetParam());
  const std::string bytes = read_file(dir.path("a.shard"));
  for (size_t size = 0; size < bytes.size(); ++size) {
    write_text(dir.path("b.shard"), bytes.substr(0, size));
    EXPECT_THROW(Shard(dir.path("b.shard")).verify(GetParam()), DataError) << size;
  }
}

// Checksums say nothing about a token that was written wrong: its embedding lies outside of the
// model.
TEST_P(ShardWidths, RefuseTokensThatTheVocabularyDoesNotHave) {
  TempDir dir;
  write_sample(dir, GetParam());
  Shard shard(dir.path("a.shard"));
  EXPECT_NO_THROW(shard.verify(GetParam()));
  EXPECT_THROW(shard.verify(GetParam() - 1), DataError);
  EXPECT_THROW(shard.verify(200), DataError);
  EXPECT_THROW(shard.verify(0), DataError);
}

TEST_P(ShardWidths, FindTheLargestTokenWhereverItIs) {
  TempDir dir;
  constexpr size_t kPairs = 100'000;  // several blocks of the checksum
  for (const size_t place : {size_t{0}, kPairs / 2, kPairs - 1}) {
    ShardBuilder builder(GetParam());
    for (size_t pair = 0; pair < kPairs; ++pair) {
      const std::vector<uint32_t> tokens = {pair == place ? 4001u : 4000u};
      builder.add(std::vector<uint32_t>{7}, tokens, 1);
    }
    builder.write(dir.path(), "large.shard");
    Shard shard(dir.path("large.shard"));
    EXPECT_THROW(shard.verify(4001), DataError) << place;
    EXPECT_EQ(shard.verify(4002).target, 2u);
  }
}

TEST_P(ShardWidths, ReturnTheLengthsOfTheLongestSentences) {
  TempDir dir;
  write_sample(dir, GetParam());
  const Shard::Longest longest = Shard(dir.path("a.shard")).verify(GetParam());
  EXPECT_EQ(longest.source, 4u);
  EXPECT_EQ(longest.target, 3u);
}

// A run maps its shards for days; the file may be overwritten meanwhile.
TEST_P(ShardWidths, RefuseAFileThatIsOverwrittenAfterItWasVerified) {
  TempDir dir;
  write_sample(dir, GetParam());
  const std::string path = dir.path("a.shard");
  const std::string good = read_file(path);
  Shard shard(path);
  shard.verify(GetParam());
  const auto overwrite = [&](size_t at, uint32_t value, int bytes) {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_EQ(pwrite(fd, good.data(), good.size(), 0), static_cast<ssize_t>(good.size()));
    EXPECT_EQ(pwrite(fd, &value, static_cast<size_t>(bytes), static_cast<off_t>(at)), bytes);
    close(fd);
  };
  std::vector<uint32_t> out;
  constexpr size_t kSourceEnds = 64;
  constexpr size_t kTokens = kSourceEnds + 6 * 4;
  for (const uint32_t end : {uint32_t{0}, uint32_t{6}, uint32_t{1'000'000}, UINT32_MAX}) {
    overwrite(kSourceEnds, end, 4);  // was 4: empty, too long, outside
    EXPECT_THROW(shard.append_source(0, out), DataError) << end;
    EXPECT_THROW(shard.source_length(0), DataError) << end;
    if (end > 4) {
      EXPECT_THROW(shard.append_source(1, out), DataError) << end;
    }
    EXPECT_NO_THROW(shard.append_target(0, out));
  }
  if (GetParam() > 65'536) {
    overwrite(kTokens, 65'537, 4);
    EXPECT_THROW(shard.append_source(0, out), DataError);
  }
  overwrite(kTokens, 9, 1);
  out.clear();
  shard.append_source(0, out);
  EXPECT_EQ(out.front(), 9u);
}

TEST(Shard, RefusesTokensThatAppearAfterItWasVerified) {
  TempDir dir;
  ShardBuilder builder(100);
  builder.add(std::vector<uint32_t>{5}, std::vector<uint32_t>{99}, 1);
  builder.write(dir.path(), "a.shard");
  Shard shard(dir.path("a.shard"));
  shard.verify(100);
  const uint16_t outside = 100;
  const int fd = open(dir.path("a.shard").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(pwrite(fd, &outside, 2, 64 + 8 + 4), 2);  // after header, ends and source
  close(fd);
  std::vector<uint32_t> out;
  EXPECT_NO_THROW(shard.append_source(0, out));
  EXPECT_THROW(shard.append_target(0, out), DataError);
}

INSTANTIATE_TEST_SUITE_P(NarrowAndWide, ShardWidths, ::testing::Values(65'536, 65'537));

TEST(ShardBuilder, StartsEmptyAfterWriting) {
  TempDir dir;
  ShardBuilder builder(100);
  builder.add(std::vector<uint32_t>{1}, std::vector<uint32_t>{2}, 0);
  EXPECT_FALSE(builder.empty());
  builder.write(dir.path(), "a.shard");
  EXPECT_TRUE(builder.empty());
  EXPECT_EQ(builder.tokens(), 0u);
}

}  // namespace
}  // namespace reigen
