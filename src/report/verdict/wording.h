// The sentences of verdicts, made from their values. Their prose is in wording.cpp, that of
// the verdicts on learning in wording_learning.cpp.
#pragma once

#include <string>

#include "report/verdict/verdicts.h"

namespace reigen {

struct VerdictText {
  std::string about;       // "bottleneck"
  std::string verdict;     // "network", or "cannot tell"
  std::string confidence;  // high, medium, low; empty when it cannot tell
  std::string because;     // the evidence, or why it cannot tell
  std::string rule;
  std::string advice;  // may be empty
};
VerdictText text_of(const Bottleneck& bottleneck);
VerdictText text_of(const Trained& trained);
VerdictText text_of(const Overfitting& overfitting);

const char* id_of(Confidence confidence);

// "0.071 less loss (80% interval 0.060 to 0.082)", or more loss.
std::string text_of(const ExpectedGain& gain);
std::string text_of_bleu(const ExpectedGain& gain);  // "2.1 more BLEU (80% interval 0.4 to 3.8)"

// "evaluation 32%, compressing gradients 10%"
std::string text_of(const std::vector<CauseShare>& parts);

// "start-up took 40.0 s, 60% of the 1m 06s of the run, 38.0 s of it for opening and verifying data"
std::string start_up_text(const RunTime& time);

}  // namespace reigen
