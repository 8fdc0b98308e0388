// Attention over packed sentences, forward and backward.
#include "checker.h"
#include "ops/cuda/attention/attention.h"

namespace reigen::bench {

namespace {

std::vector<uint32_t> offsets_of(const std::vector<uint32_t>& lengths) {
  std::vector<uint32_t> offsets = {0};
  for (uint32_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

}  // namespace

void Checker::attention(const std::string& name, DType dtype, const std::vector<uint32_t>& queries,
                        const std::vector<uint32_t>& keys, int heads, int64_t width, bool causal,
                        float rate) {
  if (quick_ && name.ends_with("long")) return;
  const std::string which = name + " " + name_of(dtype) + " width " + std::to_string(width) +
                            (causal ? " causal" : "") + (rate > 0 ? " dropout" : "");
  const auto qo = offsets_of(queries), ko = offsets_of(keys);
  const int64_t d = heads * width, padding = 3;
  const int64_t nq = qo.back() + padding, nk = ko.back() + padding;
  Matrix q = normal(nq, d), k = normal(nk, d), v = normal(nk, d), dout = normal(nq, d);
  GpuMatrix gq(q, dtype, 3 * d), gk(k, dtype, 3 * d), gv(v, dtype, d + 8), gdout(dout, dtype);
  GpuMatrix out(nq, d, dtype), sums(nq, heads, DType::kF32);
  GpuMatrix dq(nq, d, dtype, 3 * d), dk(nk, d, dtype, 2 * d), dv(nk, d, dtype, d);
  Drop drop = make_drop(nq, rate);
  Attention op;
  op.q = gq.tensor();
  op.k = gk.tensor();
  op.v = gv.tensor();
  op.heads = heads;
  op.causal = causal;
  op.dropout = drop.device;
  op.out = out.tensor();
  op.log_sums = sums.tensor();
  const auto schedule = cuda::schedule_attention(qo, ko, heads, width, dtype);
  GpuArray<cuda::AttentionWork> forward(schedule.forward), backward(schedule.backward);
  const auto plan = cuda::plan_of(schedule, forward.get(), backward.get());
  cuda::attention_forward(context_, op, plan);
  cuda::attention_backward(context_, op, {gdout.tensor(), dq.tensor(), dk.tensor(), dv.tensor()},
                           plan);
  finish();
  const auto wanted = host::attention(q, k, v, dout, qo, ko, heads, causal, on_host(drop));
  // Weights and their gradients are rounded to the type before they multiply.
  compare("attention forward", which, out, wanted.out, 2 * rounding(dtype));
  Matrix got_sums = sums.download();
  for (int64_t r = nq - padding; r < nq; ++r) {
    for (int64_t h = 0; h < heads; ++h) got_sums.at(r, h) = 0;
  }
  add("attention forward", which + " log sums", relative_error(got_sums, wanted.log_sums), 1e-5);
  compare("attention backward", which + " dq", dq, wanted.dq, 3 * rounding(dtype), wanted.dq_terms);
  compare("attention backward", which + " dk", dk, wanted.dk, 3 * rounding(dtype), wanted.dk_terms);
  compare("attention backward", which + " dv", dv, wanted.dv, 3 * rounding(dtype));
}

void Checker::attentions() {
  const DType b = DType::kBF16;
  std::vector<uint32_t> many, other;
  for (int i = 0; i < (quick_ ? 8 : 40); ++i) {
    many.push_back(static_cast<uint32_t>(1 + random_() % 70));
    other.push_back(static_cast<uint32_t>(1 + random_() % 70));
  }
  for (float rate : {0.0F, 0.1F}) {
    for (bool causal : {false, true}) {
      attention("one token", b, {1}, {1}, 8, 64, causal, rate);
      attention("one sentence", b, {37}, {37}, 8, 64, causal, rate);
      attention("tokens apart", b, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, 8, 64, causal, rate);
      attention("long", b, {500, 1, 512}, {500, 1, 512}, 2, 64, causal, rate);
      attention("middling", b, {150, 160, 161, 129, 90}, {150, 160, 161, 129, 90}, 4, 64, causal,
                rate);
      for (int64_t width : {32, 64, 128}) {
        attention("mixed", b, many, many, 8, width, causal, rate);
      }
      attention("mixed", DType::kF16, many, many, 8, 64, causal, rate);
    }
    attention("cross", b, many, other, 8, 64, false, rate);
    attention("cross", b, many, other, 3, 128, false, rate);
    attention("cross long", b, {3, 500}, {501, 2}, 4, 64, false, rate);
  }
  // Without tensor cores.
  const DType f = DType::kF32;
  for (float rate : {0.0F, 0.1F}) {
    for (bool causal : {false, true}) {
      for (int64_t width : {8, 24, 64, 128, 200, 256}) {
        attention("mixed", f, many, many, 2, width, causal, rate);
      }
      for (int64_t width : {8, 16, 40, 72, 256}) {
        attention("mixed", b, many, many, 2, width, causal, rate);
      }
      attention("mixed", DType::kF16, many, many, 3, 48, causal, rate);
      attention("one token", f, {1}, {1}, 8, 64, causal, rate);
      attention("tokens apart", f, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, 8, 32, causal, rate);
      attention("long", f, {500, 1, 33}, {500, 1, 33}, 2, 64, causal, rate);
      attention("long", b, {500, 1, 33}, {500, 1, 33}, 2, 24, causal, rate);
    }
    attention("cross", f, many, other, 8, 64, false, rate);
    attention("cross long", f, {3, 500}, {501, 2}, 4, 64, false, rate);
    attention("cross long", DType::kF16, {3, 500}, {501, 2}, 4, 8, false, rate);
  }
}

}  // namespace reigen::bench
