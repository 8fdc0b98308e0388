// Advice on learning: commands that can be typed, with the run's own path and numbers, and their
// expected effect.
#pragma once

#include <string>

#include "report/verdict/learning/learning.h"

namespace reigen {

std::string step_number(double step);  // "1,200"

// "0.150 less loss (80% interval ...) and 2.1 more BLEU (...)": t.gains[horizon]
std::string expected_text(const Trained& t, size_t horizon);

std::string train_on_advice(const Trained& t);
std::string longer_run_advice(const Trained& t);
std::string lower_rate_advice(const Trained& t, double divisor);
std::string wider_range_advice(const Trained& t);  // bf16 instead of fp16
std::string less_dropout_advice(const Overfitting& o);
std::string useless_advice(const Trained& t);
std::string best_checkpoint_advice(const std::string& run, const LossTrend& trend);

}  // namespace reigen
