// One side of a Transformer: sublayers joined by seams, pre-norm or post-norm.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/blocks.h"

namespace reigen {

class LayerStack {
 public:
  // A decoder has cross-attention and looks only back. Dropout sites count up from `first_site`.
  LayerStack(ParameterLayout& layout, const std::string& name, const ModelOptions& options,
             const DropoutOptions& dropout, int64_t layers, bool decoder, uint32_t first_site);

  // `memory` and `other` are the encoder's output and side; unused without cross-attention.
  Tensor forward(const Pass& pass, Tensor x, const Side& side, Tensor memory, const Side& other);

  // From the gradient of the output to that of the input. Adds the memory's to dmemory. Calls
  // `ready(n)` after each layer: the first n elements of the gradient are complete, except that
  // tied tables have parts still to come and stand last for that reason.
  Tensor backward(const Pass& pass, Tensor dout, Tensor dmemory,
                  const std::function<void(size_t)>& ready);

 private:
  struct Layer {
    std::vector<AttentionLayer> attention;  // self, and cross in a decoder
    std::vector<FeedForward> feed_forward;  // one
    size_t end = 0;                         // of its parameters in the layout
  };
  size_t sublayers() const { return layers_.size() * (decoder_ ? 3 : 2); }
  Tensor sublayer_forward(const Pass& pass, size_t index, Tensor x, const Side& side, Tensor memory,
                          const Side& other);
  void sublayer_backward(const Pass& pass, size_t index, Tensor dy, Tensor dx, bool accumulate,
                         Tensor dmemory);
  size_t output_bias(size_t index) const;

  bool decoder_;
  bool post_;
  std::vector<Layer> layers_;  // layers_[0] is nearest to the input
  // Pre-norm: seams_[i] norms the input of sublayer i, the last one the output. Post-norm:
  // seams_[i] norms what sublayer i gave.
  std::vector<Seam> seams_;
};

}  // namespace reigen
