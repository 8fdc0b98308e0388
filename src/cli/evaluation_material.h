// What `reigen evaluate` scores: translations and references, read from files or made by a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/evaluate_options.h"
#include "eval/corpus.h"
#include "eval/validation.h"

namespace reigen {

struct EvaluationMaterial {
  std::string name;  // of the system, for people
  std::vector<std::string> reference_names;
  Lines hypotheses;
  std::vector<Lines> references;
  std::optional<PairsLoss> loss;  // when a model translated
};

// All lines of a file that has some; bytes that are not UTF-8 are repaired with a warning, because
// a translation with a bad byte should still get a score (sacreBLEU refuses it).
Lines read_scored_lines(const std::string& path);

// Translates with options.model what the options name, and measures its loss there.
EvaluationMaterial translate_material(const EvaluateOptions& options);

// The share of lines that equal their first reference, in percent.
double exact_match(const EvaluationMaterial& material);

}  // namespace reigen
