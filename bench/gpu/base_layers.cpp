// The sublayers of the base model, forward and backward, and the stacks they make.
#include "base_state.h"
#include "ops/cuda/activation.h"
#include "ops/cuda/matmul.h"
#include "ops/cuda/residual_norm.h"

namespace reigen::bench {
namespace {

// Only while profiling: making text for every launch would cost the host half a millisecond.
std::string shape_of(bool wanted, int64_t tokens, const Tensor& w) {
  if (!wanted) return {};
  return std::to_string(tokens) + "x" + std::to_string(w.rows) + "x" + std::to_string(w.cols);
}

}  // namespace

void BaseStep::State::forward_product(Tensor x, const Weight& w, Tensor y) {
  timed("products", "forward " + shape_of(profiling, x.rows, w.compute), "product", 0,
        product_flops(x.rows, w.compute), [&] { cuda::linear_forward(context, x, w.compute, y); });
}

void BaseStep::State::input_product(Tensor dy, const Weight& w, Tensor dx, bool accumulate) {
  timed("products",
        (accumulate ? "input, adds " : "input ") + shape_of(profiling, dy.rows, w.compute),
        "product", 0, product_flops(dy.rows, w.compute),
        [&] { cuda::linear_backward_input(context, dy, w.compute, dx, accumulate); });
}

void BaseStep::State::weight_product(Tensor dy, Tensor x, const Weight& w) {
  timed("products", "weight " + shape_of(profiling, dy.rows, w.compute), "product", 0,
        product_flops(dy.rows, w.compute), [&] {
          if (other == nullptr) return cuda::linear_backward_weight(context, dy, x, w.gradient);
          turn = 1 - turn;
          written[turn].record(context.stream());
          written[turn].wait_on(other->stream());
          cuda::linear_backward_weight(*other, dy, x, w.gradient);
        });
}

Tensor BaseStep::State::seam_forward(SeamBuffers& s, const Side& side, Tensor x,
                                     Tensor branch_out) {
  s.op.x = x;
  s.op.branch = branch_out;
  s.op.gain = s.gain.master;
  s.op.shift = s.shift.master;
  s.op.bias = s.bias.master;
  s.op.dropout = dropout(side, s.site);
  const bool plain = branch_out.empty();
  const double bytes =
      bytes_of(x) + bytes_of(s.op.n) + (plain ? 0 : bytes_of(s.op.h) + bytes_of(branch_out));
  timed("norm", plain ? "norm forward, no branch" : "residual+norm forward", "norm forward", bytes,
        0, [&] { cuda::residual_norm_forward(context, s.op); });
  return s.op.n;
}

void BaseStep::State::seam_backward(SeamBuffers& s, const Side& side, Tensor dn, Tensor dh,
                                    Tensor dx, Tensor dbranch_out) {
  s.op.dropout = dropout(side, s.site);
  ResidualNormGrad g;
  g.dn = dn;
  g.dh = dh;
  g.dx = dx;
  g.dbranch = dbranch_out;
  g.dgain = s.gain.gradient;
  g.dshift = s.shift.gradient;
  g.dbias = s.bias.gradient;
  const double bytes = bytes_of(dn) + 2 * bytes_of(dx) + (dh.empty() ? 0 : bytes_of(dh)) +
                       (dbranch_out.empty() ? 0 : bytes_of(dbranch_out));
  timed("norm", dh.empty() ? "residual+norm backward, top" : "residual+norm backward",
        "norm backward", bytes, 0, [&] { cuda::residual_norm_backward(context, s.op, g); });
}

void BaseStep::State::attention_forward(AttentionBuffers& a, Tensor x, Tensor memory,
                                        uint32_t site) {
  a.x = x;
  Tensor joined = a.cross ? a.op.k : a.op.q;
  joined.cols = joined.stride;
  forward_product(a.cross ? memory : x, a.in, joined);
  if (a.cross) forward_product(x, a.query, a.op.q);
  a.op.dropout = dropout(*a.side, site);
  const double bytes = 2 * bytes_of(a.op.q) + 2 * bytes_of(a.op.k);
  timed("attention",
        a.cross       ? "cross attention forward"
        : a.op.causal ? "causal attention forward"
                      : "self attention forward",
        "attention forward", bytes, 0,
        [&] { cuda::attention_forward(context, a.op, a.lists->plan); });
  forward_product(a.op.out, a.out, branch.rows_from(0, x.rows));
}

void BaseStep::State::attention_backward(AttentionBuffers& a, Tensor memory, bool* first_memory) {
  const int64_t rows = a.x.rows;
  const Tensor dy = now->dbranch.rows_from(0, rows);
  const Tensor dx = dinput.rows_from(0, rows);
  AttentionGrad g;
  g.dout = dattended.rows_from(0, rows);
  weight_product(dy, a.op.out, a.out);
  input_product(dy, a.out, g.dout, false);
  Tensor joined = now->dqkv.rows_from(0, a.other->rows);
  if (a.cross) {
    joined.cols = joined.stride = 2 * kWidth;
    g.dq = now->dquery;
    g.dk = joined.columns(0, kWidth);
    g.dv = joined.columns(kWidth, kWidth);
  } else {
    g.dq = joined.columns(0, kWidth);
    g.dk = joined.columns(kWidth, kWidth);
    g.dv = joined.columns(2 * kWidth, kWidth);
  }
  const double bytes = 4 * bytes_of(a.op.q) + 4 * bytes_of(a.op.k);
  timed("attention",
        a.cross       ? "cross attention backward"
        : a.op.causal ? "causal attention backward"
                      : "self attention backward",
        "attention backward", bytes, 0,
        [&] { cuda::attention_backward(context, a.op, g, a.lists->plan); });
  if (!a.cross) {
    weight_product(joined, a.x, a.in);
    input_product(joined, a.in, dx, false);
    return;
  }
  weight_product(joined, memory, a.in);
  input_product(joined, a.in, dmemory, !*first_memory);
  *first_memory = false;
  weight_product(now->dquery, a.x, a.query);
  input_product(now->dquery, a.query, dx, false);
}

void BaseStep::State::ffn_forward(FfnBuffers& f, const Side& side, Tensor x, uint32_t site) {
  f.x = x;
  forward_product(x, f.in, f.op.z);
  f.op.dropout = dropout(side, site);
  timed("activation", "activation forward", "activation forward", 2 * bytes_of(f.op.z), 0,
        [&] { cuda::activation_forward(context, f.op, f.mask); });
  forward_product(f.op.out, f.out, branch.rows_from(0, x.rows));
}

void BaseStep::State::ffn_backward(FfnBuffers& f) {
  const int64_t rows = f.x.rows;
  const Tensor dy = now->dbranch.rows_from(0, rows);
  const Tensor dz = now->dmiddle.rows_from(0, rows);
  weight_product(dy, f.op.out, f.out);
  if (options.mask_epilogue) {
    timed("products", "input, masked " + shape_of(profiling, rows, f.out.compute),
          "product epilogue", 0, product_flops(rows, f.out.compute), [&] {
            cuda::linear_backward_input_masked(context, dy, f.out.compute, f.op.dropout.scale(),
                                               f.mask, dz);
          });
  } else {
    input_product(dy, f.out, dz, false);
    timed("activation", "activation backward", "activation backward", 2 * bytes_of(dz), 0,
          [&] { cuda::activation_backward(context, f.op, dz, dz, f.in_bias.gradient, f.mask); });
  }
  if (options.mask_epilogue && options.sum_epilogue) {
    timed("products", "weight, bias too " + shape_of(profiling, rows, f.in.compute),
          "product epilogue", 0, product_flops(rows, f.in.compute), [&] {
            context.matmul().run(context, {dz, Transpose::kYes, f.x, Transpose::kNo, f.in.gradient,
                                           1, 1, cuda::Epilogue::kSumA, bias_sums.data});
          });
    timed("activation", "bias gradient added", "product epilogue", 0, 0,
          [&] { cuda::bias_backward(context, bias_sums, f.in_bias.gradient); });
  } else {
    if (options.mask_epilogue) {
      timed("activation", "bias gradient", "bias", bytes_of(dz), 0,
            [&] { cuda::bias_backward(context, dz, f.in_bias.gradient); });
    }
    weight_product(dz, f.x, f.in);
  }
  input_product(dz, f.in, dinput.rows_from(0, rows), false);
}

Tensor BaseStep::State::stack_forward(StackBuffers& stack, Tensor memory) {
  const Side& side = *stack.side;
  Tensor x = stack.embedded;
  Tensor n = seam_forward(stack.first, side, x, {});
  const Tensor out = branch.rows_from(0, side.rows);
  for (auto& layer : stack.layers) {
    size_t part = 0;
    for (auto& a : layer.attention) {
      attention_forward(a, n, memory, layer.seams[part].site + 500);
      n = seam_forward(layer.seams[part], side, x, out);
      x = layer.seams[part++].op.h;
    }
    ffn_forward(layer.ffn, side, n, layer.seams[part].site + 500);
    n = seam_forward(layer.seams[part], side, x, out);
    x = layer.seams[part].op.h;
  }
  return n;
}

Tensor BaseStep::State::stack_backward(StackBuffers& stack, Tensor dout, Tensor memory,
                                       bool* first_memory) {
  const Side& side = *stack.side;
  const Tensor dresidual = stack.side == &source ? dresidual_s : dresidual_t;
  Tensor dn = dout;
  bool top = true;
  for (size_t l = stack.layers.size(); l-- > 0;) {
    LayerBuffers& layer = stack.layers[l];
    for (size_t part = layer.seams.size(); part-- > 0;) {
      if (other != nullptr) {
        now = now == &passing[0] ? &passing[1] : &passing[0];
        now->read.wait_on(context.stream());
      }
      const Tensor dy = now->dbranch.rows_from(0, side.rows);
      seam_backward(layer.seams[part], side, dn, top ? Tensor() : dresidual, dresidual, dy);
      top = false;
      if (part + 1 == layer.seams.size()) {
        ffn_backward(layer.ffn);
      } else {
        attention_backward(layer.attention[part], memory, first_memory);
      }
      if (other != nullptr) now->read.record(other->stream());
      dn = dinput.rows_from(0, side.rows);
    }
    timed("norm", "sums over tokens settled", "norm backward", 0, 0, [&] { context.settle(); });
  }
  seam_backward(stack.first, side, dn, dresidual, dresidual, {});
  timed("norm", "sums over tokens settled", "norm backward", 0, 0, [&] { context.settle(); });
  return dresidual;
}

}  // namespace reigen::bench
