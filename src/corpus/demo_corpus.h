// A built-in English-German parallel corpus, made from ICU's locale data in a few dozen frames.
//
// It lets the demo and the tests train a real model without a download. Invariants: a pair is a
// pure function of (seed, split, index); the German sentence is a function of the English one, so
// exact match means something; a number, date, time or amount held out for valid or test never
// occurs in train, so only a model that composes what it has learned scores on them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace reigen {

struct DemoPair {
  std::string english;
  std::string german;
};

enum class DemoSplit { kTrain, kValid, kTest };

// Not thread-safe, because ICU's formatters are not: one instance per thread. Instances with the
// same seed agree on every pair, so threads may share the work in any order.
class DemoCorpus {
 public:
  explicit DemoCorpus(uint64_t seed);
  ~DemoCorpus();

  DemoPair make(DemoSplit split, uint64_t index);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reigen
