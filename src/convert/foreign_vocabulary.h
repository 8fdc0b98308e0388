// The vocabulary of a Hugging Face MarianTokenizer: vocab.json and two SentencePiece models.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/renumbered_model.h"
#include "text/vocabulary.h"

namespace reigen {

// The pieces of a vocab.json, an object of piece -> id, by id. `count` is the size of the model's
// table; ids that no piece has get a name of their own. Throws DataError, which begins with `name`,
// when the text is malformed or an id occurs twice or is not below `count`.
std::vector<std::string> parse_piece_ids(std::string_view text, uint64_t count,
                                         const std::string& name);

// A vocabulary from the bytes of a SentencePiece model and the list of its ids.
Vocabulary listed_vocabulary(const std::string& model, const ListedPieces& list,
                             const std::string& name);

}  // namespace reigen
