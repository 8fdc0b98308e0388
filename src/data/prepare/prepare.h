// `reigen prepare`: from raw parallel text to a dataset.
//
// The stages: read, clean, drop held-out and duplicate pairs, train or load a vocabulary, encode,
// drop by length, write shards and manifest. Memory does not grow with the corpus except for 21 to
// 43 bytes per distinct pair for finding duplicates (64 while that table grows).
#pragma once

#include <array>
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

// Writes options.output, complete or absent.
PrepareResult prepare(const PrepareOptions& options);

}  // namespace reigen
