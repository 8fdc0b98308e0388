// What is longer than a model takes, cut into parts that it does take. Nothing is left out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/vocabulary.h"

namespace reigen {

// Parts of at most `most` pieces that are together `ids`: each ends after the last sentence that
// ends in it, else before a word, else anywhere.
std::vector<std::span<const uint32_t>> cut_into_parts(const Vocabulary& vocabulary,
                                                      std::span<const uint32_t> ids, size_t most);

}  // namespace reigen
