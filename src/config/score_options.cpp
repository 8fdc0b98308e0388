#include "config/score_options.h"

#include "config/common_options.h"

namespace reigen {

void describe(Schema& s, ScoreOptions& o) {
  s.option("model", o.model, "PATH", "run directory or checkpoint of the model").required();
  describe_to(s, o.to);
  s.option("sources", o.sources, "FILE",
           "source text, one sentence per line (plain, gzip, zstd or xz)")
      .required();
  s.option("targets", o.targets, "FILE", "translations to score, line by line").required();
  s.option("output", o.output, "FILE",
           "file for the scores, one line per pair: the natural logarithm of the translation's "
           "probability, end of sentence included, or `nan` for a pair that is longer than the "
           "model accepts; - for standard output");
  s.option("normalize", o.normalize, "divide by the number of tokens, end of sentence included");
  s.option("tokens", o.tokens,
           "print a JSON object per pair instead, with the pieces of the translation and the "
           "log-probability of each");
  s.option("window", o.window, "number of pairs read ahead and sorted into batches", 1, 1'000'000);
  describe(s, o.device);
  describe_threads(s, o.threads);
  describe_quiet(s, o.quiet);
  s.example("reigen score --model runs/first --sources a.en --targets a.de > scores");
  s.example("reigen score --model runs/first --sources a.en --targets a.de --normalize --tokens");
}

}  // namespace reigen
