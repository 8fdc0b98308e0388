#include "cli/evaluation_material.h"

#include <algorithm>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/terminal.h"
#include "cli/line_output.h"
#include "config/train_options.h"
#include "data/input/line_reader.h"
#include "data/manifest.h"
#include "decode/translator.h"
#include "model/saved_model.h"
#include "text/unicode.h"

namespace reigen {
namespace {

constexpr uint64_t kLossTokens = 4096;  // per micro-batch

// --data, or the dataset that the model was trained on.
std::string data_of(const EvaluateOptions& options, const SavedModel& saved) {
  if (!options.data.empty()) return options.data;
  const Json& training = saved.facts.training;
  std::string data = training.contains("options")
                         ? parse_recorded_options(one_line(training["options"]), saved.path).data
                         : "";
  if (!data.empty() && path_exists(data + "/manifest.json")) return data;
  const std::string why =
      data.empty() ? "does not name its dataset" : format("its dataset {} does not exist", data);
  throw ConfigError(
      format("{}: {}; give --data DIR, or --sources and --references", options.model, why));
}

bool same_vocabularies(const Manifest& manifest, const SavedModel& saved) {
  const std::vector<CheckpointFile> files = vocabulary_files(saved.facts, saved.path);
  auto has = [&](const VocabFacts& facts) {
    return std::any_of(files.begin(), files.end(), [&](const CheckpointFile& file) {
      return file.file == facts.file.file && file.sha256 == facts.file.sha256;
    });
  };
  return files.size() == (manifest.source_vocab ? 2 : 1) && has(manifest.vocab) &&
         (!manifest.source_vocab || has(*manifest.source_vocab));
}

struct OpenedSplit {
  ValidationSet set;
  std::vector<std::string> languages;  // of the directions, or of all pairs
  std::vector<std::string> references;
};

OpenedSplit open_split(const EvaluateOptions& options, const std::string& data,
                       const SavedModel& saved) {
  Manifest manifest = read_manifest(data);
  check_files(data, manifest);
  if (!same_vocabularies(manifest, saved)) {
    throw CheckpointError(format(
        "the vocabulary of {} ({} pieces) differs from that of {} ({} pieces); give the text "
        "instead with --sources and --references",
        saved.path, with_commas(saved.facts.pieces), data, with_commas(manifest.vocab.size)));
  }
  if (manifest.vocab.size != saved.facts.pieces) {
    throw DataError(format("{}/manifest.json: records {} pieces but its vocabulary has {}", data,
                           with_commas(manifest.vocab.size), with_commas(saved.facts.pieces)));
  }
  auto& split = options.split == "valid" ? manifest.valid : manifest.test;
  if (!options.to.empty() && !split.empty()) {
    text_rules(saved, options.to);  // the model may not have it
    std::erase_if(split, [&](const CorpusFacts& corpus) { return corpus.to != options.to; });
    if (split.empty()) {
      throw DataError(format("{}: has no {} pairs to {}; prepare it with --{} FILE... to={}", data,
                             options.split, options.to, options.split, options.to));
    }
  }
  if (split.empty() || split[0].lines_kept == 0) {
    throw DataError(
        format("{}: has no {} pairs; prepare it with --{}, or give --sources and "
               "--references",
               data, options.split, options.split));
  }
  OpenedSplit opened;
  opened.set = open_heldout(data, manifest, options.split, saved.facts.piece_counts());
  for (const CorpusFacts& corpus : split) {
    opened.languages.push_back(corpus.to);
    opened.references.push_back(
        format("{}/{}", data, HeldoutFiles(manifest, options.split, corpus.to).target));
  }
  return opened;
}

ValidationSet read_text(const EvaluateOptions& options, SavedModel& saved) {
  ValidationSet set{.sources = read_scored_lines(options.sources),
                    .references = read_scored_lines(options.references[0])};
  check_same_length(options.sources, set.sources, options.references[0], set.references);
  const TextRules rules = text_rules(saved, options.to);
  const Cleaner cleaner(normalisation(rules), rules.source_language, rules.target_language,
                        !saved.vocabulary.cuts_text());
  auto encode_all = [&](const Lines& lines, const Vocabulary& vocabulary,
                        const std::optional<uint32_t>& tag) {
    Encoder encoder(vocabulary, rules.line_tags());
    std::vector<std::vector<uint32_t>> all;
    for (std::string line : lines) {
      cleaner.normalise(line);
      all.emplace_back();
      if (tag) all.back().push_back(*tag);
      encoder.encode(line, all.back());
      all.back().push_back(vocabulary.eos());
    }
    return all;
  };
  set.pairs.sources = encode_all(set.sources, saved.vocabulary.source(), rules.tag);
  set.pairs.targets = encode_all(set.references, saved.vocabulary, std::nullopt);
  return set;
}

// The model has no probability for a pair that is longer than its maximum length.
EncodedPairs short_enough(const EncodedPairs& pairs, int64_t longest) {
  EncodedPairs shorter;
  for (size_t i = 0; i < pairs.sources.size(); ++i) {
    const size_t most = std::max(pairs.sources[i].size(), pairs.targets[i].size());
    if (most > static_cast<size_t>(longest)) continue;
    shorter.sources.push_back(pairs.sources[i]);
    shorter.targets.push_back(pairs.targets[i]);
    if (pairs.directions > 0) shorter.direction.push_back(pairs.direction[i]);
  }
  shorter.directions = pairs.directions;
  if (shorter.sources.size() < pairs.sources.size()) {
    log_warning(
        format("pairs longer than the model's maximum of {} tokens, translated in fragments and "
               "left out of the loss: {} of {}",
               longest, pairs.sources.size() - shorter.sources.size(), pairs.sources.size()));
  }
  return shorter;
}

Lines translate_lines(const PlacedModel& placed, SavedModel& saved, const Lines& sources,
                      const std::string& to, const DecodeOptions& options) {
  Translator translator(placed.opened.device, *saved.model, placed.weights.view(), saved.vocabulary,
                        text_rules(saved, to), options);
  Progress progress("translate", sources.size(), "sentences");
  Lines lines;
  for (auto& found : translator.translate(sources, [&](size_t done) { progress.set(done); })) {
    lines.push_back(std::move(found[0].text));
  }
  return lines;
}

// Each direction by itself, in the order of the set.
Lines translate_set(const PlacedModel& placed, SavedModel& saved, const ValidationSet& set,
                    const std::vector<std::string>& languages, const DecodeOptions& options) {
  if (set.directions.empty()) {
    return translate_lines(placed, saved, set.sources, languages.front(), options);
  }
  Lines lines(set.sources.size());
  for (uint32_t d = 0; d < set.directions.size(); ++d) {
    Lines sources;
    std::vector<size_t> places;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (set.pairs.direction[i] != d) continue;
      sources.push_back(set.sources[i]);
      places.push_back(i);
    }
    Lines found = translate_lines(placed, saved, sources, languages[d], options);
    for (size_t i = 0; i < found.size(); ++i) lines[places[i]] = std::move(found[i]);
  }
  return lines;
}

}  // namespace

