// Normalisers of SentencePiece models: good ones are accepted, and each way to leave the trie or
// its texts is refused before SentencePiece walks it.
#include "text/charsmap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "text/vocab_trainer.h"
#include "text/vocabulary.h"

namespace reigen {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kLeaf = 1 << 8;
constexpr uint32_t kValue = 1u << 31;

uint32_t node(uint32_t label, uint32_t offset, uint32_t flags = 0) {
  return label | flags | offset << 10;
}

std::string charsmap_of(const std::vector<uint32_t>& units, const std::string& texts) {
  const auto bytes = static_cast<uint32_t>(units.size() * 4);
  std::string map(reinterpret_cast<const char*>(&bytes), 4);
  map.append(reinterpret_cast<const char*>(units.data()), bytes);
  return map + texts;
}

// Units that are no child of any node.
std::vector<uint32_t> free_units(size_t blocks) {
  return std::vector<uint32_t>(blocks * 256, kValue);
}

constexpr uint32_t kA = 256 + 'a';  // the child of the root

// "a" becomes the text at `value`. The root has its children in the second block.
std::vector<uint32_t> one_rule(uint32_t value = 0) {
  std::vector<uint32_t> units = free_units(2);
  units[0] = node(0, 256);
  units[kA] = node('a', 1, kLeaf);  // its children are at kA ^ 1 ^ label
  units[kA ^ 1] = kValue | value;
  return units;
}

// "a", "aa", "aaa" and so on, each with a replacement.
std::vector<uint32_t> nested_rules(uint32_t depth) {
  std::vector<uint32_t> units = free_units(depth + 2);
  units[0] = node(0, 256);
  for (uint32_t k = 1; k <= depth; ++k) {
    const uint32_t at = 256 * k + 'a';
    const uint32_t base = 256 * (k + 1);
    units[at] = node('a', at ^ base, kLeaf);
    units[base] = kValue;
  }
  return units;
}

const std::string kText("b\0", 2);

TEST(Charsmap, AcceptsATrieThatStaysInside) {
  EXPECT_EQ(charsmap_fault(charsmap_of(one_rule(), kText)), "");
  EXPECT_EQ(charsmap_fault(charsmap_of(one_rule(1), kText)), "");
  EXPECT_EQ(charsmap_fault(charsmap_of(nested_rules(32), kText)), "");
}

TEST(Charsmap, RefusesSizesThatDoNotFit) {
  const std::string good = charsmap_of(one_rule(), kText);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(charsmap_fault(good.substr(0, size)), "") << size;
  }
  EXPECT_NE(charsmap_fault(charsmap_of({}, kText)), "");
  std::string lies = good;
  for (const uint32_t bytes : {0u, 4u, 1020u, 2050u, 2051u, 0xFFFFFFFFu}) {
    std::memcpy(lies.data(), &bytes, 4);
    EXPECT_NE(charsmap_fault(lies), "") << bytes;
  }
}

TEST(Charsmap, RefusesAUnitThatPointsOutside) {
  for (const uint32_t offset : {512u, 1u << 10, (1u << 21) - 1}) {
    std::vector<uint32_t> units = one_rule();
    units[0] = node(0, offset);
    EXPECT_NE(charsmap_fault(charsmap_of(units, kText)), "") << offset;
    units = one_rule();
    units[kA] = node('a', offset, kLeaf);
    EXPECT_NE(charsmap_fault(charsmap_of(units, kText)), "") << offset;
    units[kA] = node('a', 2, kLeaf | 1 << 9);  // the offset times 256
    EXPECT_NE(charsmap_fault(charsmap_of(units, kText)), "") << offset;
  }
}

TEST(Charsmap, RefusesAReplacementOutsideOfTheTextsOrWithoutAnEnd) {
  EXPECT_NE(charsmap_fault(charsmap_of(one_rule(2), kText)), "");
  EXPECT_NE(charsmap_fault(charsmap_of(one_rule(0x7FFFFFFF), kText)), "");
  EXPECT_NE(charsmap_fault(charsmap_of(one_rule(), "b")), "");
  EXPECT_NE(charsmap_fault(charsmap_of(one_rule(), "")), "");
}

TEST(Charsmap, RefusesACycle) {
  std::vector<uint32_t> units = one_rule();
  units[kA] = node('a', 'a', 0);  // its child 'a' is itself
  EXPECT_THAT(charsmap_fault(charsmap_of(units, kText)), HasSubstr("cycle"));
}

