#include "op_checks.h"

#include <cmath>
#include <cstdio>
#include <numeric>

#include "base/error.h"
#include "gpu_buffers.h"
#include "ops/cuda/activation.h"
#include "ops/cuda/adam.h"
#include "ops/cuda/attention.h"
#include "ops/cuda/embed.h"
#include "ops/cuda/matmul.h"
#include "ops/cuda/projection_loss.h"
#include "ops/cuda/residual_norm.h"

namespace reigen::bench {
namespace {

using host::column_sums;
using host::multiply;

// Relative error of a result that is rounded once to the type.
double rounding(DType dtype) {
  if (dtype == DType::kBF16) return 3e-3;
  if (dtype == DType::kF16) return 5e-4;
  return 3e-6;
}

class Checker {
 public:
  Checker(const cuda::Context& context, uint64_t seed) : context_(context), random_(seed) {}

  CheckResults results;

  void products();
  void norms();
  void activations();
  void attentions();
  void embeddings();
  void losses();
  void optimizer();

 private:
  void add(const std::string& op, const std::string& which, double error, double tolerance) {
    CheckResult& r = results[op];
    ++r.checks;
    const double ratio = error / tolerance;
    if (!(ratio <= 1)) {
      ++r.failed;
      std::printf("FAILED %s, %s: error %.3g, allowed %.3g\n", op.c_str(), which.c_str(), error,
                  tolerance);
    }
    if (r.checks == 1 || !(ratio <= r.ratio)) {
      r.error = error;
      r.tolerance = tolerance;
      r.ratio = ratio;
      r.worst = which;
    }
  }
  void compare(const std::string& op, const std::string& which, const GpuMatrix& got,
               const Matrix& wanted, double tolerance, double least = 1e-30) {
    add(op, which, relative_error(got.download(), wanted, least), tolerance);
  }
  Matrix normal(int64_t rows, int64_t cols, double deviation = 1) {
    return random_matrix(random_, rows, cols, deviation);
  }

  // The same dropout for the host and for the device.
  struct Drop {
    std::vector<uint64_t> numbers;
    GpuArray<uint64_t> on_device;
    Dropout host;
    Dropout device;
  };
  Drop make_drop(int64_t rows, float rate) {
    Drop d;
    for (int64_t r = 0; r < rows; ++r) {
      d.numbers.push_back((uint64_t{1} << 33) + static_cast<uint64_t>(r) * 7919);
    }
    d.on_device = GpuArray<uint64_t>(d.numbers);
    d.host = {rate, {.seed = random_(), .step = 17, .site = 5}, nullptr};
    d.device = d.host;
    d.device.tokens = d.on_device.get();
    return d;
  }
  // `numbers` may move with the struct, so the pointer is set where it stays.
  static Dropout on_host(const Drop& d) {
    Dropout out = d.host;
    out.tokens = d.numbers.data();
    return out;
  }
  void finish() const {
    context_.settle();
    context_.queue().wait();
  }

  void product(DType dtype);
  void epilogues(DType dtype);
  void choices_replay();
  void norm(DType dtype, DType residual, int64_t rows, int64_t width, float rate, bool branch);
  void attention(const std::string& name, DType dtype, const std::vector<uint32_t>& queries,
                 const std::vector<uint32_t>& keys, int heads, int64_t width, bool causal,
                 float rate);
  void loss(DType dtype, int64_t tokens, int64_t pieces, int64_t width, int64_t chunk,
            float smoothing);

