// The sentence frames and word lists of the built-in English-German corpus.
//
// Data only: sentences in both languages, with tags in braces for the slots. A tag stands for the
// same value on both sides; the German tag may add an inflection, as in {ordinal.n}. Tags and their
// values are in values.h. Invariants: no two frames can produce the same English sentence, and
// every frame has at least one slot with values that are reserved for valid or test.
#pragma once

#include <span>
#include <string_view>

namespace reigen {

struct SentenceFrame {
  std::string_view english;
  std::string_view german;
};

struct WordPair {
  std::string_view english;
  std::string_view german;
};

std::span<const SentenceFrame> sentence_frames();

std::span<const WordPair> name_words();
std::span<const WordPair> city_words();
std::span<const WordPair> thing_words();     // plural, same form in nominative and accusative
std::span<const WordPair> people_words();    // plural, same form in both cases, too
std::span<const WordPair> item_words();      // singular with its article, accusative
std::span<const WordPair> currency_words();  // as counted: "two euros", "zwei Euro"

}  // namespace reigen
