// Training, loading and use of vocabularies. cli/prepare_test.py compares with the real
// `spm_encode`.
#include "text/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/format.h"
#include "support/temp_dir.h"
#include "text/model_facts.h"
#include "text/vocab_trainer.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

WordCounts sample_words() {
  WordCounts words;
  for (int i = 0; i < 300; ++i) {
    words.add(format("the number {} is followed by number {}", i, i + 1));
    words.add(format("auf die Zahl {} folgt größer die Zahl {}", i, i + 1));
  }
  return words;
}

std::string train(VocabType type, int64_t size) {
  VocabOptions options;
  options.type = type;
  options.size = size;
  return train_vocabulary(options, sample_words(), [] { return [](uint64_t) {}; });
}

std::vector<uint32_t> encode(const Vocabulary& vocabulary, std::string_view line) {
  std::vector<uint32_t> ids;
  Encoder(vocabulary).encode(line, ids);
  return ids;
}

TEST(WordCounts, MergeToTheSameOrderForAnySplit) {
  WordCounts whole;
  whole.add("b a a");
  whole.add("c a");
  WordCounts left;
  WordCounts right;
  left.add("c a");
  right.add("b a a");
  left.merge(std::move(right));
  EXPECT_EQ(left.sorted(), whole.sorted());
  EXPECT_EQ(whole.sorted()[0], (std::pair<std::string, uint64_t>{"a", 3}));
  EXPECT_EQ(whole.sorted()[1].first, "b");
}

TEST(VocabTrainer, PutsTheSpecialPiecesFirstAndFillsTheRequestedSize) {
  auto vocabulary = Vocabulary::from_model_bytes(train(VocabType::kBpe, 120), "test");
  EXPECT_EQ(vocabulary.size(), 120u);
  EXPECT_EQ(vocabulary.piece(0), "<pad>");
  EXPECT_EQ(vocabulary.piece(1), "</s>");
  EXPECT_EQ(vocabulary.piece(2), "<s>");
  EXPECT_EQ(vocabulary.piece(3), "<unk>");
  EXPECT_EQ(vocabulary.eos(), 1u);
  EXPECT_EQ(vocabulary.bos(), 2u);
  EXPECT_EQ(vocabulary.unk(), 3u);
}

TEST(VocabTrainer, ReturnsTheSameBytesEveryTime) {
  EXPECT_EQ(train(VocabType::kBpe, 100), train(VocabType::kBpe, 100));
  EXPECT_EQ(train(VocabType::kUnigram, 80), train(VocabType::kUnigram, 80));
}

TEST(VocabTrainer, ReportsProgressAndRestoresStandardError) {
  for (VocabType type : {VocabType::kBpe, VocabType::kUnigram}) {
    VocabOptions options;
    options.type = type;
    options.size = 80;
    std::vector<uint64_t> seen;
    std::streambuf* before = std::cerr.rdbuf();
    train_vocabulary(options, sample_words(),
                     [&] { return [&](uint64_t done) { seen.push_back(done); }; });
    EXPECT_EQ(std::cerr.rdbuf(), before);
    ASSERT_FALSE(seen.empty());
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
    EXPECT_LE(seen.back(), 80u);
  }
}

TEST(VocabTrainer, ATooLargeSizeIsAnErrorThatNamesTheLimit) {
  try {
    train(VocabType::kBpe, 50'000);
    FAIL() << "expected an error";
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), HasSubstr("50000"));
    EXPECT_THAT(e.what(), HasSubstr("at most"));
  }
}

// With byte fallback and a user symbol.
Vocabulary with_bytes(VocabType type) {
  VocabOptions options;
  options.type = type;
  options.size = 330;
  options.byte_fallback = ByteFallback::kOn;
  options.coverage = 1;
  options.user_symbols = {"<ph>", "@@x@@"};
  return Vocabulary::from_model_bytes(
      train_vocabulary(options, sample_words(), [] { return [](uint64_t) {}; }), "test");
}

