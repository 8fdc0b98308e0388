#include "config/decode_options.h"

#include "base/error.h"
#include "base/format.h"
#include "config/common_options.h"

namespace reigen {

void describe(Schema& s, DecodeOptions& o) {
  s.option("decode.beam", o.beam,
           "beam size: number of hypotheses per sentence; 1 is greedy search", 1, 64)
      .flag("beam")
      .free_on_resume();
  s.option("decode.alpha", o.alpha,
           "length penalty: scores are log-probability / ((5 + tokens) / 6)^alpha; 0 favours short "
           "translations, larger values longer ones",
           0, 5)
      .flag("alpha")
      .free_on_resume();
  s.option("decode.max-ratio", o.max_ratio,
           "maximum length of a translation in tokens per source token, plus ten", 0.1, 100)
      .free_on_resume();
  s.option("decode.batch-tokens", o.batch_tokens,
           "number of source tokens times beam size translated at once; larger is faster until "
           "memory runs out, and changes results only by rounding; 0 for 8192 on the CPU and "
           "393216 (131072 in a validation of train), or less if memory requires it, on a GPU",
           0, 10'000'000)
      .free_on_resume();
}

void describe(Schema& s, TranslateOptions& o) {
  s.option("model", o.model, "PATH", "run directory or checkpoint of the model").required();
  s.option("input", o.input, "FILE",
           "text to translate, one sentence per line (plain, gzip, zstd or xz); - for standard "
           "input");
  s.option("output", o.output, "FILE",
           "file for the translations, one line per input line; - for standard output");
  s.option("nbest", o.nbest,
           "number of translations per line, printed as `line ||| text ||| score`, best first, "
           "with lines counted from 0; fewer where the search found fewer",
           1, 64);
  s.option("window", o.window,
           "number of lines read, sorted and written together, while other windows are translated; "
           "a terminal is read and answered line by line",
           1, 1'000'000);
  describe(s, o.device);
  describe_threads(s, o.threads);
  describe_quiet(s, o.quiet);
  describe(s, o.decode);
  s.example("reigen translate --model runs/demo < test.en > test.de");
  s.example("reigen translate --model runs/demo --input test.en.gz --beam 8 --nbest 8");
}

void check_translate_options(const TranslateOptions& options) {
  if (options.nbest > options.decode.beam) {
    throw ConfigError(
        format("--nbest {} is more than --beam {}, the number of hypotheses of a search; raise "
               "--beam or lower --nbest",
               options.nbest, options.decode.beam));
  }
}

}  // namespace reigen