  const cuda::Context& context_;
  std::mt19937_64 random_;
};

void Checker::product(DType dtype) {
  const int64_t tokens = 333, in = 96, out = 72;
  Matrix x = normal(tokens, in), w = normal(out, in), dy = normal(tokens, out);
  GpuMatrix gx(x, dtype, in + 8), gw(w, dtype), gdy(dy, dtype, out + 16);
  const std::string type = name_of(dtype);
  GpuMatrix y(tokens, out, dtype, out + 8);
  cuda::linear_forward(context_, gx.tensor(), gw.tensor(), y.tensor());
  finish();
  compare("product", type + " forward", y, multiply(x, false, w, true), rounding(dtype));
  for (bool accumulate : {false, true}) {
    Matrix before = normal(tokens, in);
    GpuMatrix dx(before, dtype, in + 8);
    cuda::linear_backward_input(context_, gdy.tensor(), gw.tensor(), dx.tensor(), accumulate);
    finish();
    Matrix wanted = multiply(dy, false, w, false);
    for (size_t i = 0; accumulate && i < wanted.values.size(); ++i) {
      wanted.values[i] += before.values[i];
    }
    compare("product", type + " input gradient", dx, wanted, rounding(dtype));
  }
  Matrix before = normal(out, in);
  GpuMatrix dw(before, DType::kF32);
  cuda::linear_backward_weight(context_, gdy.tensor(), gx.tensor(), dw.tensor());
  finish();
  Matrix wanted = multiply(dy, true, x, false);
  for (size_t i = 0; i < wanted.values.size(); ++i) wanted.values[i] += before.values[i];
  compare("product", type + " weight gradient", dw, wanted, rounding(DType::kF32));
}

void Checker::epilogues(DType dtype) {
  const int64_t tokens = 200, in = 128, out = 256;
  Matrix x = normal(tokens, in), w = normal(out, in, 0.1), bias = normal(1, out);
  GpuMatrix gx(x, dtype), gw(w, dtype), gbias(bias, dtype);
  const std::string type = name_of(dtype);
  const Matrix plain = multiply(x, false, w, true);
  using cuda::Epilogue;
  for (auto [epilogue, name] : {std::pair{Epilogue::kBias, " bias"},
                                {Epilogue::kReluBias, " relu"},
                                {Epilogue::kGeluBias, " gelu"}}) {
    GpuMatrix y(tokens, out, dtype);
    context_.matmul().run(context_, {gx.tensor(), Transpose::kNo, gw.tensor(), Transpose::kYes,
                                     y.tensor(), 1, 0, epilogue, gbias.tensor().data});
    finish();
    Matrix wanted(tokens, out);
    for (int64_t r = 0; r < tokens; ++r) {
      for (int64_t c = 0; c < out; ++c) wanted.at(r, c) = plain.at(r, c) + bias.at(0, c);
    }
    if (epilogue == Epilogue::kReluBias) {
      wanted = host::activation(ActivationKind::kRelu, plain, bias, {});
    }
    if (epilogue == Epilogue::kGeluBias) {
      wanted = host::activation(ActivationKind::kGelu, plain, bias, {});
    }
    compare("product epilogue", type + name, y, wanted, rounding(dtype));
  }
  std::vector<uint8_t> mask(static_cast<size_t>(tokens * out / 8));
  for (auto& byte : mask) byte = static_cast<uint8_t>(random_());
  GpuArray<uint8_t> gmask(mask);
  GpuMatrix y(tokens, out, dtype);
  Matrix wt = normal(in, out, 0.1);
  GpuMatrix gwt(wt, dtype);
  try {
    cuda::linear_backward_input_masked(context_, gx.tensor(), gwt.tensor(), 1.25F, gmask.get(),
                                       y.tensor());
    finish();
    Matrix wanted = multiply(x, false, wt, false);
    for (int64_t i = 0; i < tokens * out; ++i) {
      const bool kept = mask[static_cast<size_t>(i / 8)] >> (i % 8) & 1;
      wanted.values[static_cast<size_t>(i)] *= kept ? 1.25 : 0;
    }
    compare("product epilogue", type + " mask", y, wanted, rounding(dtype));
  } catch (const DeviceError& e) {
    std::printf("not supported: %s\n", e.what());
  }
  try {
    Matrix dy = normal(tokens, out), before = normal(out, in);
    GpuMatrix gdy(dy, dtype), dw(before, DType::kF32), sums(1, out, DType::kF32);
    context_.matmul().run(context_, {gdy.tensor(), Transpose::kYes, gx.tensor(), Transpose::kNo,
                                     dw.tensor(), 1, 1, Epilogue::kSumA, sums.tensor().data});
    finish();
    compare("product epilogue", type + " sums", sums, column_sums(dy), rounding(DType::kF32));
    Matrix wanted = multiply(dy, true, x, false);
    for (size_t i = 0; i < wanted.values.size(); ++i) wanted.values[i] += before.values[i];
    compare("product epilogue", type + " sums' product", dw, wanted, rounding(DType::kF32));
  } catch (const DeviceError& e) {
    std::printf("not supported: %s\n", e.what());
  }
}

// Choices written down and taken up by another object give the same bits.
void Checker::choices_replay() {
  const int64_t tokens = 4096;
  Matrix x = normal(tokens, 512), dy = normal(tokens, 512), zero(512, 512);
  GpuMatrix gx(x, DType::kBF16), gdy(dy, DType::kBF16);
  GpuMatrix first(zero, DType::kF32), second(zero, DType::kF32);
  const cuda::Product product{
      gdy.tensor(), Transpose::kYes, gx.tensor(), Transpose::kNo, first.tensor(), 1, 1};
  context_.matmul().run(context_, product);
  cuda::Matmul other;
  const bool taken = other.replay(context_.matmul().record());
  cuda::Product again = product;
  again.c = second.tensor();
  other.run(context_, again);
  finish();
  const bool same = first.download().values == second.download().values;
  const bool text = other.record() == context_.matmul().record();
  add("product replay", "weight gradient", taken && same && text ? 0 : INFINITY, 1);
}

void Checker::products() {
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) product(dtype);
  for (DType dtype : {DType::kBF16, DType::kF16}) epilogues(dtype);
  choices_replay();
}

void Checker::norm(DType dtype, DType residual, int64_t rows, int64_t width, float rate,
                   bool with_branch) {
  const std::string which = std::string(name_of(dtype)) + "/" + name_of(residual) + " width " +
                            std::to_string(width) + (rate > 0 ? " dropout" : "") +
                            (with_branch ? "" : " plain");
  Matrix x = normal(rows, width), branch = normal(rows, width), bias = normal(1, width);
  Matrix gain = normal(1, width), shift = normal(1, width);
  Matrix dn = normal(rows, width), dh = normal(rows, width);
  GpuMatrix gx(x, residual), gbranch(branch, dtype, width + 8), gbias(bias, DType::kF32);
  GpuMatrix ggain(gain, DType::kF32), gshift(shift, DType::kF32);
  GpuMatrix h(rows, width, residual), n(rows, width, dtype), stats(rows, 2, DType::kF32);
  Drop drop = make_drop(rows, with_branch ? rate : 0);
  ResidualNorm op;
  op.x = gx.tensor();
  op.gain = ggain.tensor();
  op.shift = gshift.tensor();
  op.n = n.tensor();
  op.stats = stats.tensor();
  if (with_branch) {
    op.branch = gbranch.tensor();
    op.bias = gbias.tensor();
    op.h = h.tensor();
    op.dropout = drop.device;
  }
  cuda::residual_norm_forward(context_, op);
  finish();
  const Dropout hd = on_host(drop);
  auto wanted = host::residual_norm(x, with_branch ? &branch : nullptr, &bias, gain, shift, hd);
  if (with_branch) compare("norm forward", which + " h", h, wanted.h, rounding(residual));
  // n is made from h as stored, so it carries both roundings.
  compare("norm forward", which + " n", n, wanted.n, rounding(dtype) + rounding(residual));

  const Matrix held = with_branch ? h.download() : x;
  GpuMatrix gdn(dn, dtype), gdh(dh, residual);
  const auto grads = host::residual_norm_gradients(held, gain, dn, with_branch ? &dh : nullptr, hd);
  GpuMatrix dx(rows, width, residual), dbranch(rows, width, dtype, width + 8);
  Matrix before = normal(1, width);
  GpuMatrix dgain(before, DType::kF32), dshift(before, DType::kF32), dbias(before, DType::kF32);
  ResidualNormGrad g;
  g.dn = gdn.tensor();
  g.dx = dx.tensor();
  g.dgain = dgain.tensor();
  g.dshift = dshift.tensor();
  if (with_branch) {
    g.dh = gdh.tensor();
    g.dx = gdh.tensor();  // in place, as the model uses it
    g.dbranch = dbranch.tensor();
    g.dbias = dbias.tensor();
  }
  cuda::residual_norm_backward(context_, op, g);
  finish();
  auto plus = [&](Matrix m) {
    for (size_t i = 0; i < m.values.size(); ++i) m.values[i] += before.values[i];
    return m;
  };
  compare("norm backward", which + " dx", with_branch ? gdh : dx, grads.dx, rounding(residual));
  compare("norm backward", which + " dgain", dgain, plus(grads.dgain), 1e-5);
  compare("norm backward", which + " dshift", dshift, plus(grads.dshift), 1e-5);
  if (!with_branch) return;
  compare("norm backward", which + " dbranch", dbranch, grads.dbranch, rounding(dtype));
  compare("norm backward", which + " dbias", dbias, plus(grads.dbias), 1e-5);
}

void Checker::norms() {
  const DType b = DType::kBF16, h = DType::kF16, f = DType::kF32;
  for (float rate : {0.0F, 0.1F}) {
    for (auto [t, r] : {std::pair{b, b}, {b, f}, {h, h}, {h, f}, {f, f}}) {
      norm(t, r, 300, 512, rate, true);
    }
  }
  for (int64_t width : {8, 64, 264, 1024, 2048}) norm(b, b, 77, width, 0.3F, true);
  norm(b, b, 1, 512, 0.1F, true);
  norm(b, b, 5000, 512, 0, false);
}

void Checker::activations() {
  const int64_t rows = 301, width = 1032;
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (auto kind : {ActivationKind::kRelu, ActivationKind::kGelu, ActivationKind::kSwish}) {
      for (float rate : {0.0F, 0.1F}) {
        const std::string which = std::string(name_of(dtype)) + " kind " +
                                  std::to_string(static_cast<int>(kind)) +
                                  (rate > 0 ? " dropout" : "");
        Matrix z = normal(rows, width, 2), bias = normal(1, width), dout = normal(rows, width);
        GpuMatrix gz(z, dtype), gbias(bias, DType::kF32), gdout(dout, dtype);
        GpuMatrix out(rows, width, dtype);
        Drop drop = make_drop(rows, rate);
        GpuArray<uint8_t> mask(std::vector<uint8_t>(static_cast<size_t>(rows * width / 8)));
        Activation op{kind, gz.tensor(), gbias.tensor(), drop.device, out.tensor()};
        cuda::activation_forward(context_, op, mask.get());
        finish();
        const Dropout hd = on_host(drop);
        const Matrix wanted = host::activation(kind, z, bias, hd);
        compare("activation forward", which, out, wanted, rounding(dtype));
        if (kind == ActivationKind::kRelu) {
          const auto bits = mask.download();
          double wrong = 0;
          for (size_t i = 0; i < wanted.values.size(); ++i) {
            wrong += (bits[i / 8] >> (i % 8) & 1) != (wanted.values[i] > 0);
          }
          add("activation forward", which + " mask", wrong, 0.5);
        }
        Matrix before = normal(1, width);
        GpuMatrix dbias(before, DType::kF32);
        cuda::activation_backward(context_, op, gdout.tensor(), gdout.tensor(), dbias.tensor());
        finish();
        const Matrix dz = host::activation_gradient(kind, z, bias, hd, dout);
        compare("activation backward", which, gdout, dz, rounding(dtype));
        Matrix sums = column_sums(dz);
        for (size_t i = 0; i < sums.values.size(); ++i) sums.values[i] += before.values[i];
        compare("activation backward", which + " dbias", dbias, sums, 1e-5);
        if (kind != ActivationKind::kRelu) continue;
        gdout.upload(dout);
        dbias.upload(before);
        cuda::activation_backward(context_, op, gdout.tensor(), gdout.tensor(), dbias.tensor(),
                                  mask.get());
        finish();
        compare("activation backward", which + " by mask", gdout, dz, rounding(dtype));
        compare("activation backward", which + " by mask dbias", dbias, sums, 1e-5);
      }
    }
    Matrix y = normal(rows, 72), bias = normal(1, 72), zero(1, 72);
    GpuMatrix gy(y, dtype, 80), gbias(bias, DType::kF32), dbias(zero, DType::kF32);
    cuda::bias_backward(context_, gy.tensor(), dbias.tensor());
    cuda::add_bias(context_, gy.tensor(), gbias.tensor());
    finish();
    compare("bias", name_of(dtype), dbias, column_sums(y), 1e-5);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < 72; ++c) y.at(r, c) += bias.at(0, c);
    }
    compare("bias", name_of(dtype), gy, y, rounding(dtype));
  }
}

