#include "single_ops.h"

#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "gpu_buffers.h"
#include "medians.h"
#include "ops/cuda/attention/attention.h"
#include "ops/cuda/cached_attention.h"
#include "ops/cuda/top_rows.h"

namespace reigen::bench {
namespace {

constexpr int kHeads = 8;
constexpr int64_t kWidth = 512;

template <class F>
void time_one(const cuda::Context& context, const std::string& name, double bytes, F work) {
  const double us = 1000 * median_milliseconds(context, 15, work);
  std::printf("%-52s %9.1f us %7.0f GB/s\n", name.c_str(), us, bytes / us / 1e3);
  std::fflush(stdout);
}

void time_tops(const cuda::Context& context, std::mt19937_64& random, DType dtype, int64_t rows) {
  const int64_t pieces = 32'768;
  Matrix z = random_matrix(random, rows, pieces, 3);
  const GpuMatrix logits(z, dtype);
  GpuArray<cuda::TopLogit> tops(std::vector<cuda::TopLogit>(static_cast<size_t>(rows) * 512));
  GpuArray<float> sums(std::vector<float>(static_cast<size_t>(rows)));
  for (int64_t keep : {4, 16, 512}) {
    time_one(context,
             std::string("top ") + std::to_string(keep) + " of 32,768, " + std::to_string(rows) +
                 " rows, " + name_of(dtype),
             static_cast<double>(rows * pieces) * static_cast<double>(size_of(dtype)),
             [&] { cuda::top_rows(context, logits.tensor(), keep, tops.get(), sums.get()); });
  }
}

void time_cached(const cuda::Context& context, std::mt19937_64& random, DType dtype, int64_t rows,
                 uint32_t keys) {
  Matrix q = random_matrix(random, rows, kWidth), kv = random_matrix(random, 4096, 2 * kWidth);
  const GpuMatrix gq(q, dtype), gkv(kv, dtype), out(rows, kWidth, dtype);
  std::vector<uint32_t> picks, begin, count;
  for (int64_t r = 0; r < rows; ++r) {
    begin.push_back(static_cast<uint32_t>(picks.size()));
    count.push_back(keys);
    for (uint32_t i = 0; i < keys; ++i) picks.push_back(static_cast<uint32_t>(random() % 4096));
  }
  const GpuArray<uint32_t> gpicks(picks), gbegin(begin), gcount(count);
  CachedAttention op;
  op.q = gq.tensor();
  op.k = gkv.tensor().columns(0, kWidth);
  op.v = gkv.tensor().columns(kWidth, kWidth);
  op.keys = {
      {gpicks.get(), picks.size()}, {gbegin.get(), begin.size()}, {gcount.get(), count.size()}};
  op.heads = kHeads;
  op.out = out.tensor();
  time_one(context,
           "cached attention, " + std::to_string(rows) + " rows of " + std::to_string(keys) +
               " keys, " + name_of(dtype),
           static_cast<double>(rows * keys * 2 * kWidth) * static_cast<double>(size_of(dtype)),
           [&] { cuda::cached_attention(context, op); });
}

void time_attention(const cuda::Context& context, std::mt19937_64& random, DType dtype, int heads) {
  std::vector<uint32_t> offsets = {0};
  std::lognormal_distribution<double> length(3.15, 0.6);
  while (offsets.back() < 20'000) {
    offsets.push_back(offsets.back() + 3 + static_cast<uint32_t>(length(random)));
  }
  const int64_t tokens = offsets.back();
  Matrix values = random_matrix(random, tokens, kWidth);
  const GpuMatrix q(values, dtype), k(values, dtype), v(values, dtype), dout(values, dtype);
  const GpuMatrix out(tokens, kWidth, dtype), sums(tokens, heads, DType::kF32);
  const GpuMatrix dq(tokens, kWidth, dtype), dk(tokens, kWidth, dtype), dv(tokens, kWidth, dtype);
  std::vector<uint64_t> numbers(static_cast<size_t>(tokens));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  const GpuArray<uint64_t> gnumbers(numbers);
  Attention op;
  op.q = q.tensor();
  op.k = k.tensor();
  op.v = v.tensor();
  op.heads = heads;
  op.dropout = {0.1F, {.seed = 1, .site = 2}, gnumbers.get()};
  op.out = out.tensor();
  op.log_sums = sums.tensor();
  const auto schedule = cuda::schedule_attention(offsets, offsets, heads, kWidth / heads, dtype);
  const GpuArray<cuda::AttentionWork> forward(schedule.forward), backward(schedule.backward);
  const auto plan = cuda::plan_of(schedule, forward.get(), backward.get());
  const std::string name = std::string(name_of(dtype)) + ", heads of " +
                           std::to_string(kWidth / heads) + ", " + std::to_string(tokens) +
                           " tokens";
  const double bytes =
      4 * static_cast<double>(tokens * kWidth) * static_cast<double>(size_of(dtype));
  time_one(context, "attention forward, " + name, bytes,
           [&] { cuda::attention_forward(context, op, plan); });
  time_one(context, "attention backward, " + name, 2 * bytes, [&] {
    cuda::attention_backward(context, op, {dout.tensor(), dq.tensor(), dk.tensor(), dv.tensor()},
                             plan);
  });
}

}  // namespace

void time_single_operations(const cuda::Context& context) {
  std::mt19937_64 random(3);
  std::printf("\nalone, medians:\n");
  time_tops(context, random, DType::kBF16, 256);
  time_tops(context, random, DType::kF32, 16);
  time_cached(context, random, DType::kBF16, 256, 30);
  time_cached(context, random, DType::kBF16, 8, 100);
  time_cached(context, random, DType::kF32, 256, 30);
  time_attention(context, random, DType::kBF16, 8);
  time_attention(context, random, DType::kF32, 8);
  time_attention(context, random, DType::kBF16, 64);
  std::printf("\n");
}

}  // namespace reigen::bench
