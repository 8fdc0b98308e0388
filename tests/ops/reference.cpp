#include "ops/reference.h"

#include <algorithm>
#include <cmath>

#include "base/hash.h"

namespace reigen::reference {

Matrix random(int64_t rows, int64_t cols, uint64_t seed) {
  Matrix m(rows, cols);
  for (size_t i = 0; i < m.values.size(); ++i) {
    // Rounded to float, so that the operation and its reference start from the same numbers.
    double u = static_cast<double>(mix64(mix64(seed) + i) >> 11) * 0x1p-53;
    m.values[i] = static_cast<double>(static_cast<float>(2 * u - 1));
  }
  return m;
}

double drop_factor(const Dropout& dropout, int64_t row, uint32_t element, uint32_t head) {
  if (!dropout.active()) return 1;
  uint32_t block = (head << 16) + element / 8;
  auto words =
      philox(philox_counter(dropout.site, dropout.tokens[row], block), philox_key(dropout.site));
  uint32_t word = words[element % 8 / 2];
  uint32_t bits = element % 2 == 0 ? word & 0xFFFF : word >> 16;
  return bits < drop_threshold(dropout.rate) ? 0 : 1.0 / (1.0 - dropout.rate);
}

Matrix multiply(const Matrix& a, bool ta, const Matrix& b, bool tb) {
  int64_t inner = ta ? a.rows : a.cols;
  Matrix c(ta ? a.cols : a.rows, tb ? b.rows : b.cols);
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.cols; ++j) {
      for (int64_t k = 0; k < inner; ++k) {
        c.at(i, j) += (ta ? a.at(k, i) : a.at(i, k)) * (tb ? b.at(j, k) : b.at(k, j));
      }
    }
  }
  return c;
}

Normed residual_norm(const Matrix& x, const Matrix* branch, const Matrix* bias, const Matrix& gain,
                     const Matrix& shift, const Dropout& dropout) {
  Normed out{x, Matrix(x.rows, x.cols)};
  for (int64_t r = 0; r < x.rows; ++r) {
    double mean = 0;
    for (int64_t c = 0; c < x.cols; ++c) {
      if (branch != nullptr) {
        double y = branch->at(r, c) + (bias != nullptr ? bias->at(0, c) : 0);
        out.h.at(r, c) += y * drop_factor(dropout, r, static_cast<uint32_t>(c));
      }
      mean += out.h.at(r, c) / static_cast<double>(x.cols);
    }
    double variance = 0;
    for (int64_t c = 0; c < x.cols; ++c) {
      variance += std::pow(out.h.at(r, c) - mean, 2) / static_cast<double>(x.cols);
    }
    for (int64_t c = 0; c < x.cols; ++c) {
      double normed = (out.h.at(r, c) - mean) / std::sqrt(variance + 1e-5);
      out.n.at(r, c) = normed * gain.at(0, c) + shift.at(0, c);
    }
  }
  return out;
}

Matrix activation(ActivationKind kind, const Matrix& z, const Matrix& bias,
                  const Dropout& dropout) {
  Matrix out(z.rows, z.cols);
  for (int64_t r = 0; r < z.rows; ++r) {
    for (int64_t c = 0; c < z.cols; ++c) {
      double x = z.at(r, c) + bias.at(0, c);
      double y = 0;
      switch (kind) {
        case ActivationKind::kRelu:
          y = std::max(0.0, x);
          break;
        case ActivationKind::kGelu:
          y = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
          break;
        case ActivationKind::kSwish:
          y = x / (1 + std::exp(-x));
          break;
      }
      out.at(r, c) = y * drop_factor(dropout, r, static_cast<uint32_t>(c));
    }
  }
  return out;
}

Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v,
                 std::span<const uint32_t> query_offsets, std::span<const uint32_t> key_offsets,
                 int heads, bool causal, const Dropout& dropout) {
  Matrix out(q.rows, q.cols);
  const int64_t width = q.cols / heads;
  for (size_t s = 0; s + 1 < query_offsets.size(); ++s) {
    for (int64_t i = query_offsets[s]; i < query_offsets[s + 1]; ++i) {
      int64_t keys = key_offsets[s + 1] - key_offsets[s];
      if (causal) keys = std::min<int64_t>(keys, i - query_offsets[s] + 1);
      for (int64_t h = 0; h < heads; ++h) {
        std::vector<double> weights(static_cast<size_t>(keys));
        double sum = 0;
        for (int64_t j = 0; j < keys; ++j) {
          double score = 0;
          for (int64_t c = h * width; c < (h + 1) * width; ++c) {
            score += q.at(i, c) * k.at(key_offsets[s] + j, c);
          }
          double& weight = weights[static_cast<size_t>(j)];
          weight = std::exp(score / std::sqrt(static_cast<double>(width)));
          sum += weight;
        }
        for (int64_t j = 0; j < keys; ++j) {
          double factor =
              drop_factor(dropout, i, static_cast<uint32_t>(j), static_cast<uint32_t>(h));
          for (int64_t c = h * width; c < (h + 1) * width; ++c) {
            out.at(i, c) +=
                weights[static_cast<size_t>(j)] / sum * factor * v.at(key_offsets[s] + j, c);
          }
        }
      }
    }
  }
  return out;
}

Matrix embed(std::span<const uint32_t> ids, std::span<const uint32_t> offsets, double scale,
             const Matrix& table, const Matrix& positions, const Dropout& dropout) {
  Matrix out(static_cast<int64_t>(ids.size()), table.cols);
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    for (int64_t t = offsets[s]; t < offsets[s + 1]; ++t) {
      for (int64_t c = 0; c < table.cols; ++c) {
        double sum =
            scale * table.at(ids[static_cast<size_t>(t)], c) + positions.at(t - offsets[s], c);
        out.at(t, c) = sum * drop_factor(dropout, t, static_cast<uint32_t>(c));
      }
    }
  }
  return out;
}

Loss projection_loss(const Matrix& hidden, const Matrix& table, std::span<const uint32_t> targets,
                     double smoothing) {
  Matrix logits = multiply(hidden, false, table, true);
  Loss loss;
  for (int64_t t = 0; t < logits.rows; ++t) {
    double sum = 0;
    double mean = 0;
    for (int64_t v = 0; v < logits.cols; ++v) {
      sum += std::exp(logits.at(t, v));
      mean += logits.at(t, v) / static_cast<double>(logits.cols);
    }
    double nll = std::log(sum) - logits.at(t, targets[static_cast<size_t>(t)]);
    loss.nll += nll;
    loss.smoothed += (1 - smoothing) * nll + smoothing * (std::log(sum) - mean);
  }
  return loss;
}

Matrix numeric_gradient(const std::function<double(const Matrix&)>& f, const Matrix& x) {
  constexpr double kStep = 1e-5;
  Matrix gradient(x.rows, x.cols);
  Matrix moved = x;
  for (size_t i = 0; i < x.values.size(); ++i) {
    moved.values[i] = x.values[i] + kStep;
    double above = f(moved);
    moved.values[i] = x.values[i] - kStep;
    double below = f(moved);
    moved.values[i] = x.values[i];
    gradient.values[i] = (above - below) / (2 * kStep);
  }
  return gradient;
}

double weighted(const Matrix& y, const Matrix& weights) {
  double sum = 0;
  for (size_t i = 0; i < y.values.size(); ++i) sum += y.values[i] * weights.values[i];
  return sum;
}

}  // namespace reigen::reference