std::vector<uint32_t> offsets_of(const std::vector<uint32_t>& lengths) {
  std::vector<uint32_t> offsets = {0};
  for (uint32_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

void Checker::attention(const std::string& name, DType dtype, const std::vector<uint32_t>& queries,
                        const std::vector<uint32_t>& keys, int heads, int64_t width, bool causal,
                        float rate) {
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
  const auto schedule = cuda::schedule_attention(qo, ko, heads, width);
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
  for (int i = 0; i < 40; ++i) {
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
}

void Checker::embeddings() {
  const int64_t pieces = 50, width = 520, tokens = 700;
  std::vector<uint32_t> ids, places;
  for (int64_t t = 0; t < tokens; ++t) {
    ids.push_back(random_() % 3 == 0 ? 7 : static_cast<uint32_t>(random_() % pieces));
    places.push_back(static_cast<uint32_t>(t % 90));
  }
  ids.back() = cuda::kNoToken;
  GpuArray<uint32_t> gids(ids), gplaces(places);
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (float rate : {0.0F, 0.1F}) {
      const std::string which = std::string(name_of(dtype)) + (rate > 0 ? " dropout" : "");
      Matrix table = normal(pieces, width), positions = normal(90, width);
      Matrix dout = normal(tokens, width), before = normal(pieces, width);
      GpuMatrix gtable(table, dtype), gpositions(positions, DType::kF32), gdout(dout, dtype);
      GpuMatrix out(tokens, width, dtype), dtable(before, DType::kF32);
      Drop drop = make_drop(tokens, rate);
      cuda::embed_forward(context_, {gids.get(), gplaces.get(), 22.6F, drop.device},
                          gtable.tensor(), gpositions.tensor(), out.tensor());
      const auto schedule = cuda::schedule_embed_backward(ids);
      GpuArray<uint32_t> order(schedule.order);
      GpuArray<cuda::EmbedSegment> segments(schedule.segments);
      GpuArray<cuda::EmbedSum> sums(schedule.sums);
      const cuda::EmbedPlan plan{order.get(),
                                 segments.get(),
                                 sums.get(),
                                 static_cast<uint32_t>(segments.size()),
                                 static_cast<uint32_t>(sums.size()),
                                 schedule.slots};
      cuda::embed_backward(context_, plan, gdout.tensor(), 22.6F, drop.device, dtable.tensor());
      finish();
      const Dropout hd = on_host(drop);
      const double scale = static_cast<double>(22.6F);
      compare("embed forward", which, out, host::embed(ids, places, scale, table, positions, hd),
              rounding(dtype));
      Matrix wanted = host::embed_gradient(ids, scale, dout, pieces, hd);
      for (size_t i = 0; i < wanted.values.size(); ++i) wanted.values[i] += before.values[i];
      compare("embed backward", which, dtable, wanted, 1e-5);
    }
  }
}

void Checker::loss(DType dtype, int64_t tokens, int64_t pieces, int64_t width, int64_t chunk,
                   float smoothing) {
  const std::string which = std::string(name_of(dtype)) + " " + std::to_string(pieces) +
                            " pieces, chunks of " + std::to_string(chunk);
  Matrix hidden = normal(tokens, width), table = normal(pieces, width, 0.2);
  std::vector<uint32_t> targets;
  for (int64_t t = 0; t < tokens; ++t) {
    targets.push_back(static_cast<uint32_t>(random_() % static_cast<uint64_t>(pieces)));
  }
  if (tokens > 1) targets.back() = cuda::kNoToken;
  GpuMatrix ghidden(hidden, dtype), gtable(table, dtype);
  GpuArray<uint32_t> gtargets(targets);
  Matrix before = normal(pieces, width, 0.01);
  GpuMatrix logits(chunk, pieces, dtype, (pieces + 7) / 8 * 8);
  GpuMatrix dhidden(tokens, width, dtype), dtable(before, DType::kF32);
  GpuArray<double> sums(std::vector<double>{1, 2});
  GpuMatrix each(tokens, 2, DType::kF32);
  cuda::ProjectionLoss op;
  op.hidden = ghidden.tensor();
  op.table = gtable.tensor();
  op.targets = gtargets.get();
  op.smoothing = smoothing;
  op.scale = 0.25F;
  op.logits = logits.tensor();
  op.dhidden = dhidden.tensor();
  op.dtable = dtable.tensor();
  op.sums = sums.get();
  op.losses = each.tensor().row(0);
  cuda::projection_loss(context_, op);
  finish();
  auto wanted = host::projection_loss(hidden, table, targets, static_cast<double>(smoothing), 0.25);
  auto got = sums.download();
  add("loss", which + " smoothed", std::abs((got[0] - 1) / wanted.smoothed - 1), rounding(dtype));
  add("loss", which + " nll", std::abs((got[1] - 2) / wanted.nll - 1), rounding(dtype));
  compare("loss", which + " dhidden", dhidden, wanted.dhidden, 3 * rounding(dtype));
  for (size_t i = 0; i < before.values.size(); ++i) wanted.dtable.values[i] += before.values[i];
  compare("loss", which + " dtable", dtable, wanted.dtable, 3 * rounding(dtype));
  op.dhidden = op.dtable = {};
  cuda::projection_loss(context_, op);
  finish();
  got = sums.download();
  add("loss", which + " evaluated", std::abs((got[1] - 2) / wanted.nll - 2), rounding(dtype));
}

void Checker::losses() {
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    loss(dtype, 61, 1003, 64, 61, 0.1F);
    loss(dtype, 61, 1003, 64, 20, 0);
  }
  loss(DType::kBF16, 1, 8000, 128, 1, 0.1F);
  loss(DType::kBF16, 40, 32768, 64, 16, 0.1F);
  loss(DType::kBF16, 9, 50'001, 64, 9, 0.1F);
  loss(DType::kBF16, 5, 70'000, 64, 5, 0.1F);
}

void Checker::optimizer() {
  const int64_t n = 40'004;
  Matrix p = normal(1, n), m(1, n), v(1, n);
  GpuMatrix gp(p, DType::kF32), gm(m, DType::kF32), gv(v, DType::kF32);
  GpuMatrix copy(1, n, DType::kBF16);
  GpuArray<cuda::StepControl> control(std::vector<cuda::StepControl>(1));
  auto span = [&](const GpuMatrix& x) {
    return std::span<float>(x.tensor().row(0), static_cast<size_t>(n));
  };
  auto one_step = [&](uint64_t step, GpuMatrix& gg) {
    cuda::global_norm(context_, span(gg), {.clip = 10, .unscale = 0.5}, control.get());
    const AdamStep options{.rate = 0.01,
                           .beta1 = 0.9,
                           .beta2 = 0.98,
                           .epsilon = 1e-9,
                           .weight_decay = 0.1,
                           .step = step};
    cuda::adam_step(context_, options,
                    {span(gg), span(gp), span(gm), span(gv), copy.tensor().data, DType::kBF16},
                    control.get(), true);
    finish();
  };
  for (uint64_t step = 1; step <= 5; ++step) {
    Matrix g = normal(1, n);
    GpuMatrix gg(g, DType::kF32);
    one_step(step, gg);
    double squares = 0;
    for (double x : g.values) squares += 0.25 * x * x;
    const double norm = std::sqrt(squares);
    add("global norm", "clipped", std::abs(control.download()[0].norm / norm - 1), 1e-6);
    for (int64_t i = 0; i < n; ++i) {
      const double grad = 0.5 * g.at(0, i) * 10 / norm;
      m.at(0, i) = 0.9 * m.at(0, i) + 0.1 * grad;
      v.at(0, i) = 0.98 * v.at(0, i) + 0.02 * grad * grad;
      const auto s = static_cast<double>(step);
      const double mean = m.at(0, i) / (1 - std::pow(0.9, s));
      const double square = v.at(0, i) / (1 - std::pow(0.98, s));
      p.at(0, i) -= 0.01 * (mean / (std::sqrt(square) + 1e-9) + 0.1 * p.at(0, i));
    }
    add("adam", "gradient cleared", relative_error(gg.download(), Matrix(1, n)), 1e-30);
  }
  compare("adam", "parameters", gp, p, 2e-6);
  compare("adam", "first moment", gm, m, 2e-6);
  compare("adam", "second moment", gv, v, 2e-6);
  compare("adam", "compute copy", copy, p, rounding(DType::kBF16));
  // A gradient that is not finite leaves everything as it was, and is cleared.
  Matrix g = normal(1, n);
  g.at(0, 12'345) = INFINITY;
  GpuMatrix gg(g, DType::kF32);
  const Matrix held = gp.download();
  one_step(6, gg);
  const bool same = gp.download().values == held.values && control.download()[0].skip == 1;
  add("adam", "skipped when not finite", same ? 0 : INFINITY, 1);
  add("adam", "gradient cleared when skipped", relative_error(gg.download(), Matrix(1, n)), 1e-30);
}

}  // namespace

CheckResults check_operations(const cuda::Context& context, uint64_t seed) {
  Checker checker(context, seed);
  auto guarded = [&](const char* name, void (Checker::*part)()) {
    try {
      (checker.*part)();
    } catch (const std::exception& e) {
      std::printf("FAILED %s: %s\n", name, e.what());
      CheckResult& r = checker.results[name];
      ++r.checks;
      ++r.failed;
      r.worst = e.what();
    }
  };
  guarded("product", &Checker::products);
  guarded("norm", &Checker::norms);
  guarded("activation", &Checker::activations);
  guarded("attention", &Checker::attentions);
  guarded("embed", &Checker::embeddings);
  guarded("loss", &Checker::losses);
  guarded("optimizer", &Checker::optimizer);
  return checker.results;
}

}  // namespace reigen::bench
