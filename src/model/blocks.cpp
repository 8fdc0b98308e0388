#include "model/blocks.h"

#include "model/packed_parameters.h"
#include "model/quantized_parameters.h"

namespace reigen {

LinearWeight Pass::factor(size_t index) const {
  return {weight(index), weights.packed != nullptr ? weights.packed->find(index) : nullptr};
}

Int8Matrix Pass::int8(size_t index) const {
  return weights.quantized != nullptr ? weights.quantized->matrix(index) : Int8Matrix();
}

Dropout Pass::dropout(double rate, uint32_t site, const SideIndex& side) const {
  if (!training) return {};
  return {static_cast<float>(rate), {seed, step, site}, side.numbers};
}

Seam::Seam(ParameterLayout& layout, const std::string& name, int64_t width, double dropout,
           uint32_t site)
    : gain_(layout.add(name + ".gain", 1, width)),
      shift_(layout.add(name + ".shift", 1, width)),
      rate_(dropout),
      site_(site) {}

Seam::Output Seam::forward(const Pass& pass, Tensor x, Tensor branch, size_t bias,
                           const SideIndex& side) {
  bias_ = bias;
  op_ = {};
  op_.x = x;
  op_.branch = branch;
  op_.gain = pass.vector(gain_);
  op_.shift = pass.vector(shift_);
  op_.n = pass.matrix(x.rows, x.cols);
  op_.stats = pass.numbers(x.rows, 2);
  op_.h = x;
  if (!branch.empty()) {
    op_.h = pass.residual(x.rows, x.cols);
    if (bias != kNone) op_.bias = pass.vector(bias);
    op_.dropout = pass.dropout(rate_, site_, side);
  }
  residual_norm_forward(pass.device, op_);
  return {op_.h, op_.n};
}

void Seam::infer(const Pass& pass, Tensor x, Tensor branch, size_t bias, Tensor h, Tensor n) const {
  ResidualNorm op;
  op.x = x;
  op.branch = branch;
  if (!branch.empty() && bias != kNone) op.bias = pass.vector(bias);
  op.gain = pass.vector(gain_);
  op.shift = pass.vector(shift_);
  op.h = h;
  op.n = n;
  op.stats = pass.numbers(x.rows, 2);
  residual_norm_forward(pass.device, op);
}

void Seam::backward(const Pass& pass, Tensor dn, Tensor dh, Tensor dx, Tensor dbranch) {
  ResidualNormGrad grad;
  grad.dn = dn;
  grad.dh = dh;
  grad.dx = dx;
  grad.dbranch = dbranch;
  grad.dgain = pass.gradient(gain_);
  grad.dshift = pass.gradient(shift_);
  if (bias_ != kNone) grad.dbias = pass.gradient(bias_);
  residual_norm_backward(pass.device, op_, grad);
}

AttentionLayer::AttentionLayer(ParameterLayout& layout, const std::string& name,
                               const ModelOptions& options, Kind kind, double dropout,
                               uint32_t site)
    : kind_(kind), heads_(options.heads), rate_(dropout), site_(site) {
  const int64_t d = options.width;
  auto add_bias_slice = [&](const std::string& part, int64_t width) {
    return options.biases ? layout.add(name + "." + part + ".bias", 1, width) : kNone;
  };
  output_ = layout.add(name + ".output.weight", d, d, 1);
  output_bias_ = add_bias_slice("output", d);
  if (kind == Kind::kCross) {
    input_ = layout.add(name + ".key_value.weight", 2 * d, d, 2);
    input_bias_ = add_bias_slice("key_value", 2 * d);
    query_ = layout.add(name + ".query.weight", d, d, 1);
    query_bias_ = add_bias_slice("query", d);
  } else {
    input_ = layout.add(name + ".query_key_value.weight", 3 * d, d, 3);
    input_bias_ = add_bias_slice("query_key_value", 3 * d);
  }
}

namespace {

// y = x weight^T + bias
void project_into(const Pass& pass, Tensor x, size_t weight, size_t bias, Tensor y) {
  linear_forward(pass.device, x, pass.factor(weight), y);
  if (bias != kNone) add_bias(pass.device, y, pass.vector(bias));
}

Tensor project(const Pass& pass, Tensor x, size_t weight, size_t bias) {
  Tensor y = pass.matrix(x.rows, pass.weight(weight).rows);
  project_into(pass, x, weight, bias, y);
  return y;
}

void project_backward(const Pass& pass, Tensor dy, Tensor x, size_t weight, size_t bias, Tensor dx,
                      bool accumulate) {
  if (bias != kNone) bias_backward(pass.device, dy, pass.gradient(bias));
  linear_backward_weight(pass.device, dy, x, pass.gradient(weight));
  linear_backward_input(pass.device, dy, pass.weight(weight), dx, accumulate);
}

}  // namespace

void AttentionLayer::forward(const Pass& pass, Tensor x, const SideIndex& side, Tensor memory,
                             Tensor out) {
  const int64_t d = x.cols;
  x_ = x;
  memory_ = memory;
  op_ = {};
  if (kind_ == Kind::kCross) {
    Tensor key_value = project(pass, memory, input_, input_bias_);
    op_.q = project(pass, x, query_, query_bias_);
    op_.k = key_value.columns(0, d);
    op_.v = key_value.columns(d, d);
    op_.key_offsets = pass.batch->source.offsets;
    op_.plan = pass.batch->cross;
  } else {
    Tensor all = project(pass, x, input_, input_bias_);
    op_.q = all.columns(0, d);
    op_.k = all.columns(d, d);
    op_.v = all.columns(2 * d, d);
    op_.key_offsets = side.offsets;
    op_.plan = kind_ == Kind::kCausal ? pass.batch->causal : pass.batch->self;
  }
  op_.query_offsets = side.offsets;
  op_.heads = static_cast<int>(heads_);
  op_.causal = kind_ == Kind::kCausal;
  op_.dropout = pass.dropout(rate_, site_, side);
  op_.out = pass.matrix(x.rows, d);
  op_.log_sums = pass.numbers(x.rows, heads_);
  attention_forward(pass.device, op_);
  // The seam adds the output's bias together with the residual.
  project_into(pass, op_.out, output_, kNone, out);
}

void AttentionLayer::backward(const Pass& pass, Tensor dy, Tensor dx, bool accumulate,
                              Tensor dmemory, bool accumulate_memory) {
  const int64_t d = x_.cols;
  AttentionGrad grad;
  grad.dout = pass.matrix(dy.rows, d);
  project_backward(pass, dy, op_.out, output_, kNone, grad.dout, false);
  if (kind_ == Kind::kCross) {
    Tensor dquery = pass.matrix(x_.rows, d);
    Tensor dkey_value = pass.matrix(memory_.rows, 2 * d);
    grad.dq = dquery;
    grad.dk = dkey_value.columns(0, d);
    grad.dv = dkey_value.columns(d, d);
    attention_backward(pass.device, op_, grad);
    project_backward(pass, dkey_value, memory_, input_, input_bias_, dmemory, accumulate_memory);
    project_backward(pass, dquery, x_, query_, query_bias_, dx, accumulate);
    return;
  }
  Tensor dall = pass.matrix(x_.rows, 3 * d);
  grad.dq = dall.columns(0, d);
  grad.dk = dall.columns(d, d);
  grad.dv = dall.columns(2 * d, d);
  attention_backward(pass.device, op_, grad);
  project_backward(pass, dall, x_, input_, input_bias_, dx, accumulate);
}

void AttentionLayer::project_memory(const Pass& pass, Tensor memory, Tensor cache) const {
  project_into(pass, memory, input_, input_bias_, cache);
}

void AttentionLayer::step(const Pass& pass, Tensor x, Tensor cache, const KeyLists& keys,
                          Tensor out) const {
  const int64_t d = x.cols;
  CachedAttention op;
  if (kind_ == Kind::kCross) {
    op.q = project(pass, x, query_, query_bias_);
  } else {
    const Tensor fresh = project(pass, x, input_, input_bias_);
    op.q = fresh.columns(0, d);
    op.new_k = fresh.columns(d, d);
    op.new_v = fresh.columns(2 * d, d);
  }
  op.k = cache.columns(0, d);
  op.v = cache.columns(d, d);
  op.keys = keys;
  op.heads = static_cast<int>(heads_);
  op.out = pass.matrix(x.rows, d);
  cached_attention(pass.device, op);
  project_into(pass, op.out, output_, kNone, out);
}

FeedForward::FeedForward(ParameterLayout& layout, const std::string& name,
                         const ModelOptions& options, double dropout, uint32_t site)
    : kind_(options.activation),
      rate_(dropout),
      site_(site),
      output_(layout.add(name + ".output.weight", options.width, options.ffn_width, 1)),
      output_bias_(layout.add(name + ".output.bias", 1, options.width)),
      input_(layout.add(name + ".input.weight", options.ffn_width, options.width, 1)),
      input_bias_(layout.add(name + ".input.bias", 1, options.ffn_width)) {}

void FeedForward::forward(const Pass& pass, Tensor x, const SideIndex& side, Tensor out) {
  x_ = x;
  op_.kind = kind_;
  op_.z = project(pass, x, input_, kNone);
  op_.bias = pass.vector(input_bias_);
  op_.dropout = pass.dropout(rate_, site_, side);
  const size_t mask = activation_mask_bytes(pass.device, kind_, op_.z.rows, op_.z.cols);
  op_.mask = mask > 0 ? pass.arena.bytes(mask) : nullptr;
  op_.out = mask > 0 ? op_.z : pass.matrix(op_.z.rows, op_.z.cols);
  activation_forward(pass.device, op_);
  project_into(pass, op_.out, output_, kNone, out);
}

void FeedForward::backward(const Pass& pass, Tensor dy, Tensor dx, bool accumulate) {
  Tensor dhidden = pass.matrix(op_.out.rows, op_.out.cols);
  project_backward(pass, dy, op_.out, output_, kNone, dhidden, false);
  activation_backward(pass.device, op_, dhidden, dhidden, pass.gradient(input_bias_));
  project_backward(pass, dhidden, x_, input_, kNone, dx, accumulate);
}

}  // namespace reigen
