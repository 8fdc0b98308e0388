// Properties of a SentencePiece model that its C++ interface does not expose.
#pragma once

#include <string_view>

namespace reigen {

struct ModelFacts {
  bool well_formed = false;
  bool bpe = false;
  bool words_stand_alone = true;  // a leading space mark, extra spaces removed, no mark as suffix
  bool user_symbols = false;      // matched before all other pieces, anywhere in a line
  bool known_normaliser = true;   // a built-in one: those never combine text across a space
};

// Reads the model's protobuf: only the fields above, with SentencePiece's own defaults.
ModelFacts read_model_facts(std::string_view serialized_model);

}  // namespace reigen
