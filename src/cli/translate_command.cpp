// `reigen translate`: lines from a file or a pipe through a saved model.
//
// A filter: what has been written stays written when Ctrl-C or an error ends it, and a reader that
// goes away (`| head`) ends it without an error.
#include <unistd.h>

#include <chrono>
#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/line_output.h"
#include "decode/line_stream.h"
#include "model/saved_model.h"

namespace reigen {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kStandard = LineOutput::kStandard;

LineReader open_input(const std::string& path) {
  if (path == kStandard) {
    return LineReader(ByteSource(STDIN_FILENO, "standard input"), kMostLineBytes);
  }
  return LineReader(ByteSource(path), kMostLineBytes);
}

void report(const TranslationCounts& counts, double seconds) {
  const double tokens = static_cast<double>(counts.target_tokens) / std::max(seconds, 1e-9);
  log_note(format("{} {} in {}, {} tokens/s", with_commas(counts.lines),
                  counts.lines == 1 ? "line" : "lines", human_seconds(seconds),
                  with_commas(static_cast<uint64_t>(tokens))));
  if (counts.cut > 0) {
    log_note(format("{} {} longer than the model takes and translated in parts",
                    with_commas(counts.cut), counts.cut == 1 ? "line was" : "lines were"));
  }
  if (counts.repaired > 0) {
    log_warning(format("{} {} not UTF-8; bad bytes were read as U+FFFD",
                       with_commas(counts.repaired),
                       counts.repaired == 1 ? "line was" : "lines were"));
  }
}

// Returns false when nobody reads the output any more.
bool translate_all(LineReader& reader, Translator& translator, const TranslateOptions& options,
                   LineOutput& output) {
  const bool typed = options.input == kStandard && isatty(STDIN_FILENO) == 1;
  bool wanted = true;
  std::unique_ptr<Progress> progress;
  if (!typed) progress = std::make_unique<Progress>("translate", 0, "sentences");
  translate_stream(
      reader, translator, {typed ? 1 : options.window, options.nbest > 1},
      [&](std::string_view text) { return wanted = output.write(text); },
      [&](uint64_t sentences) {
        if (progress) progress->set(sentences);
      });
  return wanted;
}

}  // namespace

void run_translate(const TranslateOptions& options) {
  set_quiet(options.quiet);
  check_translate_options(options);
  SavedModel saved = load_model(options.model);
  log_note(format("{}: {} to {}, step {}", saved.path, saved.facts.source_language,
                  saved.facts.target_language, with_commas(saved.facts.step)));
  const PlacedModel placed(saved, options.device, static_cast<int>(options.threads));
  const CheckpointFacts& facts = saved.facts;
  Translator translator(
      placed.opened.device, *saved.model, placed.weights.view(), saved.vocabulary,
      {facts.source_language, facts.target_language, facts.nfkc, facts.whitespace}, options.decode,
      options.nbest);
  LineReader reader = open_input(options.input);
  LineOutput output(options.output);
  const Clock::time_point start = Clock::now();
  try {
    const bool wanted = translate_all(reader, translator, options, output);
    output.close();
    if (!wanted) log_note("nobody reads the output any more; stopped");
  } catch (const Interrupted&) {
    output.keep();
    const std::string where =
        options.output == kStandard ? "" : format(" and are in {}", output.partial());
    throw Interrupted(
        format("stopped by a signal; translations written before that stay{}", where));
  }
  report(translator.counts(), std::chrono::duration<double>(Clock::now() - start).count());
}

}  // namespace reigen
