// The interface of a backend: every operation, for one kind of device. ops/cpu and ops/cuda
// implement it; dispatch.cpp calls the backend of the device for each function of the contracts.
//
// The contract of an operation is in its own header. Tensors are in the device's memory, and a GPU
// backend only appends work to its queue. Memory and copies are in device/gpu.h.
//
// The CUDA backend can be a library loaded at run time (device/cuda_entry.h): open_gpu() is the
// only symbol of ops/cuda that the rest of the program refers to, and everything else is reached
// through the virtual functions here, in gpu_backend.h and in device/gpu.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "ops/activation.h"
#include "ops/adam.h"
#include "ops/attention.h"
#include "ops/batch_index.h"
#include "ops/beam_step.h"
#include "ops/cached_attention.h"
#include "ops/ema.h"
#include "ops/embed.h"
#include "ops/matmul.h"
#include "ops/muon.h"
#include "ops/packed_weight.h"
#include "ops/projection_loss.h"
#include "ops/residual_norm.h"

namespace reigen {

class GpuBackend;

// One line per operation: result, name, parameters, arguments. The interface below, the
// declarations in both backends and the dispatch are made from this list.
// clang-format off
#define REIGEN_OPERATIONS(OP)                                                                     \
  OP(std::unique_ptr<BatchIndex>, index_batch,                                                    \
     (const Device& device, const BatchTokens& tokens, const IndexShape& shape),                  \
     (device, tokens, shape))                                                                     \
  OP(void, use_batch, (const Device& device, const BatchIndex& index), (device, index))           \
  OP(std::vector<const uint32_t*>, stage_lists,                                                   \
     (const Device& device, std::span<const std::span<const uint32_t>> lists), (device, lists))   \
  OP(void, matmul,                                                                                \
     (const Device& device, Tensor a, Transpose ta, Tensor b, Transpose tb, Tensor c,             \
      float alpha, float beta),                                                                   \
     (device, a, ta, b, tb, c, alpha, beta))                                                      \
  OP(std::unique_ptr<PackedWeight>, pack_weight, (const Device& device, Tensor weight),           \
     (device, weight))                                                                            \
  OP(std::unique_ptr<PackedWeight>, pack_int8, (const Device& device, const Int8Matrix& weight),  \
     (device, weight))                                                                            \
  OP(void, packed_product,                                                                        \
     (const Device& device, Tensor x, const PackedWeight& weight, Tensor y),                      \
     (device, x, weight, y))                                                                      \
  OP(void, embed_forward,                                                                         \
     (const Device& device, const EmbedInput& input, Tensor table, Tensor positions, Tensor out), \
     (device, input, table, positions, out))                                                      \
  OP(void, embed_backward,                                                                        \
     (const Device& device, const EmbedInput& input, Tensor dout, Tensor dtable,                  \
      Tensor dpositions),                                                                         \
     (device, input, dout, dtable, dpositions))                                                   \
  OP(void, residual_norm_forward, (const Device& device, const ResidualNorm& op), (device, op))   \
  OP(void, residual_norm_backward,                                                                \
     (const Device& device, const ResidualNorm& op, const ResidualNormGrad& grad),                \
     (device, op, grad))                                                                          \
  OP(void, attention_forward, (const Device& device, const Attention& op), (device, op))          \
  OP(void, attention_backward,                                                                    \
     (const Device& device, const Attention& op, const AttentionGrad& grad), (device, op, grad))  \
  OP(size_t, activation_mask_bytes,                                                               \
     (const Device& device, ActivationKind kind, int64_t rows, int64_t cols),                     \
     (device, kind, rows, cols))                                                                  \
  OP(void, activation_forward, (const Device& device, const Activation& op), (device, op))        \
  OP(void, activation_backward,                                                                   \
     (const Device& device, const Activation& op, Tensor dout, Tensor dz, Tensor dbias),          \
     (device, op, dout, dz, dbias))                                                               \
  OP(void, add_bias, (const Device& device, Tensor y, Tensor bias), (device, y, bias))            \
  OP(void, bias_backward, (const Device& device, Tensor dy, Tensor dbias), (device, dy, dbias))   \
  OP(void, complete_gradients, (const Device& device), (device))                                  \
  OP(LossSums, projection_loss, (const Device& device, const ProjectionLoss& op, Arena& arena),   \
     (device, op, arena))                                                                         \
  OP(double, global_norm, (const Device& device, std::span<const float> gradient),                \
     (device, gradient))                                                                          \
  OP(void, adam_step,                                                                             \
     (const Device& device, const AdamStep& options, std::span<const float> gradient,             \
      std::span<float> parameters, std::span<float> first_moment,                                 \
      std::span<float> second_moment),                                                            \
     (device, options, gradient, parameters, first_moment, second_moment))                        \
  OP(void, muon_step,                                                                             \
     (const Device& device, const MuonStep& options, std::span<const MatrixRange> matrices,       \
      std::span<const float> gradient, std::span<float> parameters, std::span<float> momentum),   \
     (device, options, matrices, gradient, parameters, momentum))                                 \
  OP(void, ema_step,                                                                              \
     (const Device& device, double weight, std::span<const float> parameters,                     \
      std::span<float> average),                                                                  \
     (device, weight, parameters, average))                                                       \
  OP(void, cached_attention, (const Device& device, const CachedAttention& op), (device, op))     \
  OP(void, beam_step, (const Device& device, const BeamStep& op), (device, op))
// clang-format on

#define REIGEN_PURE_OPERATION(result, name, parameters, arguments) \
  virtual result name parameters = 0;
#define REIGEN_OVERRIDE_OPERATION(result, name, parameters, arguments) \
  result name parameters override;

class Backend : public DeviceBackend {
 public:
  REIGEN_OPERATIONS(REIGEN_PURE_OPERATION)

  // Services that only a GPU has; null on the CPU.
  virtual GpuBackend* gpu() { return nullptr; }
};

// The backend of a device.
Backend& backend_of(const Device& device);

// The backend of all CPU devices: it has no state, the Device has the number of threads.
Backend& cpu_backend();

// Whether the processor has instructions for products in bf16.
bool cpu_has_bf16();

// The CPU's backend with matrix products in bf16: factors are rounded when they are multiplied,
// sums and everything else are fp32. Emulated where the processor has no instructions for it: the
// same up to the order of sums, and slower than fp32.
enum class Bf16By : uint8_t { kProcessor, kEmulation };
std::shared_ptr<DeviceBackend> bf16_cpu_backend(Bf16By by = Bf16By::kProcessor);

// Memory that the processor's products in bf16 keep: `outer` is the smaller side of a result,
// `inner` the length of its sums.
uint64_t bf16_products_bytes(int64_t outer, int64_t inner, int threads);

}  // namespace reigen
