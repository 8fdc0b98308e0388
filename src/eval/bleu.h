// BLEU (Papineni et al. 2002) as sacreBLEU 2.6 computes it by default: 13a tokens, mixed case,
// n-grams up to 4, exponential smoothing.
//
// A sentence gives ten counts and a score is a function of their sum, so a corpus is counted once
// and scored for any number of resamples. tests/eval compares the results with
// sacreBLEU's own figures.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eval/corpus.h"
#include "eval/ngrams.h"

namespace reigen {

inline constexpr size_t kBleuOrder = 4;

// For n-grams without a single match (Chen and Cherry 2014). With no match of any length BLEU is 0,
// with any smoothing.
enum class BleuSmoothing {
  kNone,   // the score is 0
  kFloor,  // count `value` matches; 0.1 unless given
  kAddK,   // add `value` to matches and totals of 2-grams and longer; 1 unless given
  kExp,    // half a match, then a quarter, ... for each further length without one
};

struct BleuOptions {
  BleuSmoothing smoothing = BleuSmoothing::kExp;
  std::optional<double> value = std::nullopt;
  // Leave out lengths the hypothesis is too short for: for scoring single sentences.
  bool effective_order = false;
};

// Counts of one sentence, or summed over many.
struct BleuCounts {
  uint64_t hypothesis_length = 0;  // in tokens
  uint64_t reference_length = 0;   // of the reference nearest in length, the shorter of two
  std::array<uint64_t, kBleuOrder> correct = {};
  std::array<uint64_t, kBleuOrder> total = {};

  BleuCounts& operator+=(const BleuCounts& other);
  bool operator==(const BleuCounts&) const = default;
};

struct BleuScore {
  double score = 0;  // 0 to 100, like the precisions
  std::array<double, kBleuOrder> precisions = {};
  double brevity_penalty = 0;
  uint64_t hypothesis_length = 0;
  uint64_t reference_length = 0;

  // sacreBLEU's line: BLEU = 39.36 70.1/45.6/32.1/22.5 (BP = 1.000 ratio = 1.002 hyp_len = ...)
  std::string text() const;
};

// Reuses its tables from one sentence to the next; one object per thread.
class BleuCounter {
 public:
  BleuCounter();

  // At least one reference.
  BleuCounts count(std::string_view hypothesis, std::span<const std::string_view> references);

 private:
  NgramMatcher matcher_;
};

BleuScore bleu_score(const BleuCounts& counts, const BleuOptions& options = {});

// References as in for_each_sentence.
BleuScore corpus_bleu(const Lines& hypotheses, const std::vector<Lines>& references,
                      const BleuOptions& options = {});

// The middle of a signature: case:mixed|eff:no|tok:13a|smooth:exp
std::string bleu_settings(const BleuOptions& options = {});

}  // namespace reigen
