// The tag of a target language, such as >>fr<<: the piece that begins each source of a model of
// several target languages, and names the language of the translation.
//
// The form is that of Marian's multilingual models, which MarianTokenizer reads. In our
// vocabularies it is a control piece: SentencePiece never finds it in text, so a line that contains
// `>>fr<<` is cut into ordinary pieces and cannot choose the language.
#pragma once

#include <string>
#include <string_view>

namespace reigen {

std::string language_tag(std::string_view language);
bool is_language_tag(std::string_view piece);
std::string_view language_of_tag(std::string_view tag);

}  // namespace reigen
