// Before the first step of a run: its data, its memory plan, and the state to start from.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "config/train_options.h"
#include "data/dataset.h"
#include "data/manifest.h"
#include "eval/validation.h"
#include "model/open_device.h"
#include "model/transformer.h"
#include "optim/state.h"
#include "train/directory/run_directory.h"

namespace reigen {

// The options with the choices of the recipe, which depend on the size of the dataset.
TrainOptions with_recipe(TrainOptions options);

// A dataset, opened and verified.
struct TrainingData {
  Manifest manifest;
  std::string fingerprint;  // SHA-256 of manifest.json, which covers every file
  Vocabulary vocabulary;
  Dataset train;
  std::optional<ValidationSet> valid;
  uint64_t bytes = 0;  // mapped into memory
  double seconds = 0;  // spent on opening and verifying
};

// Throws DataError when a split is damaged, empty, or has a sentence longer than the model accepts.
TrainingData open_data(const TrainOptions& options);

// The memory budget of a worker, in bytes, and the largest micro-batch that fits.
struct MemoryPlan {
  uint64_t budget = 0;
  uint64_t fixed = 0;  // parameters, gradients, moments, a checkpoint's copy, data
  uint64_t micro_tokens = 0;
};

// How many workers share this host's and this GPU's memory.
struct MemorySharing {
  int workers = 1;
  int on_gpu = 1;         // workers on the same GPU
  int moment_shards = 1;  // 1 on rank 0, which collects all moments for a checkpoint
};

// The size of micro-batches within the memory budget. `before`: that of the run that is resumed, 0
// for a new run. It stays unless --memory is too small for it, because equal micro-batches give
// equal bits. Throws ConfigError when the longest pair does not fit.
MemoryPlan plan_memory(const TrainOptions& options, const Transformer& model,
                       const TrainingData& data, uint64_t before, const OpenedDevice& opened,
                       const MemorySharing& sharing = {});

// The state in the latest checkpoint that can be read, with a warning for each that cannot; none
// for a new run. Throws CheckpointError when no checkpoint can be read, or when data or options
// differ from those of the run.
std::optional<TrainState> resume_state(const RunDirectory& run, const Transformer& model,
                                       const TrainingData& data, const TrainOptions& options);

TrainState first_state(const Transformer& model, uint64_t seed);

}  // namespace reigen
