// Whether the data of a run can teach a model and judge it: facts of the dataset's manifest, and
// whether a translation depends on its source.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/manifest.h"
#include "observe/record/run_summary.h"

namespace reigen {

// Of a manifest. Zeros where there is none.
struct DataFacts {
  bool known = false;
  uint64_t training_pairs = 0;
  uint64_t validation_pairs = 0;
  double unknown_training = 0;  // share of pieces that are <unk>, of the side with more of them
  double unknown_validation = 0;
  uint64_t lines = 0;    // read for training
  uint64_t dropped = 0;  // by rules on text; not by a score, which has a limit that a user chose
  std::string rule;      // that dropped most
  uint64_t by_rule = 0;
  uint64_t leaked = 0;  // training pairs that are also in valid or test
  // A pair may occur more than once in an epoch: duplicates were not looked for, or a corpus has a
  // weight above 1.
  bool repeats = false;
  double leaked_share() const {
    return validation_pairs > 0
               ? static_cast<double>(leaked) / static_cast<double>(validation_pairs)
               : 0;
  }
};
DataFacts data_facts(const Manifest& manifest);
// Of the run's own copy of the manifest.
DataFacts data_facts(const std::string& run_directory);

// The loss of some validation pairs, and with the sources of other pairs instead of their own, as
// an evaluation measured it last.
struct SourceUse {
  double step = 0;
  double own = 0;
  double rotated = 0;
  double share() const { return own > 0 ? (rotated - own) / own : 0; }
};
std::optional<SourceUse> source_use(const RunSummary& run);

struct DataHealth {
  enum class Fault : uint8_t {
    kFewValidation,
    kLeakedValidation,
    kUnknownPieces,
    kManyDropped,
    kRepeatedTraining,      // LossLevel::repeated
    kUnlikeValidation,      // LossLevel::unlike
    kUnusedSources,         // of the training pairs: the model has learnt to do without them
    kMisalignedValidation,  // sources of validation pairs are no better than those of other pairs
  };
  std::vector<Fault> faults;
  DataFacts facts;
  std::optional<SourceUse> sources;
  double unlike_train = 0;
  double unlike_valid = 0;
  bool has(Fault fault) const;
};
const char* id_of(DataHealth::Fault fault);  // in report.json

// Limits.
constexpr uint64_t kFewValidationPairs = 100;  // below it, confidence is medium at most
constexpr double kLeaked = 0.1;  // training pairs, per validation pair, that are held out, too
constexpr double kManyUnknown = 0.01;      // share of pieces
constexpr double kManyDroppedLines = 0.2;  // share of lines
// A source is of use where a different one raises the loss by this share.
constexpr double kUsedSource = 0.02;
// Below this share of the entropy of single pieces a model has learnt its target language well
// enough to need its sources; below the second, if it has seen all pairs twice.
constexpr double kFluentTarget = 0.6;
constexpr double kLearntTarget = 0.8;

}  // namespace reigen
