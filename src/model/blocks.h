// The blocks of a Transformer stack: seams (residual add and norm), attention and feed-forward
// sublayers.
//
// A block knows its parameters, stores views of the activations that its backward needs, and adds
// to the gradients of its parameters. model/stack.cpp calls the blocks in order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/model_options.h"
#include "device/device.h"
#include "model/weights.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/batch_index.h"
#include "ops/cached_attention.h"
#include "ops/matmul.h"
#include "ops/residual_norm.h"
#include "tensor/arena.h"
#include "tensor/parameters.h"

namespace reigen {

// Arguments of one pass, shared by all blocks.
struct Pass {
  const Device& device;
  const ParameterLayout& layout;
  const Weights& weights;
  float* gradients;  // null when only evaluating
  Arena& arena;
  const BatchIndex* batch = nullptr;  // null while decoding a token at a time
  bool training = false;              // dropout on
  uint64_t seed = 0;
  uint64_t step = 0;

  Tensor weight(size_t index) const { return matrix_of(layout, index, weights); }
  LinearWeight factor(size_t index) const;  // a weight of a product
  Int8Matrix int8(size_t index) const;      // a matrix in int8, or empty
  Tensor vector(size_t index) const { return vector_of(layout, index, weights); }
  Tensor gradient(size_t index) const { return slice_of(layout, index, gradients); }
  Tensor matrix(int64_t rows, int64_t cols) const { return arena.matrix(rows, cols, weights.type); }
  Tensor residual(int64_t rows, int64_t cols) const {
    return arena.matrix(rows, cols, weights.residual);
  }
  Tensor numbers(int64_t rows, int64_t cols) const { return arena.matrix(rows, cols); }
  Dropout dropout(double rate, uint32_t site, const SideIndex& side) const;
};

constexpr size_t kNone = SIZE_MAX;  // a parameter the model does not have

// Residual add, dropout and the norm that follows.
class Seam {
 public:
  Seam(ParameterLayout& layout, const std::string& name, int64_t width, double dropout,
       uint32_t site);

  struct Output {
    Tensor h;
    Tensor n;
  };
  // h = x + dropout(branch + bias), n = norm(h); without a branch, n = norm(x).
  Output forward(const Pass& pass, Tensor x, Tensor branch, size_t bias, const SideIndex& side);

  // The same for inference, into given memory. h may alias x; n may alias x where h does not.
  void infer(const Pass& pass, Tensor x, Tensor branch, size_t bias, Tensor h, Tensor n) const;

  // From the gradients of n and of h (through the residual path, or empty) to those of x (may alias
  // dh) and of the branch (empty without one).
  void backward(const Pass& pass, Tensor dn, Tensor dh, Tensor dx, Tensor dbranch);

 private:
  size_t gain_;
  size_t shift_;
  double rate_;
  uint32_t site_;
  size_t bias_ = kNone;
  ResidualNorm op_;
};

class AttentionLayer {
 public:
  enum class Kind { kSelf, kCausal, kCross };
  AttentionLayer(ParameterLayout& layout, const std::string& name, const ModelOptions& options,
                 Kind kind, double dropout, uint32_t site);

  // Writes `out`. `memory` is the encoder's output; empty for self-attention.
  void forward(const Pass& pass, Tensor x, const SideIndex& side, Tensor memory, Tensor out);

  // Writes the gradients of x and of the memory, or adds to them if `accumulate` is set.
  void backward(const Pass& pass, Tensor dy, Tensor dx, bool accumulate, Tensor dmemory,
                bool accumulate_memory);

  // Decoding, one new token per row; see model/incremental.h. `cache` [rows, 2 d] has keys and
  // values. Self-attention writes those of each row to the last cache row of its list;
  // cross-attention reads what project_memory wrote once.
  void step(const Pass& pass, Tensor x, Tensor cache, const KeyLists& keys, Tensor out) const;
  void project_memory(const Pass& pass, Tensor memory, Tensor cache) const;

  size_t output_bias() const { return output_bias_; }

 private:
  Kind kind_;
  int64_t heads_;
  double rate_;
  uint32_t site_;
  size_t output_;
  size_t output_bias_ = kNone;
  size_t input_;  // queries, keys and values; for cross-attention keys and values
  size_t input_bias_ = kNone;
  size_t query_ = kNone;
  size_t query_bias_ = kNone;
  Tensor x_;
  Tensor memory_;
  Attention op_;
};

class FeedForward {
 public:
  FeedForward(ParameterLayout& layout, const std::string& name, const ModelOptions& options,
              double dropout, uint32_t site);

  void forward(const Pass& pass, Tensor x, const SideIndex& side, Tensor out);
  void backward(const Pass& pass, Tensor dy, Tensor dx, bool accumulate);

  size_t output_bias() const { return output_bias_; }

 private:
  ActivationKind kind_;
  double rate_;
  uint32_t site_;
  size_t output_;
  size_t output_bias_;
  size_t input_;
  size_t input_bias_;
  Tensor x_;
  Activation op_;
};

}  // namespace reigen
