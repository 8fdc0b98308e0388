// `reigen translate`: lines from a file or a pipe through a saved model.
//
// A filter: translations that are written stay written after Ctrl-C or an error, and a reader that
// closes the pipe (`| head`) ends it without an error.
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/json/json_view.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/line_output.h"
#include "decode/line_stream.h"
#include "decode/warm_up.h"
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
    log_note(format("{} {} longer than the model's maximum and translated in fragments",
                    with_commas(counts.cut), counts.cut == 1 ? "line was" : "lines were"));
  }
  if (counts.repaired > 0) {
    log_warning(format("{} {} not UTF-8; bad bytes were read as U+FFFD",
                       with_commas(counts.repaired),
                       counts.repaired == 1 ? "line was" : "lines were"));
  }
}

// The models of an ensemble beside the first, on its device.
struct FurtherModel {
  FurtherModel(const std::string& path, const SavedModel& first, const OpenedDevice& opened)
      : saved(load_model(path)), placed(saved, opened) {
    const auto own = first.vocabulary.files();
    const auto others = saved.vocabulary.files();
    bool same = own.size() == others.size();
    for (size_t i = 0; same && i < own.size(); ++i) {
      same = own[i].vocabulary->bytes() == others[i].vocabulary->bytes();
    }
    if (same) return;
    throw CheckpointError(
        format("{}: its vocabulary is not that of {}; an ensemble needs models with one vocabulary",
               saved.path, first.path));
  }
  SavedModel saved;
  PlacedModel placed;
};

LineFormat format_of(const TranslateOptions& options) {
  if (options.json) return LineFormat::kJson;
  return options.nbest > 1 ? LineFormat::kNbest : LineFormat::kText;
}

// As the training run measured it for a plain search; unknown for any other choice of tokens.
std::optional<Calibration> calibration_of(const SavedModel& saved,
                                          const TranslateOptions& options) {
  if (!options.json || !options.decode.plain() || !options.ensemble.empty()) return std::nullopt;
  const JsonView training(saved.facts.training, "training");
  if (!training.contains(kCalibration)) {
    log_note(
        format("{}: has no calibration, so translations have no confidence; checkpoints have "
               "one from an evaluation of at least 100 translated sentences on",
               saved.path));
    return std::nullopt;
  }
  try {
    return Calibration::from_json(training.at(kCalibration));
  } catch (const FieldError& e) {
    throw CheckpointError(format("{}: {}", saved.path, e.what()));
  }
}

// Returns false when the reader has closed the output.
bool translate_all(LineReader& reader, LineReader* prefixes, const Calibration* calibration,
                   Translator& translator, const TranslateOptions& options, LineOutput& output) {
  const bool typed = options.input == kStandard && isatty(STDIN_FILENO) == 1;
  bool open = true;
  std::unique_ptr<Progress> progress;
  if (!typed) progress = std::make_unique<Progress>("translate", 0, "sentences");
  translate_stream(
      reader, translator,
      {.window = typed ? 1 : options.window,
       .format = format_of(options),
       .prefixes = prefixes,
       .calibration = calibration},
      [&](std::string_view text) { return open = output.write(text); },
      [&](uint64_t sentences) {
        if (progress) progress->set(sentences);
      });
  return open;
}

}  // namespace

void run_translate(const TranslateOptions& given) {
  set_quiet(given.quiet);
  const TranslateOptions options = resolve(given);
  const std::string path = resolve_checkpoint(options.model);
  const CheckpointFacts facts = read_checkpoint_facts(path);
  DeviceOpening opening(options.device, static_cast<int>(options.threads),
                        [&](const OpenedDevice& opened) {
                          warm_up(opened, facts.model, facts.pieces, {1, 0}, options.decode);
                        });
  SavedModel saved = load_model(path);
  const TextRules rules = text_rules(saved, options.to);
  log_note(format("{}: {} to {}, step {}", saved.path, rules.source_language, rules.target_language,
                  with_commas(saved.facts.step)));
  const PlacedModel placed(saved, opening.take());
  std::vector<std::unique_ptr<FurtherModel>> further;
  for (const std::string& more : options.ensemble) {
    further.push_back(std::make_unique<FurtherModel>(more, saved, placed.opened));
  }
  Translator translator(placed.opened.device, *saved.model, placed.weights.view(), saved.vocabulary,
                        rules, options.decode, options.nbest);
  for (const auto& model : further) {
    translator.add_model(model->placed.opened.device, *model->saved.model,
                         model->placed.weights.view());
  }
  const std::optional<Calibration> calibration = calibration_of(saved, options);
  LineReader reader = open_input(options.input);
  std::unique_ptr<LineReader> prefixes;
  if (!options.prefix.empty()) {
    prefixes = std::make_unique<LineReader>(ByteSource(options.prefix), kMostLineBytes);
  }
  LineOutput output(options.output);
  const Clock::time_point start = Clock::now();
  try {
    const bool open = translate_all(reader, prefixes.get(), calibration ? &*calibration : nullptr,
                                    translator, options, output);
    output.close();
    if (!open) log_note("the reader closed the output; stopped");
  } catch (const Interrupted&) {
    output.close_partial();
    const std::string where = options.output == kStandard ? "" : format(" to {}", output.partial());
    throw Interrupted(format("stopped by a signal; finished translations were written{}", where));
  }
  report(translator.counts(), std::chrono::duration<double>(Clock::now() - start).count());
}

}  // namespace reigen
