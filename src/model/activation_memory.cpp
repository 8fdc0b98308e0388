#include "model/activation_memory.h"

#include <algorithm>

#include "model/weights.h"
#include "ops/backend.h"
#include "ops/projection_loss.h"

namespace reigen {

double ActivationBytes::of(uint64_t source_tokens, uint64_t target_tokens) const {
  double most = 0;
  for (const Moment& m : moments) {
    most = std::max(most, m.fixed + m.source_token * static_cast<double>(source_tokens) +
                              m.target_token * static_cast<double>(target_tokens));
  }
  return most;
}

double ActivationBytes::of_any(uint64_t tokens) const {
  return std::max(of(tokens, 0), of(0, tokens));  // convex, so the worst is at an end
}

uint64_t ActivationBytes::most_tokens(double bytes) const {
  double most = bytes;
  for (const Moment& m : moments) {
    most = std::min(most, (bytes - m.fixed) / std::max(m.source_token, m.target_token));
  }
  return most <= 0 ? 0 : static_cast<uint64_t>(most);
}

ActivationShape gpu_activations(const ModelOptions& options, DType type) {
  const auto element = static_cast<double>(size_of(type));
  return {.element = element,
          .residual = static_cast<double>(size_of(residual_type(type, options.norm))),
          .relu_in_place = options.activation == ActivationKind::kRelu,
          .loss_tokens = static_cast<double>(projection_loss_chunk(DeviceKind::kGpu)),
          .loss_element = element};
}

ActivationBytes activation_bytes(const ModelOptions& o, size_t vocabulary,
                                 const ActivationShape& shape) {
  const auto width = static_cast<double>(o.width);
  const double d = shape.element * width;  // bytes of a token's activation vector
  const double sum = shape.residual * width;
  const double f = shape.element * static_cast<double>(o.ffn_width);
  const double heads = 4 * static_cast<double>(o.heads);
  const auto encoder = static_cast<double>(o.encoder_layers);
  const auto decoder = static_cast<double>(o.decoder_layers);
  const bool post = o.norm == NormPlace::kPost;
  // Bytes per token that each block's forward stores for its backward.
  const double seam = sum + d + 8;        // the sum, its norm, two statistics
  const double self = 3 * d + d + heads;  // queries, keys, values; attended; log-sums
  const double cross = d + d + heads;     // queries; attended; log-sums
  const double feed_forward =             // before and after the activation
      shape.relu_in_place ? f + f / shape.element / 8 : 2 * f;
  const double ends = sum + d + (post ? 0 : d + 8);  // embedding, branch, the outermost norm
  const double source = ends + encoder * (self + feed_forward + 2 * seam) + decoder * 2 * d;
  const double target =
      ends + decoder * (self + cross + feed_forward + 3 * seam) + d;  // of the loss
  // Backward needs the gradient of the encoder output, running gradients of each stack, and the
  // temporaries of one sublayer.
  const double running = sum + (post ? d : 2 * d);
  const double own = std::max(4 * d, f);
  const double logits = shape.loss_tokens * shape.loss_element * static_cast<double>(vocabulary);
  // The arena rounds up to cache lines; a layer has fewer than 24 matrices.
  const double rounding = 24 * 64 * (encoder + decoder + 1);
  ActivationBytes bytes;
  auto add = [&](double source_more, double target_more, double fixed) {
    bytes.moments.push_back({source + source_more, target + target_more, rounding + fixed});
  };
  add(0, 8, logits);
  add(d, running + own, 0);            // in the decoder's self-attention or feed-forward
  add(d + 2 * d, running + 2 * d, 0);  // in the decoder's attention to the encoder
  add(d + running + own, running, 0);  // in the encoder
  return bytes;
}

uint64_t bf16_copies_bytes(const ModelOptions& o, size_t vocabulary, uint64_t tokens, int threads) {
  const auto chunk = static_cast<uint64_t>(projection_loss_chunk(DeviceKind::kCpu));
  const auto widest = static_cast<uint64_t>(std::max(o.ffn_width, 3 * o.width));
  const auto width = static_cast<uint64_t>(o.width);
  if (cpu_has_bf16()) {
    // Gradients of weights have the longest sums, and the output projection's input gradient has;
    // the other products have a weight as their smaller factor.
    const uint64_t longest = std::max({widest, tokens, uint64_t{vocabulary}});
    return bf16_products_bytes(o.width, static_cast<int64_t>(longest), threads);
  }
  const uint64_t elements = std::max(
      {tokens * widest, std::min(tokens, chunk) * vocabulary, vocabulary * width, widest * width});
  constexpr uint64_t kFactors = 2;
  return kFactors * sizeof(float) * elements;
}

double decoding_bytes(const ModelOptions& o, size_t vocabulary, double output_ratio,
                      double element) {
  constexpr double kShortSource = 4;  // tokens; shorter sources need more than this estimate
  const auto d = static_cast<double>(o.width);
  const double cached = 2 * d * (output_ratio + 10 / kShortSource);  // keys, values
  const double projected = 3 * d;  // half as many again wait for a slot
  const double logits = static_cast<double>(vocabulary) / kShortSource;
  // Logits are fp32 in every precision.
  return element * static_cast<double>(o.decoder_layers) * (cached + projected) + 4 * logits;
}

}  // namespace reigen
