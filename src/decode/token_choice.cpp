#include "decode/token_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "device/gpu.h"
#include "model/open_device.h"
#include "tensor/philox.h"

namespace reigen {
namespace {

void forbid_repetition(std::span<float> logits, std::span<const uint32_t> history, size_t n,
                       uint32_t eos) {
  if (history.size() < n) return;
  const auto last = history.last(n - 1);
  for (size_t at = 0; at + n <= history.size(); ++at) {
    const uint32_t next = history[at + n - 1];
    if (next != eos && std::equal(last.begin(), last.end(), history.begin() + at)) {
      logits[next] = kForbiddenLogit;
    }
  }
}

// Uniform in [0, 1).
double uniform(int64_t seed, DrawSite site) {
  const auto key = static_cast<uint64_t>(seed);
  const auto bits = philox({static_cast<uint32_t>(site.sentence),
                            static_cast<uint32_t>(site.sentence >> 32), site.sample, site.place},
                           {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  return static_cast<double>(((uint64_t{bits[0]} << 32) | bits[1]) >> 11) * 0x1p-53;
}

// Tokens by falling logit, all or the top_k likeliest, sorted as far as they are read.
class TopTokens {
 public:
  TopTokens(std::span<const float> logits, const SamplingOptions& options)
      : logits_(logits), order_(logits.size()) {
    std::iota(order_.begin(), order_.end(), uint32_t{0});
    if (options.top_k > 0) {
      sort_first(std::min(static_cast<size_t>(options.top_k), order_.size()));
      order_.resize(sorted_);
    }
  }

  uint32_t at(size_t place) {
    while (place >= sorted_) sort_first(std::min(order_.size(), std::max<size_t>(64, 4 * sorted_)));
    return order_[place];
  }
  const std::vector<uint32_t>& all() const { return order_; }

 private:
  void sort_first(size_t count) {
    std::partial_sort(order_.begin() + static_cast<ptrdiff_t>(sorted_),
                      order_.begin() + static_cast<ptrdiff_t>(count), order_.end(),
                      [&](uint32_t a, uint32_t b) {
                        return logits_[a] != logits_[b] ? logits_[a] > logits_[b] : a < b;
                      });
    sorted_ = count;
  }

  std::span<const float> logits_;
  std::vector<uint32_t> order_;
  size_t sorted_ = 0;
};

}  // namespace

void forbid_tokens(std::span<float> logits, std::span<const uint32_t> history,
                   std::span<const uint32_t> prefix, const DecodeOptions& options, uint32_t eos) {
  if (history.size() < prefix.size()) {
    const uint32_t forced = prefix[history.size()];
    for (size_t token = 0; token < logits.size(); ++token) {
      if (token != forced && std::isfinite(logits[token])) logits[token] = kForbiddenLogit;
    }
    return;
  }
  if (history.size() < static_cast<size_t>(options.min_length)) logits[eos] = kForbiddenLogit;
  if (options.no_repeat_ngram > 0) {
    forbid_repetition(logits, history, static_cast<size_t>(options.no_repeat_ngram), eos);
  }
}

DrawnToken draw_token(std::span<const float> logits, const SamplingOptions& options,
                      DrawSite site) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  auto drawn = [&](uint32_t token) {
    return DrawnToken{token, logits[token] - top - std::log(sum)};
  };
  if (!std::isfinite(sum)) return {0, std::numeric_limits<double>::quiet_NaN()};
  auto weight = [&](uint32_t token) {
    return std::exp((logits[token] - top) / options.temperature);
  };
  const double u = uniform(options.seed, site);
  if (options.top_k == 0 && options.top_p == 1) {
    double total = 0;
    for (uint32_t token = 0; token < logits.size(); ++token) total += weight(token);
    double left = u * total;
    uint32_t last = 0;  // rounding may leave a little after the last token
    for (uint32_t token = 0; token < logits.size(); ++token) {
      const double share = weight(token);
      if (share == 0) continue;
      last = token;
      if (left < share) break;
      left -= share;
    }
    return drawn(last);
  }
  TopTokens tokens(logits, options);
  double total = 0;
  for (const uint32_t token : tokens.all()) total += weight(token);
  size_t count = 0;
  double share = 0;
  do {
    share += weight(tokens.at(count++));
  } while (count < tokens.all().size() && share < options.top_p * total);
  double left = u * share;
  for (size_t place = 0; place + 1 < count; ++place) {
    const double one = weight(tokens.at(place));
    if (left < one) return drawn(tokens.at(place));
    left -= one;
  }
  return drawn(tokens.at(count - 1));
}

Device HostLogits::host_of(const Device& device) { return host_device(device, 0); }

Tensor HostLogits::fetched(const Tensor& logits, std::vector<float>& memory) const {
  Gpu* gpu = device_.gpu();
  if (gpu == nullptr) return logits;
  memory.resize(static_cast<size_t>(logits.rows * logits.stride));
  // The last row may end before its stride does.
  const auto elements = static_cast<size_t>((logits.rows - 1) * logits.stride + logits.cols);
  gpu->download(memory.data(), logits.data, elements * sizeof(float));
  Tensor host = logits;
  host.data = memory.data();
  return host;
}

Tensor HostLogits::of(std::span<const Tensor> logits) {
  if (logits.size() == 1) return fetched(logits[0], fetched_);
  const int64_t rows = logits[0].rows;
  const int64_t cols = logits[0].cols;
  mean_.assign(static_cast<size_t>(rows * cols), 0.0F);
  const Tensor mean = f32_matrix(mean_.data(), rows, cols);
  for (const Tensor& one : logits) {
    const Tensor host = fetched(one, fetched_);
    parallel_for(host_, rows, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const std::span<const float> row = host.row_span(r);
        const float top = *std::max_element(row.begin(), row.end());
        double sum = 0;
        for (const float logit : row) sum += std::exp(static_cast<double>(logit) - top);
        for (int64_t c = 0; c < cols; ++c) {
          mean.row(r)[c] += static_cast<float>(
              std::exp(static_cast<double>(row[static_cast<size_t>(c)]) - top) / sum);
        }
      }
    });
  }
  // A probability of 0, by rounding, must not make a row unusable.
  constexpr float kLeast = std::numeric_limits<float>::min();
  const auto models = static_cast<float>(logits.size());
  parallel_for(host_, rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      for (float& p : mean.row_span(r)) {
        if (std::isfinite(p)) p = std::log(std::max(p / models, kLeast));
      }
    }
  });
  return mean;
}

}  // namespace reigen
