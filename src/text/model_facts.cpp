#include "text/model_facts.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "base/format.h"
#include "base/protobuf.h"
#include "text/charsmap.h"

namespace reigen {
namespace {

// Field numbers of sentencepiece_model.proto.
constexpr uint32_t kModelPieces = 1;
constexpr uint32_t kModelTrainer = 2;
constexpr uint32_t kModelNormalizer = 3;
constexpr uint32_t kModelDenormalizer = 5;
constexpr uint32_t kPieceText = 1;
constexpr uint32_t kPieceType = 3;
constexpr uint64_t kPieceTypeUserDefined = 4;
constexpr uint32_t kTrainerModelType = 3;
constexpr uint64_t kModelTypeBpe = 2;
constexpr uint32_t kTrainerWhitespaceSuffix = 24;
constexpr uint32_t kNormalizerName = 1;
constexpr uint32_t kNormalizerCharsmap = 2;
constexpr uint32_t kNormalizerDummyPrefix = 3;
constexpr uint32_t kNormalizerRemoveSpaces = 4;
constexpr uint32_t kNormalizerEscapeSpaces = 5;

// SentencePiece recurses once per byte of a piece, and its own trainer makes pieces of at most 16
// characters; symbols that users define are words.
constexpr size_t kLongestPiece = 2000;
constexpr size_t kMostPieces = 1 << 24;
// It collects the symbols that match at one place of a text in an array of 64, and reads beyond its
// end where there are more.
constexpr size_t kMostNestedSymbols = 32;

bool is_built_in(std::string_view name) {
  constexpr std::string_view kNames[] = {"nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "identity"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// Whether more symbols than the limit begin with each other, like a, aa, aaa.
bool nested_too_deeply(std::vector<std::string_view> symbols) {
  std::sort(symbols.begin(), symbols.end());
  std::vector<std::string_view> prefixes;  // of the current symbol, each a prefix of the next
  for (const std::string_view symbol : symbols) {
    while (!prefixes.empty() && !symbol.starts_with(prefixes.back())) prefixes.pop_back();
    prefixes.push_back(symbol);
    if (prefixes.size() > kMostNestedSymbols) return true;
  }
  return false;
}

class ModelReader {
 public:
  ModelFacts read(std::string_view model) {
    const bool well_formed = for_each_field(model, [&](const WireField& f) {
      if (f.number == kModelPieces) return read_piece(f.bytes);
      if (f.number == kModelTrainer) return read_trainer(f.bytes);
      if (f.number == kModelNormalizer) return read_normalizer(f.bytes, true);
      if (f.number == kModelDenormalizer) return read_normalizer(f.bytes, false);
      if (f.number == kListedPiecesField) facts_.listed_pieces = f.value;
      return true;
    });
    if (facts_.listed_pieces > pieces_) set_fault("it lists more pieces than it has");
    if (!well_formed) set_fault("not a SentencePiece model");
    if (nested_too_deeply(std::move(symbols_))) {
      set_fault(
          format("more than {} user-defined symbols begin with each other", kMostNestedSymbols));
    }
    return std::move(facts_);
  }

 private:
  void set_fault(const std::string& fault) {
    if (facts_.fault.empty()) facts_.fault = fault;
  }

  bool read_piece(std::string_view message) {
    std::string_view text;
    uint64_t type = 0;
    const bool well_formed = for_each_field(message, [&](const WireField& f) {
      if (f.number == kPieceText) text = f.bytes;
      if (f.number == kPieceType) type = f.value;
      return true;
    });
    if (type == kPieceTypeUserDefined) {
      facts_.user_symbols = true;
      symbols_.push_back(text);
    }
    if (text.size() > kLongestPiece) {
      set_fault(
          format("piece {} has {} bytes; the limit is {}", pieces_, text.size(), kLongestPiece));
    }
    if (text.find('\0') != std::string_view::npos) {
      set_fault(format("piece {} contains a zero byte", pieces_));
    }
    if (++pieces_ > kMostPieces) set_fault(format("more than {} pieces", kMostPieces));
    return well_formed;
  }

  bool read_trainer(std::string_view message) {
    return for_each_field(message, [&](const WireField& f) {
      if (f.number == kTrainerModelType) facts_.bpe = f.value == kModelTypeBpe;
      if (f.number == kTrainerWhitespaceSuffix && f.value != 0) facts_.words_stand_alone = false;
      return true;
    });
  }

  bool read_normalizer(std::string_view message, bool of_input) {
    return for_each_field(message, [&](const WireField& f) {
      if (f.number == kNormalizerCharsmap && !f.bytes.empty()) {
        const std::string fault = charsmap_fault(f.bytes);
        if (!fault.empty()) set_fault(format("its normaliser is damaged: {}", fault));
      }
      if (!of_input) return true;
      const bool needed = f.number == kNormalizerDummyPrefix ||
                          f.number == kNormalizerRemoveSpaces ||
                          f.number == kNormalizerEscapeSpaces;
      if (needed && f.value == 0) facts_.words_stand_alone = false;
      if (f.number == kNormalizerName) facts_.known_normaliser = is_built_in(f.bytes);
      return true;
    });
  }

  ModelFacts facts_;
  size_t pieces_ = 0;
  std::vector<std::string_view> symbols_;  // defined by users
};

}  // namespace

ModelFacts read_model_facts(std::string_view serialized_model) {
  return ModelReader().read(serialized_model);
}

}  // namespace reigen
