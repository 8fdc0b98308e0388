// A line of text as sacreBLEU sees it: Python's white space, characters, words, 13a tokens.
//
// Scores are comparable only with equal tokenisation, so these follow sacreBLEU 2.6 exactly,
// including its oddities. All expect valid UTF-8; invalid bytes give some characters, never a read
// out of bounds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reigen {

// The tokenisation of NIST's mteval-v13a, as used for BLEU at WMT: one space between tokens.
std::string tokenize_13a(std::string_view line);

// The words between white space. Python's str.split() also splits at U+001C to U+001F, which
// Unicode's property White_Space leaves out; U+0085 and the no-break spaces count in both.
std::vector<std::string_view> split_words(std::string_view text);

// The words of chrF++: from a word of several characters one ASCII punctuation mark is cut off, at
// its end or else at its start, so "(hi)" gives "(hi" and ")".
std::vector<std::string_view> chrf_words(std::string_view text);

// The code points that are not white space.
std::vector<uint32_t> characters(std::string_view text);

}  // namespace reigen