TEST(Charsmap, RefusesMoreMatchesAtOnePlaceThanSentencePieceHasRoomFor) {
  EXPECT_NE(charsmap_fault(charsmap_of(nested_rules(33), kText)), "");
  EXPECT_NE(charsmap_fault(charsmap_of(nested_rules(1000), kText)), "");
}

// A field of a protobuf message with text.
std::string field(uint32_t number, const std::string& bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  for (size_t rest = bytes.size(); true; rest >>= 7) {
    out += static_cast<char>(rest < 128 ? rest : (rest & 127) | 128);
    if (rest < 128) return out + bytes;
  }
}

class HostileModel : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    WordCounts words;
    for (int i = 0; i < 200; ++i) words.add(format("number {} ab ba aab", i));
    VocabOptions options;
    options.size = 60;
    model_ = new std::string(train_vocabulary(options, words, [] { return [](uint64_t) {}; }));
  }
  static void TearDownTestSuite() { delete model_; }
  // Protobuf merges the following message into the model.
  static Vocabulary load_with(const std::string& more) {
    return Vocabulary::from_model_bytes(*model_ + more, "x.model");
  }
  static std::vector<uint32_t> ids_of(const Vocabulary& vocabulary, const std::string& line) {
    std::vector<uint32_t> ids;
    Encoder(vocabulary).encode(line, ids);
    return ids;
  }
  static std::string normalizer(const std::string& charsmap) {
    return field(3, field(2, charsmap));
  }
  static std::string denormalizer(const std::string& map) { return field(5, field(2, map)); }
  static std::string symbol(const std::string& piece) {
    return field(1, field(1, piece) + std::string("\x18\x04", 2));  // type: user-defined
  }
  static std::string* model_;
};
std::string* HostileModel::model_ = nullptr;

TEST_F(HostileModel, AGoodNormaliserIsUsed) {
  const Vocabulary plain = load_with("");
  const Vocabulary mapped = load_with(normalizer(charsmap_of(one_rule(), kText)));
  EXPECT_EQ(ids_of(mapped, "a"), ids_of(plain, "b"));
}

TEST_F(HostileModel, ABrokenNormaliserIsRefusedInEitherPlace) {
  std::vector<uint32_t> outside = one_rule();
  outside[0] = node(0, 1 << 20);
  for (const std::string& map :
       {charsmap_of(outside, kText), charsmap_of(one_rule(9999), kText),
        charsmap_of(one_rule(), "b"), charsmap_of(nested_rules(40), kText), std::string("x")}) {
    EXPECT_THROW(load_with(normalizer(map)), DataError);
    EXPECT_THROW(load_with(denormalizer(map)), DataError);
    EXPECT_THROW(load_with(normalizer(map) + normalizer("")), DataError);
  }
}

// libprotobuf ignores the upper bits of a tag, and skips groups that it does not know.
TEST_F(HostileModel, ANormaliserCannotHideFromTheCheck) {
  const std::string map = charsmap_of(one_rule(9999), kText);
  std::string hidden = normalizer(map);
  hidden.replace(0, 1, std::string("\x9A\x80\x80\x80\x10", 5));  // tag 3 with bit 32 set
  EXPECT_THROW(load_with(hidden), DataError);
  EXPECT_THROW(load_with("\x33\x34" + normalizer(map)), DataError);  // an empty group
}

TEST_F(HostileModel, PiecesThatSentencePieceCannotHandleAreRefused) {
  EXPECT_NO_THROW(load_with(symbol("xyz")));
  EXPECT_THROW(load_with(symbol(std::string(1 << 20, 'x'))), DataError);
  EXPECT_THROW(load_with(symbol(std::string("x\0y", 3))), DataError);
  EXPECT_THROW(load_with(symbol("")), DataError);
  EXPECT_THROW(load_with(symbol("x") + symbol("x")), DataError);
  std::string nested;
  for (size_t n = 1; n <= 32; ++n) nested += symbol(std::string(n, 'x'));
  EXPECT_FALSE(ids_of(load_with(nested), std::string(300, 'x')).empty());
  EXPECT_THROW(load_with(nested + symbol(std::string(33, 'x'))), DataError);
}

}  // namespace
}  // namespace reigen
