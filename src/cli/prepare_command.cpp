// `reigen prepare`: writes a dataset and prints the numbers of pairs and of those that each rule
// dropped.
#include "data/prepare/prepare.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "eval/pair_scores.h"
#include "model/saved_model.h"
#include "text/unicode.h"

namespace reigen {
namespace {

void check_languages(const PrepareOptions& options) {
  std::set<std::string> languages = {options.source, options.target};
  for (const CorpusSpec& spec : options.train) {
    if (!spec.to.empty()) languages.insert(spec.to);
  }
  for (const std::string& language : languages) {
    if (!is_language_code(language)) {
      throw ConfigError(
          format("'{}' is not a language code; use one such as en or pt-BR", language));
    }
    if (!is_known_language(language)) {
      log_warning(format(
          "ICU does not know the language '{}'; the script rule does not apply to it", language));
    }
  }
  if (options.source == options.target) {
    throw ConfigError(
        format("--source and --target are both '{}'; name two languages", options.source));
  }
}

std::string corpora_table(const Manifest& m) {
  Table table;
  const bool tagged = !m.target_languages.empty();
  table.row({"corpus", "weight", "read", "kept", "dropped", m.source_language + " pieces",
             (tagged ? "target" : m.target_language) + " pieces", "unknown"});
  auto add = [&](const CorpusFacts& c, std::string name) {
    if (tagged) name += format(" ({}-{})", m.source_language, c.to);
    table.row({name, format("{:.4g}", c.weight), with_commas(c.lines_read),
               with_commas(c.lines_kept), with_commas(c.lines_read - c.lines_kept),
               with_commas(c.source.pieces), with_commas(c.target.pieces),
               with_commas(c.source.unknown + c.target.unknown)});
  };
  for (const auto& c : m.train) add(c, c.name);
  for (const auto& c : m.valid) add(c, "valid: " + c.name);
  for (const auto& c : m.test) add(c, "test: " + c.name);
  return table.text();
}

// Every rule is listed, also with 0, to show that it was on.
std::string rules_table(const Manifest& m) {
  Table table;
  uint64_t read = 0;
  for (const auto& corpus : m.train) read += corpus.lines_read;
  for (size_t r = 0; r < kRuleCount; ++r) {
    uint64_t dropped = 0;
    for (const auto& corpus : m.train) dropped += corpus.dropped[r];
    auto rule = static_cast<Rule>(r);
    table.row({format("{:<10} {}", rule_name(rule), rule_description(rule)), with_commas(dropped),
               percent(dropped, read)});
  }
  return table.text();
}

std::string shortened(const std::string& text) {
  std::string line = squeeze_whitespace(repair_utf8(text));
  constexpr size_t kMost = 100;
  // Control characters in the text must not reach the terminal.
  for (size_t i = 0; i < line.size(); ++i) {
    auto c = static_cast<unsigned char>(line[i]);
    if (c < 0x20 || c == 0x7F) line[i] = '?';
    if (c == 0xC2 && static_cast<unsigned char>(line[i + 1]) < 0xA0) line.replace(i, 2, "?");
  }
  if (display_width(line) <= kMost) return line;
  size_t at = 0;
  for (size_t shown = 0; shown < kMost; ++at) shown += (line[at + 1] & 0xC0) != 0x80;
  return line.substr(0, at) + "...";
}

std::string examples_text(const PrepareResult& result) {
  std::string out;
  for (size_t r = 0; r < kRuleCount; ++r) {
    const auto& examples = result.examples[r];
    if (examples.empty()) continue;
    out += format("\nDropped by {}:\n", rule_name(static_cast<Rule>(r)));
    for (const auto& e : examples) {
      out += format("  {}, line {}\n    {}: {}\n    {}: {}\n", e.corpus, with_commas(e.line),
                    result.manifest.source_language, shortened(e.source),
                    result.manifest.target_language, shortened(e.target));
    }
  }
  return out;
}

}  // namespace

namespace {

// The models of clean.score, and of clean.score-reverse.
class ScoringModels {
 public:
  explicit ScoringModels(const PrepareOptions& options)
      : forward_(options.clean.score, static_cast<int>(options.threads)) {
    std::set<std::string> languages;
    for (const CorpusSpec& spec : options.train) {
      languages.insert(spec.to.empty() ? options.target : spec.to);
    }
    for (const std::string& to : languages) forward_.add_direction(options.source, to);
    if (options.clean.score_reverse.empty()) return;
    reverse_.emplace(options.clean.score_reverse, static_cast<int>(options.threads));
    for (const std::string& to : languages) reverse_->add_direction(to, options.source);
    reverse_target_ = options.source;
  }

