// chrF (Popović 2015) and chrF++ (Popović 2017) as sacreBLEU 2.6 computes them: F-beta over
// character n-grams up to 6 with white space removed, and for chrF++ over n-grams of one and two
// words as well.
//
// Characters are code points, so a letter and its combining mark are two, as for Python. Like BLEU,
// a score is a function of counts that add up over sentences.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eval/corpus.h"
#include "eval/ngrams.h"

namespace reigen {

inline constexpr size_t kChrfCharacterOrder = 6;

struct ChrfOptions {
  size_t word_order = 0;  // 2 for chrF++
  int64_t beta = 2;       // recall weighs this many times as much as precision

  size_t orders() const { return kChrfCharacterOrder + word_order; }
};

// Counts of n-grams of one length.
struct ChrfOrder {
  uint64_t hypothesis = 0;
  uint64_t reference = 0;
  uint64_t matches = 0;

  bool operator==(const ChrfOrder&) const = default;
};

// Counts of character n-grams, length 1 to 6, then of words: of one sentence, or summed over many.
using ChrfCounts = std::vector<ChrfOrder>;

// Reuses its tables from one sentence to the next; one object per thread.
class ChrfCounter {
 public:
  explicit ChrfCounter(const ChrfOptions& options = {});

  // Counts against the reference with the best score; of several, the first.
  ChrfCounts count(std::string_view hypothesis, std::span<const std::string_view> references);

 private:
  ChrfCounts count_one(std::string_view hypothesis, std::string_view reference);

  ChrfOptions options_;
  NgramMatcher characters_;
  NgramMatcher words_;
};

// 0 to 100. Lengths that the hypothesis or the reference is too short for are left out.
double chrf_score(const ChrfCounts& counts, const ChrfOptions& options = {});

// References as in for_each_sentence.
double corpus_chrf(const Lines& hypotheses, const std::vector<Lines>& references,
                   const ChrfOptions& options = {});

std::string chrf_name(const ChrfOptions& options = {});  // chrF2, chrF2++

// The middle of a signature: case:mixed|eff:yes|nc:6|nw:0|space:no
std::string chrf_settings(const ChrfOptions& options = {});

}  // namespace reigen
