// What a run needs before its first step: data, model, memory plan, and the state to start from.
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
#include "train/run/run_directory.h"

namespace reigen {

// A prepared directory as training sees it.
struct TrainingData {
  Manifest manifest;
  std::string fingerprint;  // SHA-256 of manifest.json, which covers every file
  Vocabulary vocabulary;
  Dataset train;
  std::optional<ValidationSet> valid;
  uint64_t bytes = 0;  // mapped
  double seconds = 0;  // that opening and verifying it took
};

// Throws DataError when a split is damaged, empty, or has a sentence the model cannot take.
TrainingData open_data(const TrainOptions& options);

// How much memory goes where.
struct MemoryPlan {
  uint64_t budget = 0;
  uint64_t fixed = 0;  // parameters, gradients, moments, a checkpoint's copy, data
  uint64_t micro_tokens = 0;
};

// With whom this worker shares memory, and what it has for the others.
struct MemorySharing {
  int workers = 1;
  int on_gpu = 1;         // of them, on the same GPU
  int moment_shards = 1;  // the first worker, which collects them for a checkpoint, counts as one
};

// A new run's micro-batches; `before` are those of the run that is resumed (0 for a new one), which
// are kept while a given budget allows, because the same cut gives the same bits. Throws
// ConfigError when not even the longest pair fits.
MemoryPlan plan_memory(const TrainOptions& options, const Transformer& model,
                       const TrainingData& data, uint64_t before, const OpenedDevice& opened,
                       const MemorySharing& company = {});

// The latest checkpoint that can be read; one that cannot is warned about. Nothing when there is
// none; throws CheckpointError when there are some and none can be read, or when the run's data or
// options differ from those it was begun with.
std::optional<TrainState> resume_state(const RunDirectory& run, const Transformer& model,
                                       const TrainingData& data, const TrainOptions& options);

TrainState first_state(const Transformer& model, uint64_t seed);

}  // namespace reigen
