// `reigen demo`: all stages from text to translations on the built-in corpus, and next steps.
//
// Each stage is a command with the options a user would give. Stages that an earlier demo finished
// are reused, so an interrupted demo resumes where it stopped.
#include <filesystem>

#include "base/file/files.h"
#include "base/format.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "data/input/line_reader.h"
#include "decode/translator.h"
#include "model/saved_model.h"
#include "train/directory/run_directory.h"

namespace reigen {
namespace {

struct Places {
  std::string text;
  std::string data;
  std::string run;
};

// Whether a stage has to run: its output does not exist or is to be replaced.
bool has_to_run(const std::string& path, bool overwrite) {
  if (overwrite || !path_exists(path)) return true;
  log_note(format("{} exists already and is reused", path));
  return false;
}

void write_corpus(const DemoOptions& options, const Places& at) {
  log_note(
      "1. Write a corpus: numbers, dates, times and money in English and German, from ICU's data");
  if (!has_to_run(at.text, options.overwrite)) return;
  CorpusOptions corpus;
  corpus.pairs = options.pairs;
  corpus.threads = options.threads;
  corpus.output = at.text;
  corpus.overwrite = options.overwrite;
  run_corpus(corpus);
}

void prepare_data(const DemoOptions& options, const Places& at) {
  log_note("\n2. Prepare a dataset: clean, train a joint vocabulary, encode, write shards");
  if (!has_to_run(at.data, options.overwrite)) return;
  PrepareOptions prepare;
  prepare.source = "en";
  prepare.target = "de";
  auto pair_of = [&](const std::string& split) {
    return std::vector<CorpusSpec>{
        {.name = split, .paths = {at.text + "/" + split + ".en", at.text + "/" + split + ".de"}}};
  };
  prepare.train = pair_of("train");
  prepare.valid = pair_of("valid");
  prepare.test = pair_of("test");
  prepare.vocab.size = options.vocab_size;
  prepare.threads = options.threads;
  prepare.output = at.data;
  prepare.overwrite = options.overwrite;
  run_prepare(prepare);
}

// The corpus has no noise: no dropout, a short warm-up, and a learning rate that ends at 0.
TrainOptions training(const DemoOptions& options, const Places& at) {
  TrainOptions train;
  train.preset = "tiny";
  train.recipe = Recipe::kClassic;
  train.model.encoder_layers = 3;
  train.model.decoder_layers = 3;
  train.model.max_length = 256;
  train.data = at.data;
  train.run = at.run;
  train.max_steps = options.steps;
  train.threads = options.threads;
  train.dropout = {0, 0, 0, 0};
  train.batch.target_tokens = 1000;
  train.schedule.kind = ScheduleKind::kCosine;
  train.schedule.rate = 0.002;
  train.schedule.warmup_steps = 100;
  train.schedule.decay_steps = options.steps;
  train.log_every = 100;
  train.eval.every = 300;
  train.eval.sentences = 200;
  train.checkpoint.every = 300;
  return train;
}

void translate_some(const DemoOptions& options, const Places& at) {
  constexpr size_t kShown = 4;
  std::vector<std::string> lines;
  LineReader reader(at.text + "/test.en");
  for (std::string line; lines.size() < kShown && reader.next(line);) lines.push_back(line);
  SavedModel saved = load_model(at.run);
  const PlacedModel placed(saved, {}, static_cast<int>(options.threads));
  Translator translator(placed.opened.device, *saved.model, placed.weights.view(), saved.vocabulary,
                        text_rules(saved), DecodeOptions{});
  const auto found = translator.translate(lines);
  for (size_t i = 0; i < lines.size(); ++i) {
    print(format("  {}\n  {}\n\n", lines[i], found[i][0].text));
  }
}

}  // namespace

void run_demo(const DemoOptions& options) {
  const Places at = {options.output + "/text", options.output + "/data", options.output + "/run"};
  if (options.overwrite) {  // fails before anything is replaced
    for (const std::string& part : {at.text, at.data}) StagedDirectory check(part, true);
    remove_run(at.run);
  }
  write_corpus(options, at);
  prepare_data(options, at);
  log_note("\n3. Train a small Transformer");
  run_train(training(options, at));
  log_note(
      "\n4. Evaluate the best checkpoint on the test set, which is not part of the training set");
  run_evaluate({.model = at.run, .threads = options.threads});
  log_note("\n5. Translate the first sentences of the test set");
  translate_some(options, at);
  log_note(
      format("Next: reigen translate --model {0} < {1}/test.en\n"
             "      reigen report {0}                  speed, progress and bottleneck of the run\n"
             "      reigen inspect {0}/best-bleu       content of the best checkpoint\n"
             "      reigen prepare --help, reigen train --help     training on your own text\n"
             "      recipes/ and configs/ have complete examples",
             at.run, at.text));
  log_note(
      format("\nThe report of the run is one page: open file://{} in a browser, or copy it to a "
             "machine that has one.",
             std::filesystem::absolute(at.run + "/report.html").string()));
}

}  // namespace reigen