Lines of_direction(const EvaluationMaterial& material, uint32_t direction, const Lines& lines) {
  Lines own;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (material.direction[i] == direction) own.push_back(lines[i]);
  }
  return own;
}

Lines read_scored_lines(const std::string& path) {
  LineReader reader(path);
  Lines lines;
  size_t repaired = 0;
  for (std::string line; reader.next(line);) {
    if (line.size() > kMaxLineBytes) {
      throw DataError(
          format("{}: line {} is longer than the limit of {} bytes; shorten or remove it", path,
                 reader.lines(), with_commas(kMaxLineBytes)));
    }
    if (!is_valid_utf8(line)) {
      line = repair_utf8(line);
      ++repaired;
    }
    lines.push_back(line);
  }
  if (lines.empty())
    throw DataError(format("{} is empty; give a file with at least one line", path));
  if (repaired > 0) {
    log_warning(format("{}: {} not valid UTF-8; bad bytes count as U+FFFD", path,
                       repaired == 1 ? "1 line is" : with_commas(repaired) + " lines are"));
  }
  return lines;
}

void check_same_length(const std::string& path, const Lines& lines, const std::string& other_path,
                       const Lines& other) {
  if (lines.size() == other.size()) return;
  throw DataError(format("{} has {} but {} has {}; they must match line by line", path,
                         counted(lines.size(), "line"), other_path, with_commas(other.size())));
}

EvaluationMaterial translate_material(const EvaluateOptions& options) {
  SavedModel saved = load_model(options.model);
  const PlacedModel placed(saved, options.device, static_cast<int>(options.threads));
  std::optional<LineOutput> output;  // fails before the work
  if (!options.output.empty()) output.emplace(options.output);
  EvaluationMaterial material;
  material.name = saved.path;
  ValidationSet set;
  std::vector<std::string> languages = {options.to};
  if (options.sources.empty()) {
    OpenedSplit split = open_split(options, data_of(options, saved), saved);
    set = std::move(split.set);
    languages = std::move(split.languages);
    material.reference_names = std::move(split.references);
    material.directions = set.directions;
    material.direction = set.pairs.direction;
  } else {
    set = read_text(options, saved);
    material.reference_names = options.references;
  }
  material.references = {set.references};
  for (size_t i = 1; i < options.references.size(); ++i) {
    material.references.push_back(read_scored_lines(options.references[i]));
    check_same_length(options.references[i], material.references[i], options.references[0],
                      set.references);
  }
  const EncodedPairs pairs = short_enough(set.pairs, saved.facts.model.max_length);
  const PairsLoss loss = loss_of(placed.opened.device, *saved.model, placed.weights.view(), pairs,
                                 saved.vocabulary.bos(), kLossTokens);
  if (loss.tokens > 0) material.loss = loss;
  material.hypotheses = translate_set(placed, saved, set, languages, options.decode);
  if (output) {
    for (const auto& line : material.hypotheses) output->write(line + "\n");
    output->close();
  }
  return material;
}

double exact_match(const EvaluationMaterial& material) {
  size_t equal = 0;
  for (size_t i = 0; i < material.hypotheses.size(); ++i) {
    equal += material.hypotheses[i] == material.references[0][i] ? 1 : 0;
  }
  return 100.0 * static_cast<double>(equal) /
         static_cast<double>(std::max<size_t>(1, material.hypotheses.size()));
}

}  // namespace reigen
