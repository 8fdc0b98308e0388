#include "text/model_facts.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>

namespace reigen {
namespace {

// Field numbers of sentencepiece_model.proto.
constexpr uint32_t kModelPieces = 1;
constexpr uint32_t kModelTrainer = 2;
constexpr uint32_t kModelNormalizer = 3;
constexpr uint32_t kPieceType = 3;
constexpr uint64_t kPieceTypeUserDefined = 4;
constexpr uint32_t kTrainerModelType = 3;
constexpr uint64_t kModelTypeBpe = 2;
constexpr uint32_t kTrainerWhitespaceSuffix = 24;
constexpr uint32_t kNormalizerName = 1;
constexpr uint32_t kNormalizerDummyPrefix = 3;
constexpr uint32_t kNormalizerRemoveSpaces = 4;
constexpr uint32_t kNormalizerEscapeSpaces = 5;

struct Field {
  uint32_t number = 0;
  uint64_t value = 0;      // for a number
  std::string_view bytes;  // for text or a message
};

std::optional<uint64_t> take_varint(std::string_view& in) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
    auto byte = static_cast<unsigned char>(in[0]);
    in.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

std::optional<Field> take_field(std::string_view& in) {
  auto tag = take_varint(in);
  if (!tag) return std::nullopt;
  Field field{.number = static_cast<uint32_t>(*tag >> 3)};
  uint64_t size = 0;
  switch (*tag & 7) {
    case 0: {
      auto value = take_varint(in);
      if (!value) return std::nullopt;
      field.value = *value;
      return field;
    }
    case 1:
      size = 8;
      break;
    case 2: {
      auto length = take_varint(in);
      if (!length) return std::nullopt;
      size = *length;
      break;
    }
    case 5:
      size = 4;
      break;
    default:
      return std::nullopt;
  }
  if (size > in.size()) return std::nullopt;
  field.bytes = in.substr(0, size);
  in.remove_prefix(size);
  return field;
}

bool is_built_in(std::string_view name) {
  constexpr std::string_view kNames[] = {"nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "identity"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// Calls `visit` with every field; false when the message is malformed.
template <class F>
bool for_each_field(std::string_view message, F visit) {
  while (!message.empty()) {
    auto field = take_field(message);
    if (!field || !visit(*field)) return false;
  }
  return true;
}

}  // namespace

ModelFacts read_model_facts(std::string_view serialized_model) {
  ModelFacts facts;
  auto piece = [&](const Field& f) {
    if (f.number == kPieceType && f.value == kPieceTypeUserDefined) facts.user_symbols = true;
    return true;
  };
  auto trainer = [&](const Field& f) {
    if (f.number == kTrainerModelType) facts.bpe = f.value == kModelTypeBpe;
    if (f.number == kTrainerWhitespaceSuffix && f.value != 0) facts.words_stand_alone = false;
    return true;
  };
  auto normalizer = [&](const Field& f) {
    bool needed = f.number == kNormalizerDummyPrefix || f.number == kNormalizerRemoveSpaces ||
                  f.number == kNormalizerEscapeSpaces;
    if (needed && f.value == 0) facts.words_stand_alone = false;
    if (f.number == kNormalizerName) facts.known_normaliser = is_built_in(f.bytes);
    return true;
  };
  facts.well_formed = for_each_field(serialized_model, [&](const Field& f) {
    if (f.number == kModelPieces) return for_each_field(f.bytes, piece);
    if (f.number == kModelTrainer) return for_each_field(f.bytes, trainer);
    if (f.number == kModelNormalizer) return for_each_field(f.bytes, normalizer);
    return true;
  });
  return facts;
}

}  // namespace reigen
