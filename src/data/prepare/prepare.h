// `reigen prepare`: from raw parallel text to a dataset.
//
// The stages: read, clean, drop held-out and duplicate pairs, train or load a vocabulary, encode,
// drop by length, write shards and manifest. Memory does not grow with the corpus except for 21 to
// 43 bytes per distinct pair for finding duplicates (64 while that table grows).
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "config/prepare_options.h"
#include "data/manifest.h"

namespace reigen {

struct DroppedExample {
  std::string corpus;
  uint64_t line = 0;  // or entry, counted from 1
  std::string source;
  std::string target;
};

struct PrepareResult {
  Manifest manifest;
  std::array<std::vector<DroppedExample>, kRuleCount> examples;
};

// A score for each pair of lines, higher for a better translation; NaN where there is none. All
// have the target language `to`. Models are above this folder, so the command passes them on
// (clean.score).
using PairScoring = std::function<std::vector<double>(const std::vector<std::string>& sources,
                                                      const std::vector<std::string>& targets,
                                                      const std::string& to)>;

// Writes options.output, complete or absent. With `scoring`, the share options.clean.score_share
// with the lowest scores is dropped.
PrepareResult prepare(const PrepareOptions& options, const PairScoring& scoring = {});

}  // namespace reigen
