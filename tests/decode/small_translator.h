// A translator with a real vocabulary of 120 pieces and a model of random weights, small enough to
// translate hundreds of lines in a test. Its output is nonsense, but deterministic.
#pragma once

#include <memory>
#include <string>

#include "decode/translator.h"
#include "support/teacher_forced.h"
#include "text/vocabulary.h"

namespace reigen {

// A SentencePiece vocabulary, trained on English and German numbers once per test program.
const Vocabulary& small_vocabulary();

// The pieces: </s> <unk> ▁a ▁b c . 。
Vocabulary small_piece_list();

struct SmallTranslator {
  explicit SmallTranslator(const Vocabulary& vocabulary, int64_t nbest = 1,
                           DecodeOptions options = {.beam = 2}, TextRules rules = {"en", "de"});

  std::vector<std::string> best(const std::vector<std::string>& lines);
  std::string best_of(const std::string& line) { return best({line})[0]; }

  Device device = Device::cpu(1);
  TeacherForced model;
  Translator translator;
};

}  // namespace reigen
