// The translation Transformer: its parameters in the order backward finishes them, forward and
// backward over a packed batch.
//
// Gradients are sums over target tokens times `loss_scale`; with 1 / (target tokens of the global
// batch) an uneven split over micro-batches or workers changes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "config/model_options.h"
#include "data/batches.h"
#include "device/device.h"
#include "model/blocks.h"
#include "ops/embed.h"
#include "ops/projection_loss.h"
#include "tensor/arena.h"
#include "tensor/parameters.h"
#include "text/piece_counts.h"

namespace reigen {

class LayerStack;

class Transformer {
 public:
  // With two vocabularies the source has a table of its own, and `model.tied` ties the target's to
  // the projection.
  Transformer(const ModelOptions& options, const DropoutOptions& dropout,
              const PieceCounts& pieces);
  ~Transformer();
  Transformer(Transformer&&) noexcept;

  const ParameterLayout& layout() const { return layout_; }
  const ModelOptions& options() const { return options_; }
  size_t vocabulary() const;  // of the target
  // Whether a slice is the weight of a product.
  bool is_factor(size_t slice) const;

  // The piece that a translation begins with. A search of a model with an output bias never emits
  // it: in Marian's models its logit is meaningless.
  void set_start_piece(uint32_t piece) { start_piece_ = piece; }
  std::span<const float> sinusoids() const {
    return sinusoids_;
  }  // empty when positions are learned

  // Weights uniform within 1 / sqrt(inputs), embeddings normal with 1 / sqrt(width), gains 1,
  // biases 0; a pure function of the seed.
  void initialise(std::span<float> parameters, uint64_t seed) const;

  // The batch in the device's memory; may be built on another thread (ops/batch_index.h). Throws
  // DataError for a sentence longer than model.max-length.
  std::unique_ptr<BatchIndex> index(const Device& device, const PackedBatch& batch,
                                    DType type = DType::kF32) const;

  struct StepInput {
    const PackedBatch& batch;
    uint64_t seed = 0;
    uint64_t step = 0;
    float loss_scale = 1;
    float smoothing = 0;
    const BatchIndex* index = nullptr;  // of the batch, if it was built before
    LossSums* sums = nullptr;           // on a GPU: accumulates the loss there, without a wait
  };
  // Callbacks during a step; each may be empty.
  struct StepEvents {
    std::function<void()> forward_done;
    // Projection and loss, forward and backward in one; with the sums that are returned.
    std::function<void(const LossSums&)> loss_done;
    std::function<void(size_t)> ready;  // the first n elements of the gradient are final
  };
  // Adds to `gradients`; gradients, weights and arena are in the device's memory. On a GPU the step
  // queue owns the loss scale (ops/gpu_step.h), and events are called when work has been enqueued.
  LossSums forward_backward(const Device& device, const StepInput& input, const Weights& weights,
                            std::span<float> gradients, Arena& arena,
                            const StepEvents& events = {});

  // The loss alone, without dropout. `token_nll` gets that of each target token.
  LossSums evaluate(const Device& device, const PackedBatch& batch, const Weights& weights,
                    float smoothing, Arena& arena, std::vector<float>* token_nll = nullptr);

 private:
  friend class IncrementalDecoder;  // runs the same stacks one token at a time
  Tensor positions(const Pass& pass) const;
  Tensor embed(const Pass& pass, const SideIndex& side, size_t table, uint32_t site) const;
  void embed_gradient(const Pass& pass, const SideIndex& side, size_t table, uint32_t site,
                      Tensor dout) const;
  IndexShape index_shape(DType type) const;
  EmbedInput embed_input(const Pass& pass, const SideIndex& side, uint32_t site) const;
  Tensor encode(const Pass& pass);  // for inference
  Tensor run_forward(const Pass& pass);
  void run_backward(const Pass& pass, Tensor dhidden, const std::function<void(size_t)>& on_ready);
  void check_lengths(const PackedBatch& batch) const;

  ModelOptions options_;
  DropoutOptions dropout_;
  ParameterLayout layout_;
  std::unique_ptr<LayerStack> decoder_;
  std::unique_ptr<LayerStack> encoder_;
  uint32_t start_piece_ = UINT32_MAX;
  size_t output_bias_ = kNone;
  size_t projection_ = kNone;  // embedding tables; one and the same when tied
  size_t source_table_ = kNone;
  size_t target_table_ = kNone;
  size_t learned_positions_ = kNone;
  std::vector<float> sinusoids_;  // [max_length, width]
};

}  // namespace reigen
