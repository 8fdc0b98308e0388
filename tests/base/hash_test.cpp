// Checksums against published vectors: users compare them with `sha256sum`, and files contain them.
#include "base/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"

namespace reigen {
namespace {

constexpr const char* kSha256OfAbc =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kSha256OfNothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* kSha256OfAMillionA =
    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

TEST(Sha256, AgreesWithThePublishedVectors) {
  Sha256 nothing;
  EXPECT_EQ(nothing.hex(), kSha256OfNothing);
  Sha256 abc;
  abc.update("abc", 3);
  EXPECT_EQ(abc.hex(), kSha256OfAbc);
}

TEST(Sha256, DoesNotDependOnTheSizeOfUpdates) {
  Sha256 sum;
  const std::string piece(999, 'a');
  size_t left = 1'000'000;
  for (size_t n = 1; left > 0; n = n % piece.size() + 1) {
    size_t now = std::min(n, left);
    sum.update(piece.data(), now);
    left -= now;
  }
  EXPECT_EQ(sum.hex(), kSha256OfAMillionA);
}

TEST(HmacSha256, AgreesWithThePublishedVectors) {
  // RFC 4231, test cases 1 and 2
  EXPECT_EQ(hmac_sha256(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac_sha256("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(SameSecret, IsEqualityOfTexts) {
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_FALSE(same_secret("abc", "abd"));
  EXPECT_FALSE(same_secret("abc", "abcd"));
}

TEST(RandomHex, HasTheRequestedLengthAndNeverRepeats) {
  EXPECT_EQ(random_hex(16).size(), 32u);
  EXPECT_NE(random_hex(16), random_hex(16));
}

TEST(Crc32c, AgreesWithThePublishedVectors) {
  EXPECT_EQ(crc32c("", 0), 0u);
  EXPECT_EQ(crc32c("123456789", 9), 0xE3069283u);
  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\0').data(), 32), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF').data(), 32), 0x62A8AB43u);
}

// Shards contain these; a different value would make every existing dataset unreadable.
TEST(Xxh3, AgreesWithThePublishedVectors) {
  EXPECT_EQ(xxh3("", 0), 0x2D06800538D394C2ull);
  EXPECT_EQ(xxh3("abc", 3), 0x78AF5F94892F3950ull);
  EXPECT_NE(xxh3("abc", 3, 1), xxh3("abc", 3));
}

TEST(Xxh3Of128Bits, AgreesWithThePublishedVectorAndDistinguishesTexts) {
  EXPECT_EQ(xxh3_128(""), (Hash128{0x6001C324468D497Full, 0x99AA06D3014798D8ull}));
  EXPECT_FALSE(xxh3_128("ab") == xxh3_128("ba"));
  EXPECT_FALSE(xxh3_128("ab", 1) == xxh3_128("ab", 2));
}

TEST(Mix64, IsTheFinaliserOfSplitmix64) {
  EXPECT_EQ(mix64(0), 0xE220A8397B1DCDAFull);
  EXPECT_EQ(mix64(0x9E3779B97F4A7C15ull), 0x6E789E6AA1B965F4ull);  // its second output from seed 0
}

TEST(Hex, EncodesAndDecodesAnyBytes) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(hex_encode(std::string("\0\xFA", 2)), "00fa");
  EXPECT_EQ(hex_decode(hex_encode(bytes)), bytes);
  EXPECT_EQ(hex_decode("0"), std::nullopt);
  EXPECT_EQ(hex_decode("0g"), std::nullopt);
}

}  // namespace
}  // namespace reigen
