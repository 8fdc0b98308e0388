#include "text/renumbered_model.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/protobuf.h"
#include "text/model_facts.h"

namespace reigen {
namespace {

// Field numbers of sentencepiece_model.proto that change.
constexpr uint32_t kPiecesField = 1;
constexpr uint32_t kTrainerField = 2;
constexpr uint32_t kNormalizerField = 3;
constexpr uint32_t kDenormalizerField = 5;
constexpr uint32_t kUnkPieceField = 45;
constexpr uint32_t kBosPieceField = 46;
constexpr uint32_t kEosPieceField = 47;

enum PieceType : uint64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct ModelPiece {
  std::string_view text;
  float score = 0;
  uint64_t type = kNormal;
};

ModelPiece piece_of(std::string_view message) {
  ModelPiece piece;
  for_each_field(message, [&](const WireField& f) {
    if (f.number == 1) piece.text = f.bytes;
    if (f.number == 2 && f.bytes.size() == sizeof piece.score) {
      std::memcpy(&piece.score, f.bytes.data(), sizeof piece.score);
    }
    if (f.number == 3) piece.type = f.value;
    return true;
  });
  return piece;
}

std::string encoded(std::string_view text, float score, uint64_t type) {
  std::string piece;
  append_bytes(piece, 1, text);
  append_fixed32(piece, 2, std::bit_cast<uint32_t>(score));
  append_varint(piece, 3, type);
  std::string out;
  append_bytes(out, kPiecesField, piece);
  return out;
}

// The last of several values of a field counts, so appended ones take precedence.
std::string trainer_with(std::string_view trainer, const ListedPieces& list) {
  std::string changed(trainer);
  append_bytes(changed, kUnkPieceField, list.pieces[list.unk]);
  append_bytes(changed, kBosPieceField, list.pieces[list.start]);
  append_bytes(changed, kEosPieceField, list.pieces[list.eos]);
  std::string out;
  append_bytes(out, kTrainerField, changed);
  return out;
}

bool is_one_character(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }) == 1;
}

// A piece that the model lacks must not change how text is cut. Unigram skips unused pieces; BPE
// merges them first and undoes it afterwards, when the merge has prevented others, but never finds
// control pieces. One character is no merge, and SentencePiece refuses text with a control piece.
uint64_t listed_type(uint32_t id, const ListedPieces& list, const ModelPiece* found, bool bpe) {
  if (id == list.unk) return kUnknown;
  if (id == list.eos || id == list.start) return kControl;
  if (found == nullptr || found->type == kUnknown) {
    return bpe && !is_one_character(list.pieces[id]) ? kControl : kUnused;
  }
  return found->type;
}

// As a special piece it would no longer be found in text, which would be cut differently.
void check_special(uint32_t id, const ListedPieces& list, const ModelPiece* found,
                   const std::string& name) {
  if (found == nullptr || (found->type != kNormal && found->type != kByte)) return;
  const char* use = id == list.unk     ? "for unknown text"
                    : id == list.eos   ? "as the end of sentence"
                    : id == list.start ? "as the start of a translation"
                                       : nullptr;
  if (use == nullptr) return;
  throw DataError(
      format("{}: piece {} (id {}) is text, and the model has it {}; a piece that is both is not "
             "supported",
             name, printable(found->text), id, use));
}

}  // namespace

std::string missing_piece(uint32_t id) { return format("<missing{}>", id); }

bool is_missing_piece(std::string_view piece, uint32_t id) {
  if (!piece.starts_with("<missing")) return false;
  const std::string name = missing_piece(id);
  return piece.starts_with(name) && piece.find_first_not_of('>', name.size()) == piece.npos;
}

std::string renumbered_model(std::string_view model, const ListedPieces& list,
                             const std::string& name) {
  const ModelFacts facts = read_model_facts(model);
  if (!facts.fault.empty()) throw DataError(format("{}: {}", name, facts.fault));
  std::vector<ModelPiece> pieces;
  std::string_view trainer;
  std::string rest;  // fields that stay
  for_each_field(model, [&](const WireField& f) {
    if (f.number == kPiecesField) pieces.push_back(piece_of(f.bytes));
    if (f.number == kTrainerField) trainer = f.bytes;
    if (f.number == kNormalizerField || f.number == kDenormalizerField) {
      append_bytes(rest, f.number, f.bytes);
    }
    return true;
  });
  TextMap<size_t> places;
  for (size_t i = 0; i < pieces.size(); ++i) places.emplace(std::string(pieces[i].text), i);
  std::string out;
  std::vector<bool> listed(pieces.size());
  for (uint32_t id = 0; id < list.pieces.size(); ++id) {
    const auto found = places.find(std::string_view(list.pieces[id]));
    const ModelPiece* piece = nullptr;
    if (found != places.end()) {
      piece = &pieces[found->second];
      listed[found->second] = true;
    }
    check_special(id, list, piece, name);
    out += encoded(list.pieces[id], piece == nullptr ? 0 : piece->score,
                   listed_type(id, list, piece, facts.bpe));
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    const uint64_t type = pieces[i].type;
    if (listed[i] || type == kControl || type == kUnknown || type == kUnused) continue;
    out += encoded(pieces[i].text, pieces[i].score, type);
  }
  out += trainer_with(trainer, list) + rest;
  append_varint(out, kListedPiecesField, list.pieces.size());
  return out;
}

}  // namespace reigen
