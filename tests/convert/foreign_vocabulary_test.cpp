// vocab.json, and a SentencePiece model with its ids.
#include "convert/foreign_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "text/vocab_trainer.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ids_error(const std::string& text) {
  try {
    parse_piece_ids(text, 3, "vocab.json");
  } catch (const DataError& e) {
    return e.what();
  }
  return "";
}

TEST(ParsePieceIds, OrdersPiecesAndNamesMissingIds) {
  EXPECT_THAT(parse_piece_ids(R"({"b": 2, "a": 0})", 3, "vocab.json"),
              ElementsAre("a", "<missing1>", "b"));
  EXPECT_THAT(parse_piece_ids(R"({"<missing1>": 2, "": 1, "a": 0})", 3, "vocab.json"),
              ElementsAre("a", "<missing1>>", "<missing1>"));
}

TEST(ParsePieceIds, RefusesAnythingElse) {
  for (const char* text : {"", "{", "[]", "5", R"({"a": -1})", R"({"a": 1.5})", R"({"a": "b"})",
                           R"({"a": {}})", R"({"a": null})", R"({"a": 3})", R"({"a": 1, "b": 1})",
                           R"({"a": 1, "a": 2})", R"({"a": [1]})"}) {
    EXPECT_THAT(ids_error(text), HasSubstr("vocab.json")) << text;
  }
}

std::string trained(VocabType type) {
  WordCounts words;
  for (int i = 0; i < 300; ++i) words.add(format("the number {} is followed by {}!", i, i + 1));
  VocabOptions options;
  options.size = 90;
  options.type = type;
  return train_vocabulary(options, words, [] { return [](uint64_t) {}; });
}

std::vector<std::string> pieces_of(const Vocabulary& vocabulary, const std::string& line) {
  std::vector<uint32_t> ids;
  Encoder(vocabulary).encode(line, ids);
  std::vector<std::string> pieces;
  for (const uint32_t id : ids) pieces.push_back(vocabulary.piece(id));
  return pieces;
}

class Renumbered : public ::testing::TestWithParam<VocabType> {};

// The list has the pieces backwards, lacks one, and has some that the model lacks.
TEST_P(Renumbered, CutsTextAsBeforeWithTheIdsOfTheList) {
  const std::string model = trained(GetParam());
  const Vocabulary before = Vocabulary::from_model_bytes(model, "before");
  const std::string line = "the number 27 is followed by 28!";
  const std::vector<std::string> cut = pieces_of(before, line);
  const std::string lacking = cut.back();
  ListedPieces list;
  for (size_t id = before.size(); id-- > 4;) {
    const std::string piece = before.piece(static_cast<uint32_t>(id));
    if (piece != lacking) list.pieces.push_back(piece);
  }
  // BPE would merge these if they were pieces of the model.
  for (const char* piece :
       {">>de<<", "mber\xE2\x96\x81", "er", "ollowe", "</s>", "<unk>", "<pad>"}) {
    if (std::find(list.pieces.begin(), list.pieces.end(), piece) == list.pieces.end()) {
      list.pieces.emplace_back(piece);
    }
  }
  const auto size = static_cast<uint32_t>(list.pieces.size());
  list.eos = size - 3;
  list.unk = size - 2;
  list.start = size - 1;
  const Vocabulary after = listed_vocabulary(model, list, "after");
  EXPECT_EQ(after.size(), list.pieces.size());
  EXPECT_EQ(after.eos(), list.eos);
  EXPECT_EQ(after.unk(), list.unk);
  EXPECT_EQ(after.bos(), list.start);
  std::vector<std::string> wanted = cut;
  for (std::string& piece : wanted) {
    if (piece == lacking) piece = "<unk>";
  }
  EXPECT_EQ(pieces_of(after, line), wanted);
  wanted.insert(wanted.begin(), ">>de<<");
  EXPECT_EQ(pieces_of(after, ">>de<< " + line), wanted);
  wanted[0] = "<unk>";
  EXPECT_EQ(pieces_of(after, ">>fr<< " + line), wanted);
  EXPECT_TRUE(after.takes_tags_of_lines());
  EXPECT_THAT(after.tagged_languages(), ElementsAre("de"));
  ASSERT_TRUE(after.tag("de"));
  std::vector<uint32_t> ids;
  Encoder(after, LineTags::kText).encode(">>de<< " + line, ids);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), *after.tag("de")), 0);
  ids.clear();
  Encoder(after).encode("the number is", ids);
  ids.push_back(after.eos());
  EXPECT_EQ(after.decode(ids), "the number is");
  // Its bytes are a vocabulary of their own.
  EXPECT_EQ(pieces_of(Vocabulary::from_model_bytes(after.bytes(), "again"), line),
            pieces_of(after, line));
}

// As a special piece it would no longer be found in text.
TEST_P(Renumbered, RefusesASpecialPieceThatIsText) {
  const std::string model = trained(GetParam());
  const Vocabulary before = Vocabulary::from_model_bytes(model, "before");
  ListedPieces good;
  for (uint32_t id = 0; id < before.size(); ++id) good.pieces.push_back(before.piece(id));
  good.unk = before.unk();
  good.eos = before.eos();
  good.start = before.bos();
  const uint32_t text = before.size() - 1;
  for (uint32_t ListedPieces::*special :
       {&ListedPieces::unk, &ListedPieces::eos, &ListedPieces::start}) {
    ListedPieces list = good;
    list.*special = text;
    try {
      listed_vocabulary(model, list, "target.spm");
      ADD_FAILURE() << "accepted";
    } catch (const DataError& e) {
      EXPECT_THAT(e.what(), HasSubstr("target.spm"));
      EXPECT_THAT(e.what(), HasSubstr(before.piece(text)));
    }
  }
}

