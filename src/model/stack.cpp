#include "model/stack.h"

#include <algorithm>

namespace reigen {

LayerStack::LayerStack(ParameterLayout& layout, const std::string& name,
                       const ModelOptions& options, const DropoutOptions& dropout, int64_t layers,
                       bool decoder, uint32_t first_site)
    : decoder_(decoder), post_(options.norm == NormPlace::kPost), begin_(layout.elements()) {
  using Kind = AttentionLayer::Kind;
  std::vector<Seam> seams;  // from the output down, as they enter the layout
  auto add_seam = [&](const std::string& seam_name, uint32_t site) {
    seams.emplace_back(layout, seam_name, options.width, dropout.residual, site);
  };
  if (!post_) add_seam(name + ".norm", first_site);
  for (int64_t l = layers - 1; l >= 0; --l) {
    const std::string prefix = name + "." + std::to_string(l);
    const uint32_t site = first_site + 8 * (static_cast<uint32_t>(l) + 1);
    Layer layer;
    auto attention = [&](const std::string& part, Kind kind, uint32_t offset) {
      if (post_) add_seam(prefix + "." + part + "_norm", site + offset);
      layer.attention.emplace_back(layout, prefix + "." + part, options, kind, dropout.attention,
                                   site + offset + 1);
      if (!post_) add_seam(prefix + "." + part + "_norm", site + offset);
    };
    if (post_) add_seam(prefix + ".ffn_norm", site);
    layer.feed_forward.emplace_back(layout, prefix + ".ffn", options, dropout.activation, site + 1);
    if (!post_) add_seam(prefix + ".ffn_norm", site);
    if (decoder) attention("cross", Kind::kCross, 2);
    attention("self", decoder ? Kind::kCausal : Kind::kSelf, 4);
    std::reverse(layer.attention.begin(), layer.attention.end());
    layer.end = layout.elements();
    layers_.push_back(std::move(layer));
  }
  std::reverse(layers_.begin(), layers_.end());
  std::reverse(seams.begin(), seams.end());
  seams_ = std::move(seams);
}

void LayerStack::sublayer_forward(const Pass& pass, size_t index, Tensor x, const SideIndex& side,
                                  Tensor memory, Tensor out) {
  const size_t per_layer = decoder_ ? 3 : 2;
  Layer& layer = layers_[index / per_layer];
  const size_t part = index % per_layer;
  if (part + 1 == per_layer) return layer.feed_forward[0].forward(pass, x, side, out);
  layer.attention[part].forward(pass, x, side, memory, out);
}

void LayerStack::sublayer_backward(const Pass& pass, size_t index, Tensor dy, Tensor dx,
                                   bool accumulate, Tensor dmemory) {
  const size_t per_layer = decoder_ ? 3 : 2;
  Layer& layer = layers_[index / per_layer];
  const size_t part = index % per_layer;
  if (part + 1 == per_layer) {
    layer.feed_forward[0].backward(pass, dy, dx, accumulate);
  } else {
    const bool first =
        index + 2 == sublayers();  // the top cross-attention is the first to write dmemory
    layer.attention[part].backward(pass, dy, dx, accumulate, dmemory, !first);
  }
}

size_t LayerStack::output_bias(size_t index) const {
  const size_t per_layer = decoder_ ? 3 : 2;
  const Layer& layer = layers_[index / per_layer];
  const size_t part = index % per_layer;
  return part + 1 == per_layer ? layer.feed_forward[0].output_bias()
                               : layer.attention[part].output_bias();
}

Tensor LayerStack::forward(const Pass& pass, Tensor x, const SideIndex& side, Tensor memory) {
  const Tensor branch =
      pass.matrix(x.rows, x.cols);  // the seam reads it at once, so one buffer serves all sublayers
  Tensor residual = x;
  Tensor n = post_ ? x : seams_[0].forward(pass, x, {}, kNone, side).n;
  for (size_t i = 0; i < sublayers(); ++i) {
    sublayer_forward(pass, i, n, side, memory, branch);
    Seam::Output out =
        seams_[post_ ? i : i + 1].forward(pass, residual, branch, output_bias(i), side);
    n = out.n;
    residual = post_ ? out.n : out.h;
  }
  return n;
}

// `sublayer(i, n, branch)` writes the branch of sublayer i. Three buffers serve all sublayers; a
// sublayer's temporaries are released at once, so that they stay in the CPU's cache.
template <class Sublayer>
Tensor LayerStack::infer_with(const Pass& pass, Tensor x, Sublayer sublayer) {
  const Tensor other = pass.matrix(x.rows, x.cols);
  const Tensor branch = pass.matrix(x.rows, x.cols);
  const Tensor h = post_ ? other : x;
  const Tensor n = post_ ? x : other;
  if (!post_) seams_[0].infer(pass, x, {}, kNone, h, n);
  for (size_t i = 0; i < sublayers(); ++i) {
    const Arena::Mark mark = pass.arena.mark();
    sublayer(i, n, branch);
    seams_[post_ ? i : i + 1].infer(pass, post_ ? n : h, branch, output_bias(i), h, n);
    pass.arena.release(mark);
  }
  return n;
}

Tensor LayerStack::infer(const Pass& pass, Tensor x, const SideIndex& side) {
  return infer_with(pass, x, [&](size_t i, Tensor n, Tensor branch) {
    sublayer_forward(pass, i, n, side, {}, branch);
  });
}

void LayerStack::sublayer_step(const Pass& pass, size_t index, Tensor x, const DecodeStep& at,
                               Tensor out) {
  const size_t l = index / 3;
  switch (index % 3) {
    case 0:
      return layers_[l].attention[0].step(pass, x, at.self_caches[l], at.ancestors, out);
    case 1:
      return layers_[l].attention[1].step(pass, x, at.cross_caches[l], at.sources, out);
    default:
      return layers_[l].feed_forward[0].forward(pass, x, {}, out);
  }
}

Tensor LayerStack::step(const Pass& pass, Tensor x, const DecodeStep& at) {
  return infer_with(
      pass, x, [&](size_t i, Tensor n, Tensor branch) { sublayer_step(pass, i, n, at, branch); });
}

void LayerStack::project_memory(const Pass& pass, Tensor memory,
                                std::span<const Tensor> cross_caches) const {
  for (size_t l = 0; l < layers_.size(); ++l) {
    layers_[l].attention[1].project_memory(pass, memory, cross_caches[l]);
  }
}

Tensor LayerStack::backward(const Pass& pass, Tensor dout, Tensor dmemory,
                            const std::function<void(size_t)>& ready) {
  const size_t per_layer = decoder_ ? 3 : 2;
  // Three buffers serve all sublayers; a sublayer's temporaries are released at once.
  const Tensor dresidual = pass.residual(dout.rows, dout.cols);
  const Tensor dbranch = pass.matrix(dout.rows, dout.cols);
  const Tensor dinput = post_ ? dresidual : pass.matrix(dout.rows, dout.cols);
  Tensor dn = dout;  // gradient of the output of the seam above
  auto complete = [&](const Layer& layer) {
    complete_gradients(pass.device);
    ready(layer.end);
  };
  for (size_t i = sublayers(); i-- > 0;) {
    const Arena::Mark mark = pass.arena.mark();
    const bool top = i + 1 == sublayers();
    // Post-norm: the residual is the output of the seam below, so both gradients are of the same
    // tensor and the sublayer accumulates into it.
    seams_[post_ ? i : i + 1].backward(pass, dn, post_ || top ? Tensor() : dresidual, dresidual,
                                       dbranch);
    // Pre-norm: this seam holds the first norm of the layer above, whose gradient is final now.
    if (!post_ && !top && (i + 1) % per_layer == 0) complete(layers_[(i + 1) / per_layer]);
    sublayer_backward(pass, i, dbranch, dinput, post_, dmemory);
    dn = dinput;
    pass.arena.release(mark);
    if (post_ && i % per_layer == 0) complete(layers_[i / per_layer]);
  }
  if (post_) return dresidual;
  seams_[0].backward(pass, dn, dresidual, dresidual, {});
  complete(layers_[0]);
  return dresidual;
}

}  // namespace reigen
