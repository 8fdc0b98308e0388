#include "model/saved_model.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/terminal.h"
#include "base/thread.h"
#include "device/gpu.h"

namespace reigen {
namespace {

Vocabulary load_vocabulary(const std::string& directory, const CheckpointFacts& facts) {
  std::vector<std::string> names;
  for (const CheckpointFile& file : vocabulary_files(facts, directory)) {
    verify_checkpoint_file(directory, file);
    names.push_back(file.file);
  }
  Vocabulary vocabulary = Vocabulary::load_from(directory, names);
  auto check_size = [&](uint64_t found, uint64_t recorded) {
    if (found == recorded) return;
    throw CheckpointError(format("{}/{}: has {} pieces but the model was trained with {}",
                                 directory, names.back(), with_commas(found),
                                 with_commas(recorded)));
  };
  const PieceCounts pieces = vocabulary.pieces();
  check_size(pieces.target, facts.pieces);
  check_size(pieces.joint ? 0 : pieces.source, facts.source_pieces);
  return vocabulary;
}

}  // namespace

std::string resolve_checkpoint(const std::string& run_or_checkpoint) {
  if (!is_directory(run_or_checkpoint)) {
    throw CheckpointError(
        format("{}: is not a directory; give a run or a checkpoint in it", run_or_checkpoint));
  }
  if (is_checkpoint(run_or_checkpoint)) return run_or_checkpoint;
  for (const char* name : {"best-bleu", "best-loss", "last"}) {
    const std::string path = run_or_checkpoint + "/" + name;
    if (is_checkpoint(path)) return path;
    if (std::filesystem::is_symlink(path)) {
      log_warning(format(
          "{}: the checkpoint it links to is missing or incomplete; trying the next one", path));
    }
  }
  throw CheckpointError(format(
      "{}: is neither a checkpoint nor a run that has one (looked for best-bleu, best-loss, last)",
      run_or_checkpoint));
}

SavedModel load_model(const std::string& run_or_checkpoint) {
  const std::string path = resolve_checkpoint(run_or_checkpoint);
  CheckpointFacts facts = read_checkpoint_facts(path);
  Vocabulary vocabulary = load_vocabulary(path, facts);
  const std::string tensors = facts.use_average ? kAverageFile : "model.safetensors";
  verify_checkpoint_file(path, find_file(facts, path, tensors));
  auto model = std::make_unique<Transformer>(facts.model, DropoutOptions{}, facts.piece_counts());
  if (vocabulary.bos() != vocabulary.eos()) model->set_start_piece(vocabulary.bos());
  check_parameter_count(facts, path, model->layout());
  SavedModel saved{path, std::move(facts), std::move(vocabulary), std::move(model), {}, nullptr};
  if (saved.facts.quantized) {
    saved.quantized =
        std::make_unique<QuantizedParameters>(saved.model->layout(), path + "/" + tensors);
  } else {
    saved.parameters.resize(saved.model->layout().elements());
    read_buffer(path + "/" + tensors, saved.model->layout(), "", saved.parameters);
  }
  return saved;
}

TextRules text_rules(const SavedModel& saved, const std::string& to) {
  const CheckpointFacts& facts = saved.facts;
  TextRules rules = {.source_language = facts.source_language,
                     .target_language = facts.target_language,
                     .nfkc = facts.nfkc,
                     .whitespace = facts.whitespace};
  const std::vector<std::string>& known = facts.target_languages;
  if (known.empty()) {
    if (to.empty()) return rules;
    throw ConfigError(
        format("--to {}: {} has no choice of languages, it translates to {}; leave "
               "out --to",
               to, saved.path, facts.target_language));
  }
  const std::string list = format("{}", fmt::join(known, ", "));
  if (to.empty() && saved.vocabulary.source().takes_tags_of_lines()) return rules;
  if (to.empty() && known.size() > 1) {
    throw ConfigError(
        format("{}: translates to several languages; choose one with --to: {}", saved.path, list));
  }
  rules.target_language = to.empty() ? known[0] : to;
  rules.tag = saved.vocabulary.source().tag(rules.target_language);
  if (!rules.tag || std::find(known.begin(), known.end(), rules.target_language) == known.end()) {
    throw ConfigError(
        format("--to {}: {} does not translate to it; its languages: {}", to, saved.path, list));
  }
  return rules;
}

void require_fp32(const SavedModel& saved, const std::string& use) {
  if (saved.quantized == nullptr) return;
  throw CheckpointError(
      format("{}: its weights are int8 and cannot be {}; give the checkpoint that it was quantised "
             "from",
             saved.path, use));
}

namespace {

OpenedDevice checked(const SavedModel& saved, OpenedDevice opened) {
  check_model_for(opened.device, saved.facts.model);
  return opened;
}

DeviceWeights placed_weights(SavedModel& saved, const OpenedDevice& opened) {
  const Device& device = opened.device;
  if (saved.quantized) return {device, *saved.model, *saved.quantized, opened.type};
  return {device, *saved.model, saved.parameters, opened.type};
}

}  // namespace

PlacedModel::PlacedModel(SavedModel& saved, const DeviceOptions& options, int threads)
    : PlacedModel(saved, open_device(options, threads)) {}

PlacedModel::PlacedModel(SavedModel& saved, OpenedDevice device)
    : opened(checked(saved, std::move(device))), weights(placed_weights(saved, opened)) {
  weights.pack(opened.device, *saved.model);
}

DeviceOpening::DeviceOpening(const DeviceOptions& options, int threads,
                             std::function<void(const OpenedDevice&)> work)
    : thread_(thread_without_signals([this, options, threads, work = std::move(work)] {
        try {
          opened_ = open_device(options, threads);
          if (work) work(*opened_);
        } catch (...) {
          error_ = std::current_exception();
        }
      })) {}

DeviceOpening::~DeviceOpening() {
  if (thread_.joinable()) thread_.join();
}

OpenedDevice DeviceOpening::take() {
  thread_.join();
  if (error_) std::rethrow_exception(error_);
  // Both are properties of a thread.
  if (const Gpu* gpu = opened_->device.gpu()) {
    gpu->make_current();
  } else {
    opened_->device.use_threads();
  }
  return std::move(*opened_);
}

}  // namespace reigen
