// ops/attention.h on the CPU: one task for each head of each sentence, by attention_kernels.cpp.
#include "ops/attention.h"

#include "ops/cpu/backend.h"
#include "ops/cpu/kernels.h"

namespace reigen::cpu {
namespace {

// Task number -> sentence and head; adjacent tasks share a sentence, so its rows stay in cache.
HeadTask task_of(const Attention& op, int64_t number) {
  const auto sentence = static_cast<size_t>(number / op.heads);
  const int64_t head = number % op.heads;
  const int64_t width = op.q.cols / op.heads;
  const int64_t q_row = op.query_offsets[sentence];
  const int64_t k_row = op.key_offsets[sentence];
  HeadTask task;
  task.q = op.q.row(q_row) + head * width;
  task.k = op.k.row(k_row) + head * width;
  task.v = op.v.row(k_row) + head * width;
  task.q_stride = static_cast<size_t>(op.q.stride);
  task.k_stride = static_cast<size_t>(op.k.stride);
  task.v_stride = static_cast<size_t>(op.v.stride);
  task.queries = op.query_offsets[sentence + 1] - op.query_offsets[sentence];
  task.keys = op.key_offsets[sentence + 1] - op.key_offsets[sentence];
  task.width = static_cast<size_t>(width);
  task.causal = op.causal;
  task.dropout = &op.dropout;
  task.first_row = q_row;
  task.head = static_cast<uint32_t>(head);
  task.out = op.out.row(q_row) + head * width;
  task.out_stride = static_cast<size_t>(op.out.stride);
  task.log_sums = op.log_sums.row(q_row) + head;
  task.log_stride = static_cast<size_t>(op.log_sums.stride);
  return task;
}

int64_t task_count(const Attention& op) {
  return (static_cast<int64_t>(op.query_offsets.size()) - 1) * op.heads;
}

}  // namespace

void CpuBackend::attention_forward(const Device& device, const Attention& op) {
  parallel_for(device, task_count(op), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) attention_head_forward(task_of(op, n));
  });
}

void CpuBackend::attention_backward(const Device& device, const Attention& op,
                                    const AttentionGrad& grad) {
  parallel_for(device, task_count(op), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) {
      const auto sentence = static_cast<size_t>(n / op.heads);
      const int64_t column = n % op.heads * (op.q.cols / op.heads);
      const int64_t q_row = op.query_offsets[sentence];
      const int64_t k_row = op.key_offsets[sentence];
      HeadGrad head;
      head.dout = grad.dout.row(q_row) + column;
      head.dq = grad.dq.row(q_row) + column;
      head.dk = grad.dk.row(k_row) + column;
      head.dv = grad.dv.row(k_row) + column;
      head.dout_stride = static_cast<size_t>(grad.dout.stride);
      head.dq_stride = static_cast<size_t>(grad.dq.stride);
      head.dk_stride = static_cast<size_t>(grad.dk.stride);
      head.dv_stride = static_cast<size_t>(grad.dv.stride);
      attention_head_backward(task_of(op, n), head);
    }
  });
}

}  // namespace reigen::cpu
