// The numbers of the recipe `best`, by size of the corpus and length of the run.
//
// A row that is not measured is extrapolated from those above it; log, help and documents say so.
// docs/design/optimizer.md has the measurements.
#pragma once

#include <cstdint>
#include <limits>

namespace reigen {

struct RecipeRow {
  const char* corpus;    // name of the size
  uint64_t most_pairs;   // of a corpus of this size
  double most_epochs;    // of a run: the first row counts that a run is not longer than
  bool measured;         // false: extrapolated
  double epochs;         // length of a run that has no limit
  int64_t batch_tokens;  // target tokens of a step
  double rate;           // peak learning rate of Adam's parameters beside Muon's
  double muon_ratio;     // rate of the hidden matrices / that rate
  double weight_decay;   // of the hidden matrices
  double beta2;          // of Adam beside Muon
  double adam_rate;      // peak learning rate without Muon
  int64_t warmup_steps;  // at most kMostWarmupShare of the run
  double decay_share;    // share of the run's last steps in which the rate falls
  double embedding_dropout;
  double residual_dropout;
  double inner_dropout;  // of attention weights and feed-forward layers
  double ema_decay;      // of the average of the weights; 0: none
};

inline constexpr double kMostWarmupShare = 0.2;
inline constexpr uint64_t kAnyPairs = UINT64_MAX;
inline constexpr double kAnyEpochs = std::numeric_limits<double>::infinity();

// Rows of one size of corpus have the same batch and the same length of a run.
// clang-format off
inline constexpr RecipeRow kRecipeRows[] = {
    // corpus, most pairs, most epochs, measured; epochs, batch;
    //   rate, ratio, weight decay, beta2, rate without Muon; warm-up, share of the decay;
    //   dropout of embeddings, residuals, inside; average
    {"small", 100'000, 15, true, 35, 2600,
     0.003, 1.3, 0.1, 0.99, 0.001, 200, 0.5, 0.2, 0.2, 0.1, 0},
    {"small", 100'000, kAnyEpochs, true, 35, 2600,
     0.003, 1.3, 0.1, 0.99, 0.001, 200, 0.5, 0.4, 0.3, 0.1, 0},
    {"medium", 1'000'000, 11, true, 14, 24'000,
     0.003, 1, 0.1, 0.99, 0.001, 400, 0.5, 0.1, 0.1, 0.1, 0},
    {"medium", 1'000'000, kAnyEpochs, true, 14, 24'000,
     0.003, 1, 0.1, 0.99, 0.001, 400, 0.5, 0.2, 0.2, 0.1, 0},
    {"large", kAnyPairs, kAnyEpochs, false, 8, 24'000,
     0.003, 1, 0.1, 0.99, 0.001, 400, 0.5, 0.1, 0.1, 0.1, 0},
};
// clang-format on

}  // namespace reigen