// A model with the pieces of `model` and the given ones, which it lacks.
Vocabulary with_pieces(const std::string& model, const std::vector<std::string>& further) {
  const Vocabulary before = Vocabulary::from_model_bytes(model, "before");
  ListedPieces list;
  for (uint32_t id = 0; id < before.size(); ++id) list.pieces.push_back(before.piece(id));
  list.pieces.insert(list.pieces.end(), further.begin(), further.end());
  list.unk = before.unk();
  list.eos = before.eos();
  list.start = before.bos();
  return listed_vocabulary(model, list, "after");
}

// As transformers does, which looks up the texts that SentencePiece returns.
TEST_P(Renumbered, LooksUpTextThatTheModelLacksInTheList) {
  const std::string model = trained(GetParam());
  const Vocabulary before = Vocabulary::from_model_bytes(model, "before");
  const Vocabulary after = with_pieces(model, {"\u00DF", "\u00E9", "\u00E9\u00E9"});
  const auto expect = [&](const std::string& line, const std::string& piece) {
    std::vector<std::string> wanted = pieces_of(before, line);
    std::replace(wanted.begin(), wanted.end(), std::string("<unk>"), piece);
    EXPECT_EQ(pieces_of(after, line), wanted) << line;
  };
  expect("the number \u00DF is 27", "\u00DF");
  expect("number\u00E9number \u00E9", "\u00E9");
  expect("27\u00E9\u00E9 28", "\u00E9\u00E9");
  EXPECT_THAT(after.unknown_pieces("the \u00E9 number \u00E9\u00E9"), ElementsAre());
  // The text is one piece, of which the list has only parts.
  for (const char* text : {"\u00DF\u00E9", "\u00E9\u00F8", "\u00F8\u00E9", "\u00F8"}) {
    const std::string line = std::string("the ") + text + " number";
    expect(line, "<unk>");
    EXPECT_THAT(after.unknown_pieces(line), ElementsAre(text));
  }
}

TEST_P(Renumbered, TakesTextThatTheModelLacksAsBytesIfItHasThem) {
  WordCounts words;
  for (int i = 0; i < 300; ++i) words.add(format("the number {} is followed by {}!", i, i + 1));
  VocabOptions options;
  options.size = 90 + 256;
  options.type = GetParam();
  options.byte_fallback = ByteFallback::kOn;
  const std::string model = train_vocabulary(options, words, [] { return [](uint64_t) {}; });
  const Vocabulary before = Vocabulary::from_model_bytes(model, "before");
  const Vocabulary after = with_pieces(model, {"\u00DF", "\u00E9"});
  const std::string line = "the \u00DF\u00E9 number \u00F8 27";
  EXPECT_EQ(pieces_of(after, line), pieces_of(before, line));
  std::vector<uint32_t> ids;
  Encoder(after).encode(line, ids);
  EXPECT_EQ(after.decode(ids), line);
  EXPECT_THAT(after.unknown_pieces(line), ElementsAre());
}

TEST_P(Renumbered, DecodesPiecesThatTheModelLacks) {
  const std::string model = trained(GetParam());
  const Vocabulary after =
      with_pieces(model, {"\u2581gro", "\u00DF", "\u2581viele\u2581", "\u2581Zahlen"});
  const auto size = static_cast<uint32_t>(after.size());
  std::vector<uint32_t> ids = {size - 4, size - 3, size - 2, size - 1, after.eos()};
  EXPECT_EQ(after.decode(ids), "gro\u00DF viele  Zahlen");
  // The first piece that the source does not know, whose text has a space mark.
  ids = {size - 1, after.unk(), size - 4, size - 3, after.unk()};
  EXPECT_EQ(after.decode(ids, std::vector<std::string>{"\u2581\u00F8re"}),
            "Zahlen \u00F8re gro\u00DF");
}

INSTANTIATE_TEST_SUITE_P(Kinds, Renumbered,
                         ::testing::Values(VocabType::kBpe, VocabType::kUnigram));

// Rows that fill up an embedding table have no piece.
TEST_P(Renumbered, LeavesOutIdsThatHaveNoPieceWhenItDecodes) {
  const std::string model = trained(GetParam());
  const uint32_t size = Vocabulary::from_model_bytes(model, "before").size();
  const Vocabulary after = with_pieces(model, {missing_piece(size), "<missing5>"});
  std::vector<uint32_t> ids;
  Encoder(after).encode("the number is", ids);
  ids.insert(ids.begin() + 1, size);
  EXPECT_EQ(after.decode(ids), "the number is");
  const std::vector<std::string> unknown = {"Q"};
  ids.push_back(after.unk());
  EXPECT_EQ(after.decode(ids, unknown), "the number isQ");
  EXPECT_EQ(after.decode(std::vector<uint32_t>{size + 1}), "<missing5>");
}

TEST(ListedVocabulary, IsTheModelItselfIfItsIdsAreThoseOfTheList) {
  const std::string model = trained(VocabType::kBpe);
  const Vocabulary before = Vocabulary::from_model_bytes(model, "before");
  ListedPieces list;
  for (uint32_t id = 0; id < before.size(); ++id) list.pieces.push_back(before.piece(id));
  list.unk = before.unk();
  list.eos = before.eos();
  list.start = before.bos();
  EXPECT_EQ(listed_vocabulary(model, list, "same").bytes(), model);
  list.start = 0;
  EXPECT_NE(listed_vocabulary(model, list, "other start").bytes(), model);
}

}  // namespace
}  // namespace reigen
