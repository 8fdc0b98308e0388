// A GPU: every operation of this folder, and what a host needs beside them.
//
// The operations' own headers say what they mean. Here all pointers are to the GPU's memory, and a
// call only puts work into a queue that is done in order: the host waits for nothing but what says
// so. ops/cuda implements it; open_gpu() of a build without CUDA says why there is none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/batch_index.h"
#include "ops/beam_step.h"
#include "ops/cached_attention.h"
#include "ops/embed.h"
#include "ops/gpu_step.h"
#include "ops/gpu_transfer.h"
#include "ops/matmul.h"
#include "ops/projection_loss.h"
#include "ops/residual_norm.h"

namespace reigen {

struct GpuFacts {
  int index = 0;
  std::string name;
  uint64_t memory = 0;  // bytes
  int capability = 0;   // 90 for sm_90
  std::string uuid;     // no other GPU has it
  std::string driver;   // its version, and the CUDA version it supports
  std::string runtime;  // the CUDA version this program was built with
  bool has_bf16() const { return capability >= 80; }
};

class GpuOps {
 public:
  virtual ~GpuOps() = default;

  virtual const GpuFacts& facts() const = 0;
  virtual uint64_t free_memory() const = 0;

  virtual void upload(void* to, const void* from, size_t bytes) = 0;    // waits for the copy
  virtual void download(void* to, const void* from, size_t bytes) = 0;  // waits for all before it
  virtual void copy(void* to, const void* from, size_t bytes) = 0;      // on the GPU
  virtual void clear(void* data, size_t bytes) = 0;
  virtual void convert(std::span<const float> from, void* to, DType type) = 0;
  virtual void wait() = 0;  // until everything called so far is done
  // From another thread, while operations go on: what was there when mark_copy() was last called.
  virtual void mark_copy() = 0;
  virtual void download_beside(void* to, const void* from, size_t bytes) = 0;
  // Copies host arrays in one transfer; they stay until the call after the next one.
  virtual std::vector<const uint32_t*> stage(
      std::initializer_list<std::span<const uint32_t>> lists) = 0;

  virtual std::unique_ptr<BatchIndex> index_batch(const BatchTokens& tokens,
                                                  const IndexShape& shape) = 0;
  virtual void use_batch(const BatchIndex& index) = 0;

  virtual void matmul(Tensor a, Transpose ta, Tensor b, Transpose tb, Tensor c, float alpha,
                      float beta) = 0;
  virtual void embed_forward(const EmbedInput& input, Tensor table, Tensor positions,
                             Tensor out) = 0;
  virtual void embed_backward(const EmbedInput& input, Tensor dout, Tensor dtable,
                              Tensor dpositions) = 0;
  virtual void residual_norm_forward(const ResidualNorm& op) = 0;
  virtual void residual_norm_backward(const ResidualNorm& op, const ResidualNormGrad& grad) = 0;
  virtual void attention_forward(const Attention& op) = 0;
  virtual void attention_backward(const Attention& op, const AttentionGrad& grad) = 0;
  virtual void activation_forward(const Activation& op) = 0;
  virtual void activation_backward(const Activation& op, Tensor dout, Tensor dz, Tensor dbias) = 0;
  virtual void add_bias(Tensor y, Tensor bias) = 0;
  virtual void bias_backward(Tensor dy, Tensor dbias) = 0;
  virtual LossSums projection_loss(const ProjectionLoss& op, Arena& arena) = 0;
  virtual void settle_gradients() = 0;
  virtual void cached_attention(const CachedAttention& op) = 0;
  virtual void beam_step(const BeamStep& op) = 0;  // waits for the result

  // The choices of algorithms so far, and the way back: the same choices give the same bits.
  virtual std::string recorded_algorithms() const = 0;
  virtual bool replay_algorithms(const std::string& record) = 0;
  virtual void allow_tf32(bool allow) = 0;

  virtual void* native_queue() const = 0;           // the CUDA stream, for tools that measure
  virtual bool may_record() const { return true; }  // false where each operation is looked at

  virtual std::unique_ptr<GpuStepQueue> step_queue(const GpuOptimizer& optimizer) = 0;
  virtual std::unique_ptr<GpuTransfer> transfer() = 0;
};

// GPU number `index`. Throws DeviceError when there is none, or this program has no CUDA backend.
Device open_gpu(int index);

// How many this process can use, without opening one; 0 too when there is no backend or driver.
int usable_gpus();

}  // namespace reigen
