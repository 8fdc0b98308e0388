#include "model/memory.h"

#include <algorithm>

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

ActivationBytes activation_bytes(const ModelOptions& o, size_t vocabulary) {
  const auto d = static_cast<double>(o.width);
  const auto f = static_cast<double>(o.ffn_width);
  const auto heads = static_cast<double>(o.heads);
  const auto encoder = static_cast<double>(o.encoder_layers);
  const auto decoder = static_cast<double>(o.decoder_layers);
  const bool post = o.norm == NormPlace::kPost;
  // What each part's forward keeps for its backward, in numbers a token.
  const double seam = 2 * d + 2;               // the sum, its norm, two statistics
  const double self = 3 * d + d + heads + d;   // queries, keys, values; attended; log-sums; output
  const double cross = d + d + heads + d;      // queries; attended; log-sums; output
  const double feed_forward = 2 * f + d;       // before and after the activation; output
  const double ends = d + (post ? 0 : d + 2);  // embedding and the outermost norm
  const double index = 6;  // token numbers, losses and sorted ids, in units of four bytes
  const double source = ends + encoder * (self + feed_forward + 2 * seam) + decoder * 2 * d + index;
  const double target =
      ends + decoder * (self + cross + feed_forward + 3 * seam) + d + index;  // d: of the loss
  // Backward has a gradient of the memory, running gradients of each stack, and one sublayer's own.
  const double running = post ? 2 * d : 3 * d;
  const double own = std::max(4 * d, f);
  const double logits =
      static_cast<double>(ProjectionLoss{}.chunk) * static_cast<double>(vocabulary);
  // The arena hands out whole cache lines, to fewer than 24 matrices a layer.
  const double rounding = 24 * 16 * (encoder + decoder + 1);
  ActivationBytes bytes;
  auto add = [&](double source_more, double target_more, double fixed) {
    bytes.moments.push_back(
        {4 * (source + source_more), 4 * (target + target_more), 4 * (rounding + fixed)});
  };
  add(0, 0, logits);
  add(d, running + own, 0);            // in the decoder: itself, or forward
  add(d + 2 * d, running + 2 * d, 0);  // in its attention to the encoder
  add(d + running + own, running, 0);  // in the encoder
  return bytes;
}

double decoding_bytes(const ModelOptions& o, size_t vocabulary, double output_ratio) {
  constexpr double kShortSource = 4;  // tokens; shorter ones weigh more than this counts
  const auto d = static_cast<double>(o.width);
  const double cached = 3 * d * (output_ratio + 10 / kShortSource);  // queries beside keys, values
  const double projected = 2 * d;
  const double logits = static_cast<double>(vocabulary) / kShortSource;
  return 4 * (static_cast<double>(o.decoder_layers) * (cached + projected) + logits);
}

}  // namespace reigen
