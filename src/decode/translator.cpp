#include "decode/translator.h"

#include <algorithm>

#include "base/interrupt.h"
#include "decode/fragments.h"

namespace reigen {

Translator::Translator(const Device& device, Transformer& model, const Weights& weights,
                       const Vocabulary& vocabulary, const TextRules& rules,
                       const DecodeOptions& options, int64_t nbest)
    : decoder_(device, model, weights),
      vocabulary_(vocabulary),
      cleaner_(normalisation(rules), rules.source_language, rules.target_language,
               !vocabulary.cuts_text()),
      encoder_(vocabulary.source()),
      options_(options),
      nbest_(static_cast<size_t>(std::max<int64_t>(1, nbest))) {}

std::vector<uint32_t> Translator::encode(std::string line) {
  if (!is_valid_utf8(line)) ++counts_.repaired;
  cleaner_.normalise(line);
  std::vector<uint32_t> ids;
  // A line of spaces has no text, although spaces are pieces where training preserved white space.
  if (!squeeze_whitespace(line).empty()) encoder_.encode(line, ids);
  return ids;
}

Translation Translator::joined(std::span<const std::vector<Hypothesis>> fragments,
                               size_t place) const {
  Translation out;
  for (const auto& fragment : fragments) {
    const Hypothesis& hypothesis = fragment[std::min(place, fragment.size() - 1)];
    const std::string text = vocabulary_.decode(hypothesis.ids);
    if (!out.text.empty() && !text.empty()) out.text += ' ';
    out.text += text;
    out.score += hypothesis.score;
  }
  if (!is_valid_utf8(out.text)) out.text = repair_utf8(out.text);
  out.text = without_line_breaks(out.text);
  return out;
}

std::vector<std::vector<Translation>> Translator::translate(
    std::span<const std::string> lines, const std::function<void(size_t)>& progress) {
  std::vector<std::vector<uint32_t>> sources;
  std::vector<size_t> first_source = {0};  // of each line
  const auto most =
      static_cast<size_t>(std::max<int64_t>(2, decoder_.model().options().max_length)) - 1;
  for (const std::string& line : lines) {
    check_interrupt();
    const std::vector<uint32_t> ids = encode(line);
    for (std::span<const uint32_t> fragment : cut_into_fragments(vocabulary_.source(), ids, most)) {
      sources.emplace_back(fragment.begin(), fragment.end());
      sources.back().push_back(vocabulary_.source().eos());
      counts_.source_tokens += sources.back().size();
    }
    if (ids.size() > most) ++counts_.cut;
    first_source.push_back(sources.size());
  }
  counts_.lines += lines.size();
  const auto found =
      beam_search(decoder_, sources, {vocabulary_.bos(), vocabulary_.eos()}, options_, progress);
  std::vector<std::vector<Translation>> out(lines.size());
  for (size_t l = 0; l < lines.size(); ++l) {
    const auto fragments =
        std::span(found).subspan(first_source[l], first_source[l + 1] - first_source[l]);
    size_t places = 1;
    for (const auto& fragment : fragments) {
      places = std::max(places, std::min(nbest_, fragment.size()));
      counts_.target_tokens += fragment[0].ids.size() + 1;
    }
    for (size_t place = 0; place < places; ++place) {
      out[l].push_back(joined(fragments, place));
    }
  }
  return out;
}

}  // namespace reigen
