#include "decode/small_translator.h"

#include "base/format.h"
#include "text/vocab_trainer.h"

namespace reigen {
namespace {

std::string trained_bytes() {
  WordCounts words;
  for (int i = 0; i < 300; ++i) {
    words.add(format("the number {} is followed. by number {}!", i, i + 1));
    words.add(format("auf die Zahl {} folgt größer die Zahl {}.", i, i + 1));
  }
  VocabOptions options;
  options.size = 120;
  return train_vocabulary(options, words, [] { return [](uint64_t) {}; });
}

}  // namespace

const Vocabulary& small_vocabulary() {
  static const Vocabulary vocabulary = Vocabulary::from_model_bytes(trained_bytes(), "small");
  return vocabulary;
}

Vocabulary small_piece_list() {
  return Vocabulary::from_piece_list("</s>\n<unk>\n▁a\n▁b\nc\n.\n。\n", "small.vocab");
}

SmallTranslator::SmallTranslator(const Vocabulary& vocabulary, int64_t nbest, DecodeOptions options,
                                 TextRules rules)
    : model(tiny_variant("post"), vocabulary.size(), 5),
      translator(device, model.model, model.parameters, vocabulary, rules, options, nbest) {}

std::vector<std::string> SmallTranslator::best(const std::vector<std::string>& lines) {
  std::vector<std::string> texts;
  for (const auto& list : translator.translate(lines)) texts.push_back(list.at(0).text);
  return texts;
}

}  // namespace reigen
