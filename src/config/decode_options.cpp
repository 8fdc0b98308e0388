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
           "memory runs out, and changes results only by rounding; 0 for 8192 on the CPU, or "
           "less for large models, and 393216 (131072 in a validation of train), or less if memory "
           "requires it, on a GPU",
           0, 10'000'000)
      .free_on_resume();
}

namespace {

void describe_choice(Schema& s, DecodeOptions& o) {
  SamplingOptions& sampling = o.sampling;
  s.option("sample", sampling.on,
           "draw translations from the model's distribution instead of searching for the likeliest "
           "one, such as for back-translation; --nbest N draws N of them for each line");
  s.option(
      "temperature", sampling.temperature,
      "with --sample: divisor of the logits; below 1 likely tokens are drawn more often, above "
      "1 unlikely ones",
      0.01, 100);
  s.option("top-k", sampling.top_k,
           "with --sample: number of likeliest tokens from which each token is drawn; 0 for all", 0,
           10'000'000);
  s.option("top-p", sampling.top_p,
           "with --sample: probability p of nucleus sampling: each token is drawn from the fewest "
           "tokens whose probabilities add up to p; 1 for all",
           0.001, 1);
  s.option("seed", sampling.seed,
           "with --sample: random seed; the translations of a line depend on the seed, the number "
           "of the line and the model, not on threads or other lines",
           0, INT64_MAX);
  s.option("no-repeat-ngram", o.no_repeat_ngram,
           "number of tokens of a sequence that may occur only once in a translation; 0 for no "
           "such rule",
           0, 1000);
  s.option("min-length", o.min_length,
           "minimum number of tokens of a translation, end of sentence not counted; takes "
           "precedence over decode.max-ratio",
           0, 100'000);
}

}  // namespace

void describe(Schema& s, TranslateOptions& o) {
  s.option("model", o.model, "PATH", "run directory or checkpoint of the model").required();
  describe_to(s, o.to);
  s.option("ensemble", o.ensemble, "PATH...",
           "further runs or checkpoints with the vocabulary of --model, whose probabilities are "
           "averaged with its own");
  s.option("input", o.input, "FILE",
           "text to translate, one sentence per line (plain, gzip, zstd or xz); - for standard "
           "input");
  s.option("output", o.output, "FILE",
           "file for the translations, one line per input line; - for standard output");
  s.option("nbest", o.nbest,
           "number of translations per line, printed as `line ||| text ||| score`, best first, "
           "with lines counted from 0; fewer where the search found fewer",
           1, 64);
  s.option("json", o.json,
           "print a JSON object for each line: its number, and for each translation text, score, "
           "log-probability, tokens and confidence (the expected chrF with an 80% interval, fitted "
           "to the validation set of the training run)");
  describe_choice(s, o.decode);
  s.option("prefix", o.prefix, "FILE",
           "file with the forced beginning of each line's translation, as many lines as the input "
           "has; an empty line forces nothing");
  s.option("window", o.window,
           "number of lines read, sorted and written together, while other windows are translated; "
           "a terminal is read and answered line by line",
           1, 1'000'000);
  describe(s, o.device);
  describe_threads(s, o.threads);
  describe_quiet(s, o.quiet);
  describe(s, o.decode);
  s.example("reigen translate --model runs/demo < test.en > test.de");
  s.example("reigen translate --model runs/several --to fr < test.en > test.fr");
  s.example("reigen translate --model runs/demo --input test.en.gz --beam 8 --nbest 8");
  s.example("reigen translate --model runs/de-en --sample --seed 7 < mono.de > mono.en");
}

TranslateOptions resolve(TranslateOptions options) {
  DecodeOptions& decode = options.decode;
  auto given = [&](const char* key) { return options.given && options.given->contains(key); };
  for (const char* key : {"temperature", "top-k", "top-p", "seed"}) {
    if (!decode.sampling.on && given(key)) {
      throw ConfigError(format("--{} has no effect without --sample; add it", key));
    }
  }
  if (decode.sampling.on) {
    if (given("decode.beam")) {
      throw ConfigError("--sample draws translations and has no beam; --nbest sets their number");
    }
    decode.beam = options.nbest;
  }
  decode.forced_prefixes = !options.prefix.empty();
  if (options.nbest > decode.beam) {
    throw ConfigError(
        format("--nbest {} is more than --beam {}, the number of hypotheses of a search; raise "
               "--beam or lower --nbest",
               options.nbest, decode.beam));
  }
  return options;
}

}  // namespace reigen
