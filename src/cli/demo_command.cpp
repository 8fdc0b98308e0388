// `reigen demo`: the whole path on the built-in corpus, and what to do next.
#include "base/error.h"
#include "base/files.h"
#include "base/format.h"
#include "base/terminal.h"
#include "cli/commands.h"

namespace reigen {

void run_demo(const DemoOptions& options) {
  const std::string text = options.output + "/text";
  const std::string data = options.output + "/data";
  for (const std::string& part : {text, data}) {  // before anything is replaced
    StagedDirectory check(part, options.overwrite);
  }
  log_note("1. A corpus: numbers, dates, times and money in English and German, from ICU's data");
  CorpusOptions corpus;
  corpus.pairs = options.pairs;
  corpus.threads = options.threads;
  corpus.output = text;
  corpus.overwrite = options.overwrite;
  run_corpus(corpus);

  log_note("\n2. Prepare it: clean, train a joint vocabulary, encode, write shards");
  PrepareOptions prepare;
  prepare.source = "en";
  prepare.target = "de";
  auto pair_of = [&](const std::string& split) {
    return std::vector<CorpusSpec>{
        {.name = split, .paths = {text + "/" + split + ".en", text + "/" + split + ".de"}}};
  };
  prepare.train = pair_of("train");
  prepare.valid = pair_of("valid");
  prepare.test = pair_of("test");
  prepare.vocab.size = options.vocab_size;
  prepare.threads = options.threads;
  prepare.output = data;
  prepare.overwrite = options.overwrite;
  run_prepare(prepare);

  log_note("\n3. Look at it, checking every checksum");
  run_inspect({.path = data, .json = false, .verify = true});
  log_note(
      format("\nNext: put your own text through `reigen prepare` ({} shows how),\n"
             "or look at {}/manifest.json.",
             "`reigen prepare --help`", data));
}

}  // namespace reigen