  PairScoring scoring() {
    return [this](const Lines& sources, const Lines& targets, const std::string& to) {
      std::vector<double> scores = entropies(forward_, sources, targets, to);
      if (!reverse_) {
        for (double& score : scores) score = -score;
        return scores;
      }
      const std::vector<double> other = entropies(*reverse_, targets, sources, reverse_target_);
      // Dual cross-entropy (Junczys-Dowmunt 2018): both low, and alike.
      for (size_t i = 0; i < scores.size(); ++i) {
        scores[i] = -(std::abs(scores[i] - other[i]) + (scores[i] + other[i]) / 2);
      }
      return scores;
    };
  }

 private:
  struct Model {
    Model(const std::string& path, int threads)
        : saved(load_model(path)), placed(saved, {.device = "cpu"}, threads) {}

    // Throws ConfigError where the model does not have it.
    void add_direction(const std::string& source, const std::string& target) {
      const CheckpointFacts& facts = saved.facts;
      const std::vector<std::string>& tagged = facts.target_languages;
      const bool known = tagged.empty()
                             ? facts.target_language == target
                             : std::find(tagged.begin(), tagged.end(), target) != tagged.end();
      if (facts.source_language != source || !known) {
        const std::string targets =
            tagged.empty() ? facts.target_language : format("{}", fmt::join(tagged, ", "));
        throw ConfigError(format("{}: translates {} to {} but must score {} to {}", saved.path,
                                 facts.source_language, targets, source, target));
      }
      scorers.try_emplace(target, placed.opened.device, *saved.model, placed.weights.view(),
                          saved.vocabulary, text_rules(saved, tagged.empty() ? "" : target));
    }

    SavedModel saved;
    PlacedModel placed;
    std::map<std::string, PairScorer> scorers;  // by target language
  };

  // Cross-entropy per token; NaN for a pair that is too long for the model.
  static std::vector<double> entropies(Model& model, const Lines& sources, const Lines& targets,
                                       const std::string& to) {
    std::vector<double> values;
    for (const PairScore& score : model.scorers.at(to).score(sources, targets)) {
      values.push_back(
          score.too_long ? NAN : -score.log_probability() / static_cast<double>(score.ids.size()));
    }
    return values;
  }

  Model forward_;
  std::optional<Model> reverse_;
  std::string reverse_target_;
};

}  // namespace

void run_prepare(const PrepareOptions& options) {
  set_quiet(options.quiet);
  check_languages(options);
  auto start = std::chrono::steady_clock::now();
  std::optional<ScoringModels> models;
  if (!options.clean.score.empty()) models.emplace(options);
  PrepareResult result = prepare(options, models ? models->scoring() : PairScoring());
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Manifest& m = result.manifest;
  if (m.valid.empty()) {
    log_warning("no --valid given: training cannot be evaluated without a validation set");
  }
  std::string out = corpora_table(m) + "\nTraining lines dropped, by rule:\n" + rules_table(m);
  out += examples_text(result);
  out += format("\n{}: {} training pairs, vocabulary of {}{} pieces, in {}\n", options.output,
                with_commas(m.train_pairs()),
                m.source_vocab ? with_commas(m.source_vocab->size) + " + " : "",
                with_commas(m.vocab.size), human_seconds(seconds));
  if (!options.quiet) print(out);
}

}  // namespace reigen
