// Chooses the kernels of an attention, and clears rows past the last sentence for all of them.
#include "ops/cuda/attention/attention.h"

#include <cmath>

#include "ops/cuda/attention/attention_args.cuh"
#include "ops/cuda/backend.h"

namespace reigen::cuda {
namespace {

AttentionArgs args_of(const Context& context, const Attention& op) {
  AttentionArgs a{};
  a.q = op.q.data;
  a.k = op.k.data;
  a.v = op.v.data;
  a.out = op.out.data;
  a.log_sums = data_of<float>(op.log_sums);
  a.q_stride = op.q.stride;
  a.k_stride = op.k.stride;
  a.v_stride = op.v.stride;
  a.out_stride = op.out.stride;
  a.log_stride = op.log_sums.stride;
  a.heads = op.heads;
  a.width = static_cast<int>(op.q.cols / op.heads);
  a.causal = op.causal;
  a.scale = 1.0F / std::sqrt(static_cast<float>(op.q.cols / op.heads));
  a.drop = drop_args(context, op.dropout);
  return a;
}

void clear_rows_from(const Context& context, Tensor t, uint32_t first) {
  if (t.rows <= first) return;
  const size_t pitch = static_cast<size_t>(t.stride) * size_of(t.dtype);
  check(cudaMemset2DAsync(static_cast<char*>(t.data) + first * pitch, pitch, 0,
                          static_cast<size_t>(t.cols) * size_of(t.dtype),
                          static_cast<size_t>(t.rows - first), context.stream()),
        "clear padded tokens");
}

// Whether the tensor-core kernels serve this one; its plan must agree.
bool in_tiles(const Attention& op, const AttentionPlan& plan) {
  const int64_t width = op.q.cols / op.heads;
  require(width % 8 == 0 && width <= 256, "a head width that is a multiple of 8, at most 256");
  require(op.k.dtype == op.q.dtype && op.v.dtype == op.q.dtype && op.out.dtype == op.q.dtype,
          "one type in attention");
  const bool tiles = attention_in_tiles(op.q.dtype, width);
  require(tiles == plan.tiles, "an attention of the type and head width of its plan");
  return tiles;
}

}  // namespace

void CudaBackend::attention_forward(const Device&, const Attention& op) {
  const auto& plan = static_cast<const AttentionPlan&>(*op.plan);
  const AttentionArgs a = args_of(context_, op);
  clear_rows_from(context_, op.out, plan.clear_queries_from);
  if (plan.forward_blocks == 0) return;
  const auto forward = in_tiles(op, plan) ? tiled_attention_forward : lanes_attention_forward;
  forward(context_, op.q.dtype, a, plan);
  check_launch("attention_forward");
}

void CudaBackend::attention_backward(const Device&, const Attention& op,
                                     const AttentionGrad& grad) {
  const auto& plan = static_cast<const AttentionPlan&>(*op.plan);
  AttentionArgs a = args_of(context_, op);
  a.dout = grad.dout.data;
  a.dq = grad.dq.data;
  a.dk = grad.dk.data;
  a.dv = grad.dv.data;
  a.dout_stride = grad.dout.stride;
  a.dq_stride = grad.dq.stride;
  a.dk_stride = grad.dk.stride;
  a.dv_stride = grad.dv.stride;
  clear_rows_from(context_, grad.dq, plan.clear_queries_from);
  clear_rows_from(context_, grad.dk, plan.clear_keys_from);
  clear_rows_from(context_, grad.dv, plan.clear_keys_from);
  if (plan.backward_blocks == 0) return;
  const auto backward = in_tiles(op, plan) ? tiled_attention_backward : lanes_attention_backward;
  backward(context_, op.q.dtype, a, plan);
  check_launch("attention_backward");
}

}  // namespace reigen::cuda
