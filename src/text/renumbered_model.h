// A SentencePiece model with the ids of a list of pieces.
//
// Marian's models have one list of pieces for both languages (vocab.json) and a SentencePiece model
// for each language, whose own ids mean nothing. The renumbered model cuts text exactly as before
// and is still a SentencePiece model: pieces of the list that it lacks do not change the cuts, and
// pieces that the list lacks come after all others, where Vocabulary reads them as unknown.
// Vocabulary looks up text in the list that the model lacks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reigen {

struct ListedPieces {
  std::vector<std::string> pieces;  // by id; no two are equal, none is empty
  uint32_t unk = 0;
  uint32_t eos = 0;
  uint32_t start = 0;  // with which a translation begins
};

// The name of an id that has no piece, such as a row beyond the list that fills up a table:
// "<missing7>". It is no text. Names that clash with a piece have further ">".
std::string missing_piece(uint32_t id);
bool is_missing_piece(std::string_view piece, uint32_t id);

// The bytes of the renumbered model. Throws DataError, which begins with `name`, when `model` is
// not one.
std::string renumbered_model(std::string_view model, const ListedPieces& list,
                             const std::string& name);

}  // namespace reigen
