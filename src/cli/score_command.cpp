// `reigen score`: log-probabilities of given translations, a line for each pair.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/json/json.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/line_output.h"
#include "data/input/line_reader.h"
#include "decode/line_stream.h"
#include "eval/pair_scores.h"
#include "model/saved_model.h"

namespace reigen {
namespace {

double value_of(const PairScore& score, bool normalize) {
  const double sum = score.log_probability();
  return normalize ? sum / static_cast<double>(score.ids.size()) : sum;
}

std::string score_line(const PairScore& score, const Vocabulary& vocabulary,
                       const ScoreOptions& options) {
  if (!options.tokens) {
    return score.too_long ? "nan\n" : format("{:.6f}\n", value_of(score, options.normalize));
  }
  Json json = {{"log_probability", nullptr}, {"pieces", Json::array()}};
  for (const uint32_t id : score.ids) json["pieces"].push_back(vocabulary.piece(id));
  if (!score.too_long) json["log_probability"] = value_of(score, options.normalize);
  json["log_probabilities"] = score.tokens;
  return one_line(json) + "\n";
}

struct ScoreCounts {
  uint64_t lines = 0;
  uint64_t too_long = 0;
};

// The next window of pairs; false at the end. Throws DataError where one file has more lines.
bool read_window(LineReader& sources, LineReader& targets, const ScoreOptions& options,
                 Lines& source_lines, Lines& target_lines, uint64_t before) {
  source_lines.clear();
  target_lines.clear();
  std::string source;
  std::string target;
  while (source_lines.size() < static_cast<size_t>(options.window)) {
    const bool more = sources.next(source);
    if (more != targets.next(target)) {
      throw DataError(
          format("{} has more lines than {}, which has {}; they must match line by line",
                 more ? options.sources : options.targets, more ? options.targets : options.sources,
                 before + source_lines.size()));
    }
    if (!more) break;
    source_lines.push_back(source);
    target_lines.push_back(target);
  }
  return !source_lines.empty();
}

}  // namespace

void run_score(const ScoreOptions& options) {
  set_quiet(options.quiet);
  SavedModel saved = load_model(options.model);
  const TextRules rules = text_rules(saved, options.to);
  log_note(format("{}: {} to {}, step {}", saved.path, rules.source_language, rules.target_language,
                  with_commas(saved.facts.step)));
  const PlacedModel placed(saved, options.device, static_cast<int>(options.threads));
  PairScorer scorer(placed.opened.device, *saved.model, placed.weights.view(), saved.vocabulary,
                    rules);
  LineReader sources(ByteSource(options.sources), kMostLineBytes);
  LineReader targets(ByteSource(options.targets), kMostLineBytes);
  LineOutput output(options.output);
  Progress progress("score", 0, "pairs");
  ScoreCounts counts;
  Lines source_lines;
  Lines target_lines;
  bool open = true;
  while (open && read_window(sources, targets, options, source_lines, target_lines, counts.lines)) {
    std::string text;
    for (const PairScore& score : scorer.score(source_lines, target_lines)) {
      text += score_line(score, saved.vocabulary, options);
      if (score.too_long) ++counts.too_long;
    }
    open = output.write(text);
    progress.set(counts.lines += source_lines.size());
  }
  output.close();
  if (counts.too_long > 0) {
    log_warning(format(
        "pairs longer than the model's maximum of {} tokens, which have no score: {} of {}",
        saved.facts.model.max_length, with_commas(counts.too_long), with_commas(counts.lines)));
  }
}

}  // namespace reigen
