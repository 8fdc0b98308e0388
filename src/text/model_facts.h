// Properties of a SentencePiece model that its C++ interface does not expose, and faults of a
// hostile one that it does not check.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace reigen {

struct ModelFacts {
  std::string fault;  // why SentencePiece must not load it; empty for a good model
  bool bpe = false;
  bool words_stand_alone = true;  // a leading space mark, extra spaces removed, no mark as suffix
  bool user_symbols = false;      // matched before all other pieces, anywhere in a line
  bool known_normaliser = true;   // a built-in one: those never combine text across a space
  uint64_t listed_pieces = 0;     // in the vocabulary; the rest are unknown. 0: all
};

// A field of our own in a model (text/renumbered_model.h): the number of listed pieces.
// SentencePiece leaves numbers from 200 on to others.
inline constexpr uint32_t kListedPiecesField = 200;

// Reads the model's protobuf: only the fields above, with SentencePiece's own defaults. A model
// without a fault is loaded or refused by SentencePiece, but crashes it neither there nor later.
ModelFacts read_model_facts(std::string_view serialized_model);

}  // namespace reigen
