#include "config/demo_options.h"

#include "config/common_options.h"

namespace reigen {

void describe(Schema& s, DemoOptions& o) {
  s.option("output", o.output, "DIR", "directory for the text, the dataset and the run").required();
  s.option("overwrite", o.overwrite,
           "replace the output of an earlier demo; without it, finished stages are reused and an "
           "unfinished run is resumed");
  describe_threads(s, o.threads);
  s.option("pairs", o.pairs, "number of training pairs", 1000, kMaxPairs);
  s.option("vocab-size", o.vocab_size, "number of pieces in the vocabulary", 64, 1'000'000);
  s.option("steps", o.steps, "number of optimizer steps", 1, 1'000'000);
  s.example("reigen demo --output demo");
}

}  // namespace reigen
