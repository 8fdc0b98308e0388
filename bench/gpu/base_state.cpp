#include "base_state.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace reigen::bench {

BaseStep::State::State(const cuda::Context& c, const StepOptions& o)
    : context(c), options(o), random(o.seed) {
  Lengths lengths = make_lengths(o);
  source = make_side(random, o, lengths.source);
  target = make_side(random, o, lengths.target);
  targets = GpuArray<uint32_t>(
      make_ids(random, static_cast<size_t>(o.target_tokens), o.pieces, target.rows));
  auto lists = [](const Side& queries, const Side& keys) {
    return std::make_unique<AttentionLists>(queries, keys, kHeads, kWidth / kHeads, kType);
  };
  self = lists(source, source);
  causal = lists(target, target);
  cross = lists(target, source);

  const int64_t parameters = 60'880'896 + (o.pieces - 32'768) * kWidth;
  master = pool.matrix(1, parameters, DType::kF32);
  gradient = pool.matrix(1, parameters, DType::kF32);
  moment1 = pool.matrix(1, parameters, DType::kF32);
  moment2 = pool.matrix(1, parameters, DType::kF32);
  compute = pool.matrix(1, parameters);
  positions = pool.matrix(512, kWidth, DType::kF32);
  make_stack(decoder, target, true, 2000);
  make_stack(encoder, source, false, 1000);
  table = weight(o.pieces, kWidth, 1 / std::sqrt(static_cast<double>(kWidth)));
  if (used != static_cast<size_t>(parameters)) throw DeviceError("the base model is not complete");

  const int64_t most = std::max(source.rows, target.rows);
  const DType residual = o.fp32_residual ? DType::kF32 : kType;
  branch = pool.matrix(most, kWidth);
  dhidden = pool.matrix(target.rows, kWidth);
  dresidual_s = pool.matrix(source.rows, kWidth, residual);
  dresidual_t = pool.matrix(target.rows, kWidth, residual);
  dinput = pool.matrix(most, kWidth);
  dmemory = pool.matrix(source.rows, kWidth);
  dattended = pool.matrix(most, kWidth);
  for (Passing& p : passing) {
    if (&p != &passing[0] && !o.beside) continue;
    p.dbranch = pool.matrix(most, kWidth);
    p.dmiddle = pool.matrix(most, kFfn);
    p.dqkv = pool.matrix(most, 3 * kWidth);
    p.dquery = pool.matrix(target.rows, kWidth);
  }
  logits = pool.matrix(std::min(o.chunk, target.rows), o.pieces);
  losses = pool.matrix(target.rows, 2, DType::kF32);
  bias_sums = pool.matrix(1, kFfn, DType::kF32);
  sums = GpuArray<double>(std::vector<double>(2));

  initial.resize(static_cast<size_t>(parameters));
  for (const auto& [offset, shape] : slices) {
    std::normal_distribution<float> normal(0, static_cast<float>(std::abs(shape.second)));
    for (size_t i = 0; i < shape.first; ++i) {
      initial[offset + i] = shape.second == 1 ? 1 : shape.second == 0 ? 0 : normal(random);
    }
  }
}

SeamBuffers BaseStep::State::make_seam(const Side& side, bool with_bias, bool with_branch,
                                       uint32_t site) {
  SeamBuffers s;
  s.site = site;
  s.gain = weight(1, kWidth, 1);
  s.shift = weight(1, kWidth, 0);
  if (with_bias) s.bias = weight(1, kWidth, 0);
  const DType residual = options.fp32_residual ? DType::kF32 : kType;
  if (with_branch) s.op.h = pool.matrix(side.rows, kWidth, residual);
  s.op.n = pool.matrix(side.rows, kWidth);
  s.op.stats = pool.matrix(side.rows, 2, DType::kF32);
  return s;
}

void BaseStep::State::make_stack(StackBuffers& stack, const Side& side, bool decode,
                                 uint32_t site) {
  stack.side = &side;
  const DType residual = options.fp32_residual ? DType::kF32 : kType;
  stack.embedded = pool.matrix(side.rows, kWidth, residual);
  stack.first = make_seam(side, false, false, site);
  auto glorot = [](double in, double out) { return std::sqrt(2 / (in + out)); };
  for (int l = 0; l < kLayers; ++l) {
    LayerBuffers layer;
    for (int part = 0; part < (decode ? 2 : 1); ++part) {
      AttentionBuffers a;
      a.cross = part == 1;
      a.side = &side;
      a.other = a.cross ? &source : &side;
      a.lists = a.cross ? cross.get() : decode ? causal.get() : self.get();
      a.in = weight((a.cross ? 2 : 3) * kWidth, kWidth, glorot(kWidth, kWidth));
      if (a.cross) a.query = weight(kWidth, kWidth, glorot(kWidth, kWidth));
      a.out = weight(kWidth, kWidth, glorot(kWidth, kWidth));
      Tensor joined = pool.matrix(a.other->rows, (a.cross ? 2 : 3) * kWidth);
      if (a.cross) {
        a.op.q = pool.matrix(side.rows, kWidth);
        a.op.k = joined.columns(0, kWidth);
        a.op.v = joined.columns(kWidth, kWidth);
      } else {
        a.op.q = joined.columns(0, kWidth);
        a.op.k = joined.columns(kWidth, kWidth);
        a.op.v = joined.columns(2 * kWidth, kWidth);
      }
      a.op.heads = kHeads;
      a.op.causal = decode && !a.cross;
      a.op.out = pool.matrix(side.rows, kWidth);
      a.op.log_sums = pool.matrix(side.rows, kHeads, DType::kF32);
      layer.attention.push_back(std::move(a));
      layer.seams.push_back(make_seam(side, false, true, ++site));
    }
    FfnBuffers& f = layer.ffn;
    f.in = weight(kFfn, kWidth, glorot(kWidth, kFfn));
    f.in_bias = weight(1, kFfn, 0);
    f.out = weight(kWidth, kFfn, glorot(kWidth, kFfn));
    f.op.z = pool.matrix(side.rows, kFfn);
    f.op.out = f.op.z;  // in place: ReLU's backward needs only what came through
    f.op.bias = f.in_bias.master;
    f.mask = static_cast<uint8_t*>(pool.matrix(side.rows, kFfn / 16).data);
    layer.seams.push_back(make_seam(side, true, true, ++site));
    stack.layers.push_back(std::move(layer));
  }
}

}  // namespace reigen::bench
