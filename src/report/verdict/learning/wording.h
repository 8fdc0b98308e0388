// The sentences of the verdicts on learning, made from their values.
#pragma once

#include <string>

#include "report/verdict/learning/learning.h"
#include "report/verdict/verdict_text.h"

namespace reigen {

VerdictText text_of(const Trained& trained);
VerdictText text_of(const Overfitting& overfitting);
VerdictText text_of(const DataHealth& data);

// "The model is past its best: validation loss was 1.912 at step 2,500 and is 1.956."
std::string summary_of(const Trained& trained);
std::string summary_of(const Overfitting& overfitting);

// Why the best loss of a run is no better than that of a model that cannot translate; and the
// likely reason, or reasons.
std::string level_text(const LossLevel& level);
std::string useless_reason(const Trained& trained);

// "0.071 less loss (80% interval 0.060 to 0.082)", or more loss.
std::string text_of(const ExpectedGain& gain);
std::string text_of_bleu(const ExpectedGain& gain);  // "2.1 more BLEU (80% interval 0.4 to 3.8)"

}  // namespace reigen
