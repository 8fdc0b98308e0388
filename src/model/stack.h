// One side of a Transformer: sublayers joined by seams, pre-norm or post-norm.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/blocks.h"

namespace reigen {

// One step of decoding for all layers of a decoder; model/incremental.h owns the memory behind it.
struct DecodeStep {
  std::span<const Tensor> self_caches;   // a layer's [rows, 2 d]: keys, values
  std::span<const Tensor> cross_caches;  // a layer's [source tokens, 2 d]: keys, values
  KeyLists ancestors;                    // rows of the self caches, this step's own last
  KeyLists sources;                      // rows of the cross caches
};

class LayerStack {
 public:
  // A decoder has cross-attention and causal self-attention. Dropout sites count up from
  // `first_site`.
  LayerStack(ParameterLayout& layout, const std::string& name, const ModelOptions& options,
             const DropoutOptions& dropout, int64_t layers, bool decoder, uint32_t first_site);

  // `memory` is the encoder's output; unused without cross-attention.
  Tensor forward(const Pass& pass, Tensor x, const SideIndex& side, Tensor memory);

  // Forward for inference: the same result; x is overwritten and temporaries are one sublayer's.
  Tensor infer(const Pass& pass, Tensor x, const SideIndex& side);

  // Decoding: one new token per row; project_memory() first, once per batch of sources.
  Tensor step(const Pass& pass, Tensor x, const DecodeStep& at);
  void project_memory(const Pass& pass, Tensor memory, std::span<const Tensor> cross_caches) const;

  // From the gradient of the output to that of the input; writes the memory's gradient to dmemory.
  // Calls `ready(n)` after each layer: the first n elements of the gradient are final. Tied tables
  // get further terms later and therefore stand last in the layout.
  Tensor backward(const Pass& pass, Tensor dout, Tensor dmemory,
                  const std::function<void(size_t)>& ready);

  // Elements of all layers; of the top layer, whose gradients are final first; and the offset of
  // the bottom layer in the layout.
  size_t elements() const { return layers_.front().end - begin_; }
  size_t top_elements() const { return layers_.back().end - begin_; }
  size_t bottom_begin() const { return layers_.size() > 1 ? layers_[1].end : begin_; }

 private:
  struct Layer {
    std::vector<AttentionLayer> attention;  // self, and cross in a decoder
    std::vector<FeedForward> feed_forward;  // one
    size_t end = 0;                         // of its parameters in the layout
  };
  size_t sublayers() const { return layers_.size() * (decoder_ ? 3 : 2); }
  template <class Sublayer>
  Tensor infer_with(const Pass& pass, Tensor x, Sublayer sublayer);
  void sublayer_forward(const Pass& pass, size_t index, Tensor x, const SideIndex& side,
                        Tensor memory, Tensor out);
  void sublayer_step(const Pass& pass, size_t index, Tensor x, const DecodeStep& at, Tensor out);
  void sublayer_backward(const Pass& pass, size_t index, Tensor dy, Tensor dx, bool accumulate,
                         Tensor dmemory);
  size_t output_bias(size_t index) const;

  bool decoder_;
  bool post_;
  size_t begin_;               // in the layout
  std::vector<Layer> layers_;  // layers_[0] is nearest to the input
  // Pre-norm: seams_[i] norms the input of sublayer i, the last seam the stack's output. Post-norm:
  // seams_[i] norms the output of sublayer i.
  std::vector<Seam> seams_;
};

}  // namespace reigen
