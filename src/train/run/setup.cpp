#include "train/run/setup.h"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/machine.h"
#include "base/terminal.h"
#include "config/recipe.h"
#include "config/yaml.h"
#include "device/gpu.h"
#include "dist/compress/compressor.h"
#include "model/activation_memory.h"
#include "ops/backend.h"
#include "optim/muon_plan.h"
#include "plan/compute_probe.h"

namespace reigen {
namespace {

// Code, libraries, threads' stacks and the matrix library's own buffers: runs of models with almost
// no parameters peak at 37 to 55 MB, and wider matrices need larger buffers.
constexpr uint64_t kProgramBytes = 100'000'000;
constexpr uint64_t kMegabyte = 1'000'000;
// Larger micro-batches gain nothing on a CPU: `small` trains at 2,881 target tokens/s in
// micro-batches of 512 target tokens, 3,009 in 1,024, 3,072 in 2,048 and 3,098 in 4,096.
constexpr uint64_t kMostMicroTokens = 4096;

// A GPU takes whole batches; with this many tokens every index is below 2^31.
constexpr uint64_t kMostGpuMicroTokens = 400'000;
// Scratch of operations, the matrix library's workspace, sums over tokens, staged batches.
constexpr uint64_t kGpuProgramBytes = 300'000'000;

uint32_t longest_target(const std::vector<CorpusFacts>& corpora) {
  uint32_t longest = 0;
  for (const auto& corpus : corpora) longest = std::max(longest, corpus.target.lengths.longest());
  return longest + 1;  // the end of the sentence
}

uint32_t longest_source(const std::vector<CorpusFacts>& corpora) {
  uint32_t longest = 0;
  for (const auto& corpus : corpora) longest = std::max(longest, corpus.source.lengths.longest());
  return longest + 1;
}

// `instead`: what to do if the model cannot accept more.
void check_lengths(const TrainOptions& options, const char* split,
                   const std::vector<CorpusFacts>& corpora, const std::string& instead) {
  const uint32_t longest = std::max(longest_source(corpora), longest_target(corpora));
  if (longest <= options.model.max_length) return;
  throw DataError(
      format("{}: the longest sentence of {} has {} tokens but the model accepts {}; set "
             "--model.max-length {} or {}",
             options.data, split, longest, options.model.max_length, longest, instead));
}

std::optional<ValidationSet> open_valid(const TrainOptions& options, const Manifest& manifest,
                                        const PieceCounts& pieces) {
  if (manifest.valid.empty() || manifest.valid[0].lines_kept == 0) {
    if (options.eval.patience > 0) {
      throw DataError(
          format("{}: eval.patience is {} but the dataset has no validation pairs; prepare it with "
                 "--valid",
                 options.data, options.eval.patience));
    }
    log_warning(
        format("{}: the dataset has no validation pairs, so the run has no evaluations and no best "
               "checkpoint; prepare it with --valid",
               options.data));
    return std::nullopt;
  }
  check_lengths(options, "the validation set", manifest.valid, "leave out longer validation pairs");
  return in_turn(open_heldout(options.data, manifest, "valid", pieces));
}

}  // namespace

TrainOptions with_recipe(TrainOptions options) {
  if (options.recipe == Recipe::kClassic || !options.given) return options;
  CorpusSize size;
  for (const CorpusFacts& corpus : read_manifest(options.data).train) {
    const auto pairs = static_cast<double>(corpus.lines_kept);
    size.pairs += corpus.weight * pairs;
    size.target_tokens += corpus.weight * (static_cast<double>(corpus.target.pieces) + pairs);
  }
  apply_recipe(options, size);
  return options;
}

TrainingData open_data(const TrainOptions& options) {
  const Stopwatch watch;
  Manifest manifest = read_manifest(options.data);
  check_files(options.data, manifest);
  if (manifest.train_pairs() == 0) {
    throw DataError(format("{}: the dataset has no training pairs", options.data));
  }
  check_lengths(options, "the training set", manifest.train,
                format("prepare the data with --max-pieces {}", options.model.max_length - 1));
  Vocabulary vocabulary = open_vocabulary(options.data, manifest);
  const PieceCounts pieces = vocabulary.pieces();
  TrainingData data{.manifest = manifest,
                    .fingerprint = sha256_of_file(options.data + "/manifest.json"),
                    .vocabulary = std::move(vocabulary),
                    .train = Dataset(options.data, manifest.train, pieces),
                    .valid = open_valid(options, manifest, pieces)};
  for (const auto& file : manifest.files()) {
    if (file.file.ends_with(".shard")) data.bytes += file.bytes;
  }
  data.seconds = watch.seconds();
  return data;
}

namespace {

// Parameters, gradient and two moments, and a checkpoint's copy of all but the gradient. With
// sharded moments, on ranks that write no checkpoint: parameters, gradient and the rank's shards.
// The average of the parameters is one more buffer, and one more of a checkpoint.
uint64_t state_bytes(const TrainOptions& options, const Transformer& model, int moment_shards) {
  const uint64_t elements = model.layout().elements();
  const uint64_t average = options.ema_decay > 0 ? elements : 0;
  if (moment_shards <= 1) return sizeof(float) * (7 * elements + 2 * average);
  const uint64_t own = elements / static_cast<uint64_t>(moment_shards);
  return sizeof(float) * (2 * elements + 2 * own + average);
}

// For compression that is computed on the host: the residual, the collected residual and a
// checkpoint's copy of it, and the next residual in an elastic job; as much for the weights of the
// last outer step (local steps), and the residual of their warm-up.
uint64_t worker_bytes(const TrainOptions& options, const Transformer& model) {
  const CompressSetting& compress = options.workers.compress;
  if (!computed_on_host(compress)) return 0;
  const bool more = compress.method == CompressMethod::kLocal || options.workers.elastic;
  const uint64_t buffers = more ? 4 : 3;
  return buffers * sizeof(float) * model.layout().elements();
}

uint64_t muon_host_bytes(const TrainOptions& options, const Transformer& model, int threads) {
  return muon_cpu_scratch_bytes(muon_plan(model.layout(), options.optimizer).matrices, threads);
}

// A new run with --precision auto may choose bf16 (plan/compute_probe.h).
uint64_t bf16_bytes(const TrainOptions& options, const TrainingData& data, uint64_t before,
                    const OpenedDevice& opened) {
  const bool automatic = before == 0 && options.device.precision == Precision::kAuto &&
                         options.model.width >= kLeastWidthOfBf16 && cpu_has_bf16();
  if (opened.precision != Precision::kBf16 && !automatic) return 0;
  return bf16_copies_bytes(options.model, data.vocabulary.size(), kMostMicroTokens,
                           opened.device.threads());
}

MemoryPlan cpu_plan(const TrainOptions& options, const Transformer& model, const TrainingData& data,
                    uint64_t before, const OpenedDevice& opened, const MemorySharing& sharing) {
  return {.budget = options.memory > 0 ? options.memory : available_memory() / 2,
          .fixed = state_bytes(options, model, sharing.moment_shards) +
                   worker_bytes(options, model) +
                   muon_host_bytes(options, model, opened.device.threads()) +
                   bf16_bytes(options, data, before, opened) + data.bytes + kProgramBytes,
          .micro_tokens = kMostMicroTokens};
}

// NCCL's buffers, where the GPUs of several workers use it.
uint64_t nccl_bytes(const TrainOptions& options, const MemorySharing& sharing) {
  constexpr uint64_t kNcclBytes = 512 << 20;
  const bool direct =
      sharing.workers > 1 && sharing.on_gpu == 1 && options.workers.transport != Transport::kTcp;
  return direct ? kNcclBytes : 0;
}

uint64_t muon_bytes(const TrainOptions& options, const Transformer& model, DType type) {
  return muon_scratch_bytes(muon_plan(model.layout(), options.optimizer).matrices, type);
}

MemoryPlan gpu_plan(const TrainOptions& options, const Transformer& model,
                    const OpenedDevice& opened, const MemorySharing& sharing) {
  const uint64_t copy = opened.type == DType::kF32 ? 0 : size_of(opened.type);
  const uint64_t available =
      opened.device.gpu()->free_memory() / static_cast<uint64_t>(sharing.on_gpu);
  if (options.memory > available) {
    throw ConfigError(format("--memory {} is more than the {} that are free on {}; lower it",
                             human_bytes(options.memory), human_bytes(available),
                             opened.device.gpu()->facts().name));
  }
  return {.budget = options.memory > 0 ? options.memory : available / 10 * 9,
          .fixed = state_bytes(options, model, 1) + copy * model.layout().elements() +
                   nccl_bytes(options, sharing) + muon_bytes(options, model, opened.type) +
                   kGpuProgramBytes,
          .micro_tokens = kMostGpuMicroTokens};
}

}  // namespace

MemoryPlan plan_memory(const TrainOptions& options, const Transformer& model,
                       const TrainingData& data, uint64_t before, const OpenedDevice& opened,
                       const MemorySharing& sharing) {
  const bool gpu = opened.device.kind() == DeviceKind::kGpu;
  MemoryPlan plan = gpu ? gpu_plan(options, model, opened, sharing)
                        : cpu_plan(options, model, data, before, opened, sharing);
  const ActivationBytes bytes =
      activation_bytes(options.model, data.vocabulary.size(),
                       gpu ? gpu_activations(options.model, opened.type) : ActivationShape());
  const uint64_t longest =
      uint64_t{longest_source(data.manifest.train)} + longest_target(data.manifest.train);
  const double left = static_cast<double>(plan.budget) - static_cast<double>(plan.fixed);
  const uint64_t most = bytes.most_tokens(left);
  if (most < longest && (before == 0 || options.memory > 0)) {
    const auto pair = static_cast<uint64_t>(bytes.of_any(longest));
    throw ConfigError(
        format("a memory budget of {} is too little: the model and data need {} and the longest "
               "pair {} more; raise --memory to {}MB, or use a smaller model",
               human_bytes(plan.budget), human_bytes(plan.fixed), human_bytes(pair),
               (plan.fixed + pair) / kMegabyte + 1));
  }
  if (options.micro_tokens > 0) plan.micro_tokens = static_cast<uint64_t>(options.micro_tokens);
  if (before > 0) plan.micro_tokens = before;
  // A resumed run changes its micro-batches only for --memory, not because more or less memory is
  // free than at its start.
  if (before == 0 || options.memory > 0) plan.micro_tokens = std::min(plan.micro_tokens, most);
  if (before > 0 && plan.micro_tokens != before) {
    log_warning(
        format("micro-batches have {} tokens now, not {} as before, to fit --memory: the run "
               "resumes, but its results will differ in rounding",
               plan.micro_tokens, before));
  }
  return plan;
}

TrainState first_state(const Transformer& model, uint64_t seed) {
  TrainState state;
  const size_t n = model.layout().elements();
  state.parameters.resize(n);
  state.first_moment.resize(n);
  state.second_moment.resize(n);
  model.initialise(state.parameters, seed);
  return state;
}

namespace {

// A good checkpoint that these options or this dataset do not belong to: no reason to take an older
// one.
struct DifferentRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void check_same_run(const std::string& checkpoint, const CheckpointFacts& facts,
                    const TrainingData& data, const TrainOptions& options) {
  const Json& training = facts.training;
  if (!training.contains("data") || !training.contains("options")) {
    throw DifferentRun(
        format("{}: was not written by `reigen train` and cannot be resumed; move it elsewhere",
               checkpoint));
  }
  const PieceCounts pieces = data.vocabulary.pieces();
  if (facts.pieces != pieces.target || facts.piece_counts().source != pieces.source) {
    throw DifferentRun(format(
        "{} was trained with a vocabulary of {} pieces but {} has {}; give the run's own "
        "--data, or a different --run",
        options.run, with_commas(facts.pieces), options.data, with_commas(data.vocabulary.size())));
  }
  if (training.at("data") != data.fingerprint) {
    throw DifferentRun(
        format("{} was trained on a different dataset than {} (the manifests differ); give the "
               "run's own --data, or a different --run",
               options.run, options.data));
  }
  const auto changes = changed_settings(training.at("options"), options);
  if (!changes.empty()) {
    throw DifferentRun(
        format("{} cannot be resumed with different settings: {}; use the recorded values, or a "
               "different --run",
               options.run, fmt::join(changes, "; ")));
  }
}

}  // namespace

std::optional<TrainState> resume_state(const RunDirectory& run, const Transformer& model,
                                       const TrainingData& data, const TrainOptions& options) {
  const std::vector<uint64_t> steps = run.checkpoints();
  if (steps.empty() && run.linked("last")) {
    throw CheckpointError(format(
        "{}: its checkpoints are missing; restore them, or move the run aside to start a new "
        "one",
        run.path()));
  }
  std::vector<uint64_t> unreadable;
  std::string first_error;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const std::string path = run.checkpoint(*step);
    TrainState state;
    try {
      const CheckpointFacts facts = read_checkpoint_facts(path);
      check_same_run(path, facts, data, options);
      state = read_state(path, model.layout());
    } catch (const DifferentRun& e) {
      throw CheckpointError(e.what());
    } catch (const Interrupted&) {
      throw;
    } catch (const std::bad_alloc&) {  // says nothing about the checkpoint
      throw;
    } catch (const std::exception& e) {  // also a disk that fails, or JSON of a wrong form
      std::string text = e.what();
      if (text.find(path) == std::string::npos) text = format("{}: {}", path, text);
      log_warning(format("{}; trying the previous checkpoint", text));
      if (first_error.empty()) first_error = text;
      unreadable.push_back(*step);
      continue;
    }
    for (uint64_t later : unreadable) run.set_aside(later);
    return state;
  }
  if (steps.empty()) return std::nullopt;
  throw CheckpointError(format("{}: {} cannot be read ({}); move the run aside to start a new one",
                               run.path(), counted(steps.size(), "checkpoint"), first_error));
}

}  // namespace reigen
