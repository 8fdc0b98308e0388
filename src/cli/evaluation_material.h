// The input of `reigen evaluate`: translations and references, from files or from a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/evaluate_options.h"
#include "eval/corpus.h"
#include "eval/validation.h"

namespace reigen {

struct EvaluationMaterial {
  std::string name;  // of the system, shown to the user
  std::vector<std::string> reference_names;
  Lines hypotheses;
  std::vector<Lines> references;
  std::optional<PairsLoss> loss;  // only with a model
  // Of a dataset with several target languages: their names, and the number of each line's.
  std::vector<std::string> directions;
  std::vector<uint32_t> direction;
};

// The lines of one direction.
Lines of_direction(const EvaluationMaterial& material, uint32_t direction, const Lines& lines);

// All lines of a file, which must not be empty. Bytes that are not UTF-8 are repaired with a
// warning, because a translation with a bad byte should still get a score (sacreBLEU refuses it).
Lines read_scored_lines(const std::string& path);

// Throws DataError that names both files where one has more lines.
void check_same_length(const std::string& path, const Lines& lines, const std::string& other_path,
                       const Lines& other);

// Translates the split or the sources of the options with options.model, and computes its loss.
EvaluationMaterial translate_material(const EvaluateOptions& options);

// The share of lines that equal their first reference, in percent.
double exact_match(const EvaluationMaterial& material);

}  // namespace reigen