TEST(VocabTrainer, CountsBytesAndUserSymbolsIn) {
  for (VocabType type : {VocabType::kBpe, VocabType::kUnigram}) {
    const Vocabulary vocabulary = with_bytes(type);
    EXPECT_EQ(vocabulary.size(), 330u);
    size_t bytes = 0;
    for (uint32_t id = 0; id < vocabulary.size(); ++id) {
      bytes += vocabulary.piece(id).starts_with("<0x");
    }
    EXPECT_EQ(bytes, 256u);
  }
}

TEST(VocabTrainer, TakesBytesForLargeVocabulariesOnly) {
  VocabOptions options;
  options.size = 3999;
  EXPECT_EQ(resolve(options).byte_fallback, ByteFallback::kOff);
  EXPECT_EQ(resolve(options).coverage, 1);
  options.size = 4000;
  EXPECT_EQ(resolve(options).byte_fallback, ByteFallback::kOn);
  EXPECT_LT(resolve(options).coverage, 1);
  options.byte_fallback = ByteFallback::kOff;
  EXPECT_EQ(resolve(options).coverage, 1);
}

TEST(VocabTrainer, RefusesSymbolsThatCannotBePieces) {
  for (const char* symbol : {"", "a b", "a,b", "<unk>", "ﬁ", "\"x", "<0x4A>"}) {
    VocabOptions options;
    options.size = 120;
    options.user_symbols = {symbol};
    EXPECT_THROW(train_vocabulary(options, sample_words(), [] { return [](uint64_t) {}; }),
                 ConfigError)
        << symbol;
  }
  VocabOptions twice;
  twice.user_symbols = {"<a>", "<a>"};
  EXPECT_THROW(resolve(twice), ConfigError);
  VocabOptions small;
  small.size = 200;
  small.byte_fallback = ByteFallback::kOn;
  EXPECT_THROW(resolve(small), ConfigError);
}

TEST(Vocabulary, NothingIsUnknownWithBytes) {
  for (VocabType type : {VocabType::kBpe, VocabType::kUnigram}) {
    const Vocabulary vocabulary = with_bytes(type);
    for (const std::string line : {"die Zahl 👩 folgt 日本 größer", "日", "ab👍🏽cd 17"}) {
      const std::vector<uint32_t> ids = encode(vocabulary, line);
      EXPECT_EQ(std::count(ids.begin(), ids.end(), vocabulary.unk()), 0) << line;
      EXPECT_EQ(vocabulary.decode(ids), line);
      EXPECT_TRUE(vocabulary.unknown_pieces(line).empty());
    }
  }
}

TEST(Vocabulary, AUserSymbolIsOnePieceWhereverItOccurs) {
  for (VocabType type : {VocabType::kBpe, VocabType::kUnigram}) {
    const Vocabulary vocabulary = with_bytes(type);
    const std::string line = "die<ph>Zahl @@x@@ folgt <ph><ph> 17";
    const std::vector<uint32_t> ids = encode(vocabulary, line);
    size_t symbols = 0;
    for (const uint32_t id : ids) {
      symbols += vocabulary.piece(id) == "<ph>" || vocabulary.piece(id) == "@@x@@";
    }
    EXPECT_EQ(symbols, 4u);
    EXPECT_EQ(vocabulary.decode(ids), line);
  }
}

TEST(Vocabulary, TheTagOfALanguageIsOnePieceThatTextCannotContain) {
  for (VocabType type : {VocabType::kBpe, VocabType::kUnigram}) {
    VocabOptions options;
    options.type = type;
    options.size = 80;
    options.tags = {">>de<<", ">>pt-BR<<"};
    const Vocabulary vocabulary = Vocabulary::from_model_bytes(
        train_vocabulary(options, sample_words(), [] { return [](uint64_t) {}; }), "test");
    EXPECT_EQ(vocabulary.size(), 80u);
    EXPECT_EQ(vocabulary.tagged_languages(), (std::vector<std::string>{"de", "pt-BR"}));
    EXPECT_FALSE(vocabulary.takes_tags_of_lines());
    const std::optional<uint32_t> tag = vocabulary.tag("de");
    ASSERT_TRUE(tag);
    EXPECT_EQ(vocabulary.piece(*tag), ">>de<<");
    EXPECT_FALSE(vocabulary.tag("fr"));
    for (const std::string line : {">>de<< die Zahl", "die >>de<<Zahl", ">>de<<"}) {
      const std::vector<uint32_t> ids = encode(vocabulary, line);
      EXPECT_EQ(std::count(ids.begin(), ids.end(), *tag), 0) << line;
    }
    options.user_symbols = {">>de<<"};
    EXPECT_THROW(train_vocabulary(options, sample_words(), [] { return [](uint64_t) {}; }),
                 ConfigError);
  }
}

