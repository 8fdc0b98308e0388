// The vector kernels behind the CPU operations: one row, one range or one head of a sentence each.
//
// Written once with Highway and compiled for several instruction sets; the best one is picked when
// the program starts. Threads, shapes and loops over rows are up to the callers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/activation.h"
#include "ops/adam.h"
#include "ops/dropout.h"

namespace reigen::cpu {

// Dropout of one row.
struct RowDropout {
  uint32_t key[2] = {};
  uint32_t counter[4] = {};  // block 0
  uint32_t threshold = 0;    // 0: no dropout
  float scale = 1;
};
RowDropout row_dropout(const Dropout& dropout, int64_t row, uint32_t first_block = 0);

void drop_row(const RowDropout& dropout, const float* in, float* out, size_t n);

struct NormRow {
  size_t n = 0;
  const float* x = nullptr;
  const float* branch = nullptr;  // or null
  const float* bias = nullptr;    // or null
  const float* gain = nullptr;
  const float* shift = nullptr;
  RowDropout dropout;
  float* h = nullptr;
  float* out = nullptr;
  float* stats = nullptr;  // mean, 1 / standard deviation
};
void norm_row_forward(const NormRow& row);

struct NormRowGrad {
  const float* dn = nullptr;
  const float* dh = nullptr;  // or null
  float* dx = nullptr;
  float* dbranch = nullptr;  // or null
  float* dgain = nullptr;    // added to
  float* dshift = nullptr;   // added to
  float* dbias = nullptr;    // added to, or null
};
// `h` is the row that was normalised.
void norm_row_backward(const NormRow& row, const float* h, const NormRowGrad& grad);

void activation_row_forward(ActivationKind kind, const float* z, const float* bias,
                            const RowDropout& dropout, float* out, size_t n);
void activation_row_backward(ActivationKind kind, const float* z, const float* bias,
                             const RowDropout& dropout, const float* dout, float* dz, float* dbias,
                             size_t n);

void add_row(const float* in, float* out, size_t n);  // out += in
void scale_row(const float* in, float scale, const float* add, float* out, size_t n);
void scale_int8_row(const int8_t* in, float scale, const float* add, float* out, size_t n);
void add_scaled_row(const float* in, float scale, float* out, size_t n);  // out += scale * in

// Softmax cross-entropy of one row of logits; replaces them by their gradient where `gradient` is
// set.
struct CrossEntropyRow {
  uint32_t target = 0;
  float smoothing = 0;
  float scale = 1;
  bool gradient = true;
};
struct RowLoss {
  double smoothed = 0;
  double nll = 0;
};
RowLoss cross_entropy_row(const CrossEntropyRow& row, float* logits, size_t n);

// One head of one sentence. Pointers are to the head's first element of the sentence's first token.
struct HeadTask {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  size_t q_stride = 0;
  size_t k_stride = 0;
  size_t v_stride = 0;
  size_t queries = 0;
  size_t keys = 0;
  size_t width = 0;
  bool causal = false;
  const Dropout* dropout = nullptr;
  int64_t first_row = 0;  // of the queries, for dropout
  uint32_t head = 0;
  float* out = nullptr;
  size_t out_stride = 0;
  float* log_sums = nullptr;
  size_t log_stride = 0;
};
void attention_head_forward(const HeadTask& task);

struct HeadGrad {
  const float* dout = nullptr;
  float* dq = nullptr;
  float* dk = nullptr;
  float* dv = nullptr;
  size_t dout_stride = 0;
  size_t dq_stride = 0;
  size_t dk_stride = 0;
  size_t dv_stride = 0;
};
void attention_head_backward(const HeadTask& task, const HeadGrad& grad);

// Attention of one query, all heads, over the cache rows it picks.
struct PickedRow {
  const float* q = nullptr;
  const float* k = nullptr;  // the cache's first row
  const float* v = nullptr;
  size_t k_stride = 0;
  size_t v_stride = 0;
  const uint32_t* picks = nullptr;
  size_t count = 0;
  size_t heads = 0;
  size_t width = 0;  // of a head
  float* out = nullptr;
};
void picked_attention_row(const PickedRow& row);

// The `keep` best of a row of logits into `out`, best first, equal ones by lower token; returns the
// log of the sum of exponentials of all, or NaN unless all are finite.
struct TopLogit {
  float logit = 0;
  uint32_t token = 0;
};
double top_row(const float* logits, size_t n, size_t keep, TopLogit* out);

// Rounding of a row to 8 bits: x[i] is about (out[i] - zero) * scale. The scale is NaN where a
// value is not finite.
struct RowScale {
  float scale = 0;
  int32_t zero = 0;
};
RowScale quantize_row(const float* x, size_t n, uint8_t* out);

// Sums of products of a rounded row become fp32. `weight_sums`: of each row of the weight.
void scale_sums(const int32_t* sums, RowScale x, const int32_t* weight_sums,
                const float* weight_scales, float* out, size_t n);

// To the nearest, ties to even; the second form in fp32.
void round_to_bf16(const float* in, uint16_t* out, size_t n);
void round_to_bf16(const float* in, float* out, size_t n);

// sums [rows, outputs] = x [rows, inner] weight', exactly.
struct Int8Task {
  const uint8_t* x = nullptr;
  size_t rows = 0;
  const int8_t* weight = nullptr;  // [outputs, inner]
  size_t outputs = 0;
  size_t inner = 0;
  int32_t* sums = nullptr;
  size_t sums_stride = 0;
};
void int8_dots(const Int8Task& task);

double sum_of_squares(const float* x, size_t n);
void adam_range(const AdamStep& options, const float* g, float* p, float* m, float* v, size_t n);

}  // namespace reigen::cpu
