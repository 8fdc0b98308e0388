#include "train/run/starting_point.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/json/json_view.h"
#include "base/terminal.h"
#include "model/saved_model.h"

namespace reigen {
namespace {

// A text that `reigen train` recorded with the checkpoint; imported models have no such record.
std::optional<std::string> recorded(const CheckpointFacts& facts, const std::string& key) {
  const Json* value = value_at(facts.training, key);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->get<std::string>();
}

// Sinusoids have a value at any position, so sentences may be longer than before.
bool may_differ(const std::string& key, const ModelOptions& model) {
  return key == "max-length" && model.positions == Positions::kSinusoid;
}

bool is_of_preset(const std::string& key) {
  constexpr std::array kSizes = {"width", "heads", "ffn-width", "encoder-layers", "decoder-layers"};
  return std::find(kSizes.begin(), kSizes.end(), key) != kSizes.end();
}

// Refuses a given option of the model that is not the checkpoint's.
void check_given_model(const TrainOptions& options, const CheckpointFacts& facts) {
  if (!options.given) return;
  const Json wanted = model_json(resolve_model(options.model, options.preset));
  const Json found = model_json(facts.model);
  for (const auto& [key, value] : wanted.items()) {
    const bool given = options.given->contains("model." + key);
    const bool by_preset = options.given->contains("preset") && is_of_preset(key);
    if (!given && !by_preset) continue;
    const Json has = found.value(key, Json(false));  // an old manifest has no output-bias
    if (has == value || may_differ(key, facts.model)) continue;
    throw ConfigError(
        format("model.{} is {}{} but the model of --from {} has {}; leave {} out: a run that "
               "begins with the weights of a checkpoint has its sizes",
               key, one_line(value), given ? "" : format(" (--preset {})", options.preset),
               options.tune.from, one_line(has), given ? "it" : "--preset"));
  }
}

bool has_validation_pairs(const Manifest& manifest) {
  return !manifest.valid.empty() && manifest.valid[0].lines_kept > 0;
}

// The dataset that the starting point was trained on, if it is still there.
std::string old_data_of(const CheckpointFacts& facts, const std::string& own_data) {
  const std::optional<std::string> data = recorded(facts, "options.data");
  const std::optional<std::string> digest = recorded(facts, "data");
  if (!data || !digest) return kNoOldData;
  auto is_that_dataset = [&](const std::string& directory) {
    const std::string manifest = directory + "/manifest.json";
    return path_exists(manifest) && sha256_of_file(manifest) == *digest;
  };
  if (is_that_dataset(own_data)) return kNoOldData;
  if (!is_that_dataset(*data)) {
    log_warning(
        format("the dataset of the starting point, {}, is missing or has changed, so the run will "
               "not show what it forgets; --eval.old-data DIR names a copy of it",
               *data));
    return kNoOldData;
  }
  return has_validation_pairs(read_manifest(*data)) ? *data : kNoOldData;
}

// Checksums of the files of a vocabulary, in the order of their names.
using Digests = std::map<std::string, std::string>;

Digests vocabulary_digests(const Manifest& manifest) {
  Digests digests = {{manifest.vocab.file.file, manifest.vocab.file.sha256}};
  if (manifest.source_vocab) {
    digests.emplace(manifest.source_vocab->file.file, manifest.source_vocab->file.sha256);
  }
  return digests;
}

void check_vocabulary(const CheckpointFacts& facts, const std::string& path,
                      const TrainOptions& options) {
  Digests digests;
  for (const CheckpointFile& file : vocabulary_files(facts, path)) {
    digests.emplace(file.file, file.sha256);
  }
  if (digests == vocabulary_digests(read_manifest(options.data))) return;
  throw CheckpointError(
      format("{}: its vocabulary is not that of the dataset {}; prepare the data with --vocab {}",
             path, options.data, options.tune.from));
}

void check_optimizer(const TrainOptions& options, const SavedModel& saved) {
  const std::optional<std::string> before = recorded(saved.facts, "options.optimizer.kind");
  if (!before) {
    throw ConfigError(format(
        "--from-optimizer: {} has no optimizer state of `reigen train`; leave it out", saved.path));
  }
  const std::string now = optimizer_name(options.optimizer.kind);
  if ((*before == "muon") == (now == "muon")) return;
  throw ConfigError(
      format("--from-optimizer: the moments in {} are those of optimizer.kind {}, and the run has "
             "{}; set --optimizer.kind {}, or leave out --from-optimizer",
             saved.path, *before, now, *before));
}

void continue_optimizer(const SavedModel& saved, TrainState& state) {
  const CheckpointFile& file = find_file(saved.facts, saved.path, "optimizer.safetensors");
  verify_checkpoint_file(saved.path, file);
  read_moments(saved.path, saved.model->layout(), state);
  TrainState before;
  try {
    read_manifest_state(saved.facts.training.at("state"), before);
  } catch (const FieldError& e) {
    throw CheckpointError(
        format("{}: its training state is incomplete ({})", saved.path, e.what()));
  }
  state.counters.updates = before.counters.updates;
  state.counters.loss_scale = before.counters.loss_scale;
}

void check_tags(const SavedModel& saved, const Manifest& manifest, const std::string& data) {
  const bool model = !saved.facts.target_languages.empty();
  if (model == !manifest.target_languages.empty()) return;
  if (model && saved.vocabulary.source().takes_tags_of_lines()) return;
  throw CheckpointError(
      format("{}: its sources begin with{} the tag of a target language, unlike those of the "
             "dataset {}; prepare the data {} to=LANG",
             saved.path, model ? "" : "out", data, model ? "with" : "without"));
}

void warn_of_languages(const CheckpointFacts& facts, const TrainingData& data) {
  const bool same_target =
      !facts.target_languages.empty() || facts.target_language == data.manifest.target_language;
  if (facts.source_language == data.manifest.source_language && same_target) return;
  log_warning(format("the starting point translates {} to {}, the dataset {} to {}",
                     facts.source_language, facts.target_language, data.manifest.source_language,
                     data.manifest.target_language));
}

}  // namespace

TrainOptions with_starting_point(TrainOptions options) {
  FineTuneOptions& tune = options.tune;
  const std::string path = resolve_checkpoint(tune.from);
  const CheckpointFacts facts = read_checkpoint_facts(path);
  check_given_model(options, facts);
  check_vocabulary(facts, path, options);
  const int64_t length = options.model.max_length;
  const bool longer = options.given && options.given->contains("model.max-length");
  options.model = facts.model;
  if (longer) options.model.max_length = length;
  if (const auto preset = recorded(facts, "options.preset")) options.preset = *preset;
  if (tune.old_data.empty()) tune.old_data = old_data_of(facts, options.data);
  return options;
}

TrainState starting_state(const TrainOptions& options, const Transformer& model,
                          const TrainingData& data) {
  SavedModel saved = load_model(options.tune.from);
  require_fp32(saved, "trained");
  check_vocabulary(saved.facts, saved.path, options);
  check_tags(saved, data.manifest, options.data);
  warn_of_languages(saved.facts, data);
  TrainState state;
  const size_t n = model.layout().elements();
  state.parameters = std::move(saved.parameters);
  if (state.parameters.size() != n) {
    throw CheckpointError(format("{}: has {} parameters but the model of the run has {}",
                                 saved.path, with_commas(saved.facts.parameters),
                                 with_commas(model.layout().parameters())));
  }
  state.first_moment.resize(n);
  state.second_moment.resize(n);
  if (options.tune.optimizer) {
    check_optimizer(options, saved);
    continue_optimizer(saved, state);
  }
  state.choices.start = {std::filesystem::canonical(saved.path).string(),
                         sha256_of_file(saved.path + "/manifest.json"), saved.facts.step};
  return state;
}

bool names_dataset(const std::string& old_data) {
  return !old_data.empty() && old_data != kNoOldData;
}

std::optional<ValidationSet> open_old_valid(const TrainOptions& options, const TrainingData& own) {
  const std::string& data = options.tune.old_data;
  if (!names_dataset(data)) return std::nullopt;
  const Manifest manifest = read_manifest(data);
  if (!has_validation_pairs(manifest)) {
    throw DataError(format("eval.old-data {}: the dataset has no validation pairs", data));
  }
  if (vocabulary_digests(manifest) != vocabulary_digests(own.manifest)) {
    throw DataError(
        format("eval.old-data {}: its vocabulary is not that of {}; prepare one of them with the "
               "--vocab of the other, or set --eval.old-data {}",
               data, options.data, kNoOldData));
  }
  ValidationSet set = in_turn(open_heldout(data, manifest, "valid", own.vocabulary.pieces()));
  const auto most = static_cast<size_t>(options.model.max_length);
  for (size_t i = 0; i < set.pairs.sources.size(); ++i) {
    const size_t longest = std::max(set.pairs.sources[i].size(), set.pairs.targets[i].size());
    if (longest <= most) continue;
    throw DataError(
        format("eval.old-data {}: sentence {} of its validation set has {} tokens but the model "
               "accepts {}; set --eval.old-data {}",
               data, i + 1, longest, most, kNoOldData));
  }
  return set;
}

}  // namespace reigen
