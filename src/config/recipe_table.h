// The numbers of the recipe `best`, by size of the corpus and length of the run.
//
// A row that is not measured is extrapolated from the others; log, help and documents say so by
// kRecipeScope. docs/design/optimizer.md has the measurements.
#pragma once

#include <cstdint>
#include <limits>

namespace reigen {

// Corpora and presets for which the numbers were measured, for log and help.
inline constexpr const char* kRecipeScope =
    "measured on 29,000 and 200,000 pairs with the presets small and base; extrapolated below "
    "5,000 "
    "and above 300,000 pairs and for other presets";

struct RecipeRow {
  const char* corpus;    // name of the size
  uint64_t most_pairs;   // of a corpus of this size
  double most_epochs;    // of a run: the first row counts that a run is not longer than
  bool measured;         // false: extrapolated
  double epochs;         // length of a run that has no limit
  int64_t least_steps;   // of a run that has no limit; 0: as many as the epochs have
  int64_t batch_tokens;  // target tokens of a step
  double rate;           // peak learning rate of Adam's parameters beside Muon's
  double muon_ratio;     // rate of the hidden matrices / that rate
  double weight_decay;   // of the hidden matrices
  double beta2;          // of Adam beside Muon
  double adam_rate;      // peak learning rate without Muon
  int64_t warmup_steps;  // at most kMostWarmupShare of the run
  double embedding_dropout;
  double residual_dropout;
  double inner_dropout;  // of attention weights and feed-forward layers
};

inline constexpr double kMostWarmupShare = 0.2;
// Rate of the preset `big` instead of a row's, extrapolated: wider models need lower rates.
inline constexpr double kBigRate = 0.002;
// Beside a rate that is given, the hidden matrices keep their own rate within these ratios.
inline constexpr double kLeastMuonRatio = 0.25;
inline constexpr double kMostMuonRatio = 4;
// Batches of an epoch of a very small corpus, whose batch is smaller where there would be fewer.
inline constexpr double kLeastBatches = 10;
// Evaluations and checkpoints of a run: about kTestsInRun of each, at these distances in steps.
inline constexpr double kTestsInRun = 20;
inline constexpr int64_t kLeastInterval = 50;
inline constexpr int64_t kMostInterval = 1000;
inline constexpr uint64_t kAnyPairs = UINT64_MAX;
inline constexpr double kAnyEpochs = std::numeric_limits<double>::infinity();

// Rows of one size of corpus have the same batch and the same length of a run.
// clang-format off
inline constexpr RecipeRow kRecipeRows[] = {
    // corpus, most pairs, most epochs, measured; epochs, least steps, batch;
    //   rate, ratio, weight decay, beta2, rate without Muon; warm-up;
    //   dropout of embeddings, residuals, inside
    {"very small", 5000, 15, false, 35, 500, 2600,
     0.003, 1.3, 0.1, 0.99, 0.001, 200, 0.2, 0.2, 0.1},
    {"very small", 5000, kAnyEpochs, false, 35, 500, 2600,
     0.003, 1.3, 0.1, 0.99, 0.001, 200, 0.4, 0.3, 0.1},
    {"small", 100'000, 15, true, 35, 0, 2600,
     0.003, 1.3, 0.1, 0.99, 0.001, 200, 0.2, 0.2, 0.1},
    {"small", 100'000, kAnyEpochs, true, 35, 0, 2600,
     0.003, 1.3, 0.1, 0.99, 0.001, 200, 0.4, 0.3, 0.1},
    {"medium", 300'000, 11, true, 14, 0, 24'000,
     0.003, 1, 0.1, 0.99, 0.001, 400, 0.1, 0.1, 0.1},
    {"medium", 300'000, kAnyEpochs, true, 14, 0, 24'000,
     0.003, 1, 0.1, 0.99, 0.001, 400, 0.2, 0.2, 0.1},
    {"medium to large", 1'000'000, 11, false, 14, 0, 24'000,
     0.003, 1, 0.1, 0.99, 0.001, 400, 0.1, 0.1, 0.1},
    {"medium to large", 1'000'000, kAnyEpochs, false, 14, 0, 24'000,
     0.003, 1, 0.1, 0.99, 0.001, 400, 0.2, 0.2, 0.1},
    {"large", kAnyPairs, kAnyEpochs, false, 8, 0, 24'000,
     0.003, 1, 0.1, 0.99, 0.001, 400, 0.1, 0.1, 0.1},
};
// clang-format on

}  // namespace reigen
