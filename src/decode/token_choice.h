// Choosing tokens on the host: tokens that may not follow, and tokens drawn at random.
//
// A plain beam search needs none of this and leaves its logits on the device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/decode_options.h"
#include "device/device.h"
#include "tensor/tensor.h"

namespace reigen {

// The logit of a token that may not follow: finite, as beam_step() requires, and below any other.
inline constexpr float kForbiddenLogit = -1e9F;
// A log-probability below this is that of a forbidden token.
inline constexpr double kForbiddenTotal = -1e8;

// Forbids what the rules exclude after `history`, the tokens of a translation so far: everything
// but the next token of `prefix`, its forced beginning; the end before min-length tokens; a token
// that would repeat an n-gram. The end is never forbidden as a repetition.
void forbid_tokens(std::span<float> logits, std::span<const uint32_t> history,
                   std::span<const uint32_t> prefix, const DecodeOptions& options, uint32_t eos);

// The place of a random choice. The same values give the same choice.
struct DrawSite {
  uint64_t sentence = 0;
  uint32_t sample = 0;  // of the same sentence
  uint32_t place = 0;   // of the token in the translation
};

struct DrawnToken {
  uint32_t token = 0;
  double log_probability = 0;  // by the logits, without temperature, top-k and top-p
};

// Draws from softmax(logits / temperature), restricted to the top_k likeliest tokens and then to
// the fewest that have the share top_p. Among equal logits the lower token comes first. A log-
// probability that is not finite says that the logits are not.
DrawnToken draw_token(std::span<const float> logits, const SamplingOptions& options, DrawSite site);

// Logits of a step in host memory, where they may be changed.
class HostLogits {
 public:
  explicit HostLogits(const Device& device) : device_(device), host_(host_of(device)) {}

  // Of one model, or the logarithm of the mean probability of several.
  Tensor of(std::span<const Tensor> logits);
  const Device& host() const { return host_; }

 private:
  static Device host_of(const Device& device);
  Tensor fetched(const Tensor& logits, std::vector<float>& memory) const;

  const Device& device_;
  Device host_;
  std::vector<float> fetched_;
  std::vector<float> mean_;
};

}  // namespace reigen
