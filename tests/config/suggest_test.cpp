// Typos that get a suggestion, and names that get none.
#include "config/suggest.h"

#include <gtest/gtest.h>

namespace reigen {
namespace {

const std::vector<std::string> kKnown = {"output", "overwrite", "threads", "vocab.size", "seed"};

TEST(Nearest, FindsTheNameBehindATypo) {
  EXPECT_EQ(nearest("ouput", kKnown), "output");           // a letter left out
  EXPECT_EQ(nearest("outputt", kKnown), "output");         // one too many
  EXPECT_EQ(nearest("outptu", kKnown), "output");          // two swapped
  EXPECT_EQ(nearest("vocab_size", kKnown), "vocab.size");  // a different separator
  EXPECT_EQ(nearest("overwite", kKnown), "overwrite");
}

TEST(Nearest, PrefersTheNearerOfTwo) {
  EXPECT_EQ(nearest("sead", {"read", "seed", "sea"}), "read");  // as near as seed: the first
  EXPECT_EQ(nearest("seeed", {"read", "seed"}), "seed");
  EXPECT_EQ(nearest("test", {"tset-long", "text", "test"}), "test");
}

TEST(Nearest, CountsATranspositionAsOneTypo) {
  // "form" is one swap from "from" and one letter from "fore"; after that, two letters from "fire".
  EXPECT_EQ(nearest("form", {"fire", "from"}), "from");
  EXPECT_EQ(nearest("ab", {"xy", "ba"}), "ba");
}

TEST(Nearest, FindsNothingWhenNoNameIsNear) {
  EXPECT_EQ(nearest("learning-rate", kKnown), std::nullopt);
  EXPECT_EQ(nearest("output", {}), std::nullopt);
  EXPECT_EQ(nearest("xyz", kKnown), std::nullopt);
}

TEST(Nearest, AllowsMoreTyposInALongerName) {
  EXPECT_EQ(nearest("vocabulary-size", {"vocab-size"}), "vocab-size");
  EXPECT_EQ(nearest("voc", {"vocab-size"}), std::nullopt);
}

TEST(Nearest, FindsNothingForAVeryLongText) {
  std::string paragraph(201, 'a');
  EXPECT_EQ(nearest(paragraph, {paragraph}), std::nullopt);
}

}  // namespace
}  // namespace reigen
