#include "config/corpus_options.h"

#include "config/common_options.h"

namespace reigen {

void describe(Schema& s, CorpusOptions& o) {
  describe_output(s, o.output, o.overwrite, "directory of text files");
  describe_threads(s, o.threads, "; the corpus does not depend on it");
  s.option("pairs", o.pairs, "number of training pairs", 1, kMaxPairs);
  s.option("valid-pairs", o.valid_pairs, "number of validation pairs", 1, 1'000'000);
  s.option("test-pairs", o.test_pairs, "number of test pairs", 1, 1'000'000);
  s.option("seed", o.seed, "random seed; each seed gives a different corpus", 0, INT64_MAX);
  describe_quiet(s, o.quiet);
  s.example("reigen corpus --pairs 100000 --seed 1 --output demo/text");
}

}  // namespace reigen
