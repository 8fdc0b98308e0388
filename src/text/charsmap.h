// The normaliser of a SentencePiece model, `precompiled_charsmap`: a double-array trie (Darts) from
// text to its replacement.
//
// SentencePiece walks the trie without any check, so that a hostile one reads outside of it. This
// check follows every walk that some text could cause.
#pragma once

#include <string>
#include <string_view>

namespace reigen {

// The fault of a charsmap; empty for a good one. Time is linear in its size.
std::string charsmap_fault(std::string_view charsmap);

}  // namespace reigen
