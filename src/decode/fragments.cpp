#include "decode/fragments.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace reigen {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, where a word begins

// These end a sentence where a space follows...
constexpr std::string_view kEnds[] = {".", "!", "?", "…", "۔", "؟", "।", "։", "።"};
// ...and these, of scripts without spaces, wherever they stand.
constexpr std::string_view kFullEnds[] = {"。", "！", "？", "｡"};
// Quotes and brackets may close after the end.
constexpr std::string_view kClosing[] = {"\"", "'", ")",  "]",  "}",  "”", "’",
                                         "»",  "›", "」", "』", "）", "】"};

bool ends_with_one_of(std::string_view text, std::span<const std::string_view> list,
                      size_t* size = nullptr) {
  for (std::string_view item : list) {
    if (!text.ends_with(item)) continue;
    if (size != nullptr) *size = item.size();
    return true;
  }
  return false;
}

std::string_view without_closing(std::string_view text) {
  size_t size = 0;
  while (ends_with_one_of(text, kClosing, &size)) text.remove_suffix(size);
  return text;
}

enum class Boundary { kNone, kWord, kSentence };

// The boundary between piece `at` - 1 and piece `at`.
Boundary boundary_before(const Vocabulary& vocabulary, std::span<const uint32_t> ids, size_t at) {
  const std::string next = vocabulary.piece(ids[at]);
  const bool word = next.starts_with(kSpaceMark);
  std::string end;  // the text before, at least one character more than closing marks
  size_t from = at;
  do {
    end = vocabulary.piece(ids[--from]) + end;
  } while (from > 0 && without_closing(end).empty());
  const std::string_view text = without_closing(end);
  if (word && ends_with_one_of(text, kEnds)) return Boundary::kSentence;
  const bool closes = without_closing(next).size() < next.size();
  if (!closes && ends_with_one_of(text, kFullEnds)) return Boundary::kSentence;
  return word ? Boundary::kWord : Boundary::kNone;
}

// Length of the first fragment; `ids` has more than `most`.
size_t first_cut(const Vocabulary& vocabulary, std::span<const uint32_t> ids, size_t most) {
  size_t word = 0;
  for (size_t at = most; at > 0; --at) {
    const Boundary boundary = boundary_before(vocabulary, ids, at);
    if (boundary == Boundary::kSentence) return at;
    if (boundary == Boundary::kWord && word == 0) word = at;
  }
  return word > 0 ? word : most;
}

}  // namespace

std::vector<std::span<const uint32_t>> cut_into_fragments(const Vocabulary& vocabulary,
                                                          std::span<const uint32_t> ids,
                                                          size_t most) {
  std::vector<std::span<const uint32_t>> fragments;
  while (ids.size() > most) {
    const size_t cut = first_cut(vocabulary, ids, most);
    fragments.push_back(ids.first(cut));
    ids = ids.subspan(cut);
  }
  if (!ids.empty()) fragments.push_back(ids);
  return fragments;
}

}  // namespace reigen
