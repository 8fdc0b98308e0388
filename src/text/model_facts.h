// The few facts about a SentencePiece model that its C++ interface keeps to itself.
#pragma once

#include <string_view>

namespace reigen {

struct ModelFacts {
  bool well_formed = false;
  bool bpe = false;
  bool words_stand_alone = true;  // a leading space mark, extra spaces removed, no mark as suffix
  bool user_symbols = false;      // matched before anything else, wherever they stand
  bool known_normaliser = true;   // one of SentencePiece's own, none of which looks past a space
};

// Reads the model's protobuf: only the fields above, with SentencePiece's own defaults.
ModelFacts read_model_facts(std::string_view serialized_model);

}  // namespace reigen
