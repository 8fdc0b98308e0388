#include "model/memory.h"

#include <algorithm>

#include "ops/projection_loss.h"

namespace reigen {

double ActivationBytes::of(uint64_t source_tokens, uint64_t target_tokens) const {
  return fixed + source_token * static_cast<double>(source_tokens) +
         target_token * static_cast<double>(target_tokens);
}

uint64_t ActivationBytes::most_tokens(double bytes) const {
  const double left = bytes - fixed;
  return left <= 0 ? 0 : static_cast<uint64_t>(left / std::max(source_token, target_token));
}

ActivationBytes activation_bytes(const ModelOptions& o, size_t vocabulary) {
  const auto d = static_cast<double>(o.width);
  const auto f = static_cast<double>(o.ffn_width);
  const auto heads = static_cast<double>(o.heads);
  const auto encoder = static_cast<double>(o.encoder_layers);
  const auto decoder = static_cast<double>(o.decoder_layers);
  // What each part's forward keeps for its backward, in numbers a token.
  const double seam = 2 * d + 2;              // the sum, its norm, two statistics
  const double self = 3 * d + d + heads + d;  // queries, keys, values; attended; log-sums; output
  const double cross = d + d + heads + d;     // queries; attended; log-sums; output
  const double feed_forward = 2 * f + d;      // before and after the activation; output
  const double ends = d + seam;               // embedding and the outermost norm
  const double backward =
      3 * d + std::max(4 * d, f);  // three running gradients, one sublayer's own
  const double index = 6;          // token numbers, places and sorted ids, in units of four bytes
  ActivationBytes bytes;
  bytes.source_token = 4 * (ends + encoder * (self + feed_forward + 2 * seam) + decoder * 2 * d +
                            d + 2 * d + backward + index);
  bytes.target_token =
      4 * (ends + decoder * (self + cross + feed_forward + 3 * seam) + d + backward + index);
  const double chunk = static_cast<double>(ProjectionLoss{}.chunk);
  bytes.fixed = 4 * chunk * static_cast<double>(vocabulary);
  return bytes;
}

}  // namespace reigen
