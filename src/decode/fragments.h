// Cuts a line that is longer than the model accepts into fragments that fit. No piece is left out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/vocabulary.h"

namespace reigen {

// Fragments of at most `most` pieces whose concatenation is `ids`: each ends after the last
// sentence that ends in it, else before a word, else anywhere.
std::vector<std::span<const uint32_t>> cut_into_fragments(const Vocabulary& vocabulary,
                                                          std::span<const uint32_t> ids,
                                                          size_t most);

}  // namespace reigen
