// The built-in English-German corpus, generated from a few dozen sentence frames and ICU's locale
// data.
//
// `reigen demo` and the tests train a real model on it without a download. Invariants: a pair is a
// pure function of (seed, split, index); the German sentence is a function of the English one, so
// that exact match is a fair score; a number, date, time or amount of valid or test never occurs in
// train, so that only a model that generalises from the parts scores well.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace reigen {

struct SentencePair {
  std::string english;
  std::string german;
};

enum class CorpusSplit { kTrain, kValid, kTest };

// Not thread-safe, because ICU's formatters are not: use one instance per thread. Instances with
// the same seed make the same pairs, so threads can share the work in any order.
class CorpusGenerator {
 public:
  explicit CorpusGenerator(uint64_t seed);
  ~CorpusGenerator();

  SentencePair make(CorpusSplit split, uint64_t index);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reigen
