// A trained model loaded for use, from a checkpoint or from a run's best checkpoint.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "model/checkpoint.h"
#include "model/open_device.h"
#include "model/quantized_parameters.h"
#include "model/transformer.h"

namespace reigen {

struct SavedModel {
  std::string path;  // of the checkpoint
  CheckpointFacts facts;
  Vocabulary vocabulary;
  std::unique_ptr<Transformer> model;
  std::vector<float> parameters;  // empty where they are quantised
  std::unique_ptr<QuantizedParameters> quantized;
};

// The form of text for translations to a language; empty: the only one. Throws ConfigError where
// the model has several and none is named, or not the named one. A model that takes tags of lines
// needs no name. Without `to` in a model without tags it is a copy of its facts.
TextRules text_rules(const SavedModel& saved, const std::string& to = {});

// Throws CheckpointError for a quantised model. `use` is what needs fp32: "averaged".
void require_fp32(const SavedModel& saved, const std::string& use);

// A saved model with its weights on a device. `saved` must outlive it.
struct PlacedModel {
  PlacedModel(SavedModel& saved, const DeviceOptions& options, int threads);
  PlacedModel(SavedModel& saved, OpenedDevice device);
  OpenedDevice opened;
  DeviceWeights weights;
};

// The path itself if it is a checkpoint, otherwise the run's best-bleu, best-loss or last, in this
// order. Throws CheckpointError when there is none.
std::string resolve_checkpoint(const std::string& run_or_checkpoint);

SavedModel load_model(const std::string& run_or_checkpoint);

// Opens a device on a thread of its own, which takes a fraction of a second for a GPU, while the
// caller loads a model; then calls `work`, if it is not empty.
class DeviceOpening {
 public:
  DeviceOpening(const DeviceOptions& options, int threads,
                std::function<void(const OpenedDevice&)> work = {});
  ~DeviceOpening();
  OpenedDevice take();  // waits; throws the errors of open_device() and of `work`

 private:
  std::optional<OpenedDevice> opened_;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace reigen