TEST(Vocabulary, AUserSymbolIsNoTag) {
  VocabOptions options;
  options.size = 120;
  options.user_symbols = {">>de<<"};
  const Vocabulary vocabulary = Vocabulary::from_model_bytes(
      train_vocabulary(options, sample_words(), [] { return [](uint64_t) {}; }), "test");
  EXPECT_FALSE(vocabulary.tag("de"));
  EXPECT_TRUE(vocabulary.tagged_languages().empty());
}

TEST(Vocabulary, EncodedTextDecodesToItself) {
  for (VocabType type : {VocabType::kBpe, VocabType::kUnigram}) {
    auto vocabulary = Vocabulary::from_model_bytes(train(type, 80), "test");
    const std::string line = "die Zahl 217 folgt größer";
    EXPECT_EQ(vocabulary.decode(encode(vocabulary, line)), line);
  }
}

TEST(Vocabulary, EncodesALineWordByWord) {
  auto vocabulary = Vocabulary::from_model_bytes(train(VocabType::kBpe, 120), "test");
  std::vector<uint32_t> expected = encode(vocabulary, "number");
  auto second = encode(vocabulary, "unknownκword");
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(encode(vocabulary, "number unknownκword"), expected);
  EXPECT_THAT(second, ::testing::Contains(vocabulary.unk()));
  EXPECT_TRUE(encode(vocabulary, "").empty());
}

TEST(Vocabulary, RejectsAFileThatIsNotAModel) {
  try {
    Vocabulary::from_model_bytes("hello", "x.model");
    FAIL() << "expected an error";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("x.model"));
  }
  EXPECT_THROW(Vocabulary::from_model_bytes("", "empty.model"), DataError);
}

TEST(PieceList, LooksUpPiecesAndReturnsUnknownForTheRest) {
  TempDir dir;
  write_text(dir.path("v.vocab"), "<pad>\t0\n</s>\t0\n<s>\t0\n<unk>\t0\n▁he\t-1\nllo\t-2\n");
  auto vocabulary = Vocabulary::load(dir.path("v.vocab"));
  EXPECT_EQ(vocabulary.size(), 6u);
  EXPECT_FALSE(vocabulary.cuts_text());
  EXPECT_THAT(encode(vocabulary, "▁he llo nope"), ElementsAre(4, 5, 3));
  std::vector<uint32_t> ids = {4, 5, 4, 1};
  EXPECT_EQ(vocabulary.decode(ids), "hello he");
}

TEST(PieceList, JoinsPiecesThatAreNotInTheVocabulary) {
  EXPECT_EQ(Vocabulary::join_pieces("▁Mo ç am bique ▁£ 200"), "Moçambique £200");
}

TEST(PieceList, RejectsListsWithoutTheSpecialPiecesOrWithRepeats) {
  EXPECT_THROW(Vocabulary::from_piece_list("a\nb\n", "v"), DataError);
  EXPECT_THROW(Vocabulary::from_piece_list("</s>\n<unk>\na\na\n", "v"), DataError);
  EXPECT_THROW(Vocabulary::from_piece_list("</s>\n<unk>\n\na\n", "v"), DataError);
}

TEST(ModelFacts, DistinguishBpeFromUnigramAndRejectGarbage) {
  EXPECT_TRUE(read_model_facts(train(VocabType::kBpe, 100)).bpe);
  EXPECT_FALSE(read_model_facts(train(VocabType::kUnigram, 80)).bpe);
  EXPECT_TRUE(read_model_facts(train(VocabType::kBpe, 100)).words_stand_alone);
  EXPECT_FALSE(read_model_facts("\xFF\xFF\xFF").fault.empty());
}

}  // namespace
}  // namespace reigen
