#include "config/decode_options.h"

#include "base/error.h"
#include "base/format.h"

namespace reigen {

void describe(Schema& s, DecodeOptions& o) {
  s.option("decode.beam", o.beam, "hypotheses kept for each sentence; 1 is greedy", 1, 64)
      .flag("beam");
  s.option("decode.alpha", o.alpha,
           "length penalty: scores are log-probability / ((5 + tokens) / 6)^alpha; 0 prefers short "
           "translations, more prefers longer ones",
           0, 5)
      .flag("alpha");
  s.option("decode.max-ratio", o.max_ratio,
           "end a translation at this many tokens for each source token, and ten more", 0.1, 100);
  s.option("decode.batch-tokens", o.batch_tokens,
           "source tokens times beam translated at once; more is faster until memory runs out, and "
           "changes results by rounding only; 0 for 8192 on the CPU, 131072 or what its memory "
           "allows on a GPU",
           0, 10'000'000);
}

void describe(Schema& s, TranslateOptions& o) {
  s.option("model", o.model, "PATH", "a run written by reigen train, or a checkpoint in it")
      .required();
  s.option("input", o.input, "FILE",
           "lines to translate, plain, gzip, zstd or xz; - for standard input");
  s.option("output", o.output, "FILE",
           "where to write one line for each line read; - for standard output");
  s.option("nbest", o.nbest,
           "print this many translations of each line as `line ||| text ||| score`, the line "
           "counted from 0, best first; fewer where the search found fewer",
           1, 64);
  s.option("window", o.window,
           "lines read ahead to be sorted into batches; output appears once per window, or line by "
           "line when a terminal is the input",
           1, 1'000'000);
  describe(s, o.device);
  s.option("threads", o.threads, "threads to use on the CPU, 0 for all cores", 0, 1024);
  s.option("quiet", o.quiet, "no progress, only warnings and errors");
  describe(s, o.decode);
  s.example("reigen translate --model runs/demo < test.en > test.de");
  s.example("reigen translate --model runs/demo --input test.en.gz --beam 8 --nbest 8");
}

void check_translate_options(const TranslateOptions& options) {
  if (options.nbest > options.decode.beam) {
    throw ConfigError(
        format("--nbest {} is more than --beam {}, which is all a search keeps; raise --beam or "
               "lower --nbest",
               options.nbest, options.decode.beam));
  }
}

}  // namespace reigen
