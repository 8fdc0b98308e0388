#include "ops/reference.h"

#include <algorithm>
#include <cmath>

#include "base/hash.h"

namespace reigen::reference {

Matrix normal(int64_t rows, int64_t cols, uint64_t seed, double deviation) {
  Matrix m(rows, cols);
  auto uniform = [&](uint64_t i) {  // in (0, 1]
    return (static_cast<double>(mix64(mix64(seed) + i) >> 11) + 1) * 0x1p-53;
  };
  for (size_t i = 0; i < m.values.size(); ++i) {  // Box-Muller
    const double radius = std::sqrt(-2 * std::log(uniform(2 * i)));
    const double value = deviation * radius * std::cos(2 * M_PI * uniform(2 * i + 1));
    m.values[i] = static_cast<double>(static_cast<float>(value));
  }
  return m;
}

Matrix sum(const Matrix& a, const Matrix& b) {
  Matrix out = a;
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] += b.values[i];
  return out;
}

double drop_factor(const Dropout& dropout, int64_t row, int64_t element, int64_t head) {
  if (!dropout.active()) return 1;
  const auto block = static_cast<uint32_t>((head << 16) + element / 8);
  auto words =
      philox(philox_counter(dropout.site, dropout.tokens[row], block), philox_key(dropout.site));
  const uint32_t word = words[static_cast<size_t>(element % 8 / 2)];
  const uint32_t bits = element % 2 == 0 ? word & 0xFFFF : word >> 16;
  return bits < drop_threshold(dropout.rate) ? 0 : 1.0 / (1.0 - static_cast<double>(dropout.rate));
}

Matrix multiply(const Matrix& a, bool ta, const Matrix& b, bool tb) {
  const int64_t inner = ta ? a.rows : a.cols;
  Matrix c(ta ? a.cols : a.rows, tb ? b.rows : b.cols);
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t k = 0; k < inner; ++k) {
      const double left = ta ? a.at(k, i) : a.at(i, k);
      for (int64_t j = 0; j < c.cols; ++j) c.at(i, j) += left * (tb ? b.at(j, k) : b.at(k, j));
    }
  }
  return c;
}

namespace {

struct Moments {
  double mean = 0;
  double inverse = 0;
};

Moments moments(const Matrix& m, int64_t row) {
  const auto width = static_cast<double>(m.cols);
  Moments out;
  for (int64_t c = 0; c < m.cols; ++c) out.mean += m.at(row, c) / width;
  double variance = 0;
  for (int64_t c = 0; c < m.cols; ++c) variance += std::pow(m.at(row, c) - out.mean, 2) / width;
  out.inverse = 1 / std::sqrt(variance + 1e-5);
  return out;
}

}  // namespace

Normed residual_norm(const Matrix& x, const Matrix* branch, const Matrix* bias, const Matrix& gain,
                     const Matrix& shift, const Dropout& dropout) {
  Normed out{x, Matrix(x.rows, x.cols)};
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; branch != nullptr && c < x.cols; ++c) {
      const double y = branch->at(r, c) + (bias != nullptr ? bias->at(0, c) : 0);
      out.h.at(r, c) += y * drop_factor(dropout, r, c);
    }
    const Moments m = moments(out.h, r);
    for (int64_t c = 0; c < x.cols; ++c) {
      out.n.at(r, c) = (out.h.at(r, c) - m.mean) * m.inverse * gain.at(0, c) + shift.at(0, c);
    }
  }
  return out;
}

NormGradients residual_norm_gradients(const Matrix& h, const Matrix& gain, const Matrix& dn,
                                      const Matrix* dh, const Dropout& dropout) {
  NormGradients out{Matrix(h.rows, h.cols), Matrix(h.rows, h.cols), Matrix(1, h.cols),
                    Matrix(1, h.cols), Matrix(1, h.cols)};
  const auto width = static_cast<double>(h.cols);
  for (int64_t r = 0; r < h.rows; ++r) {
    const Moments m = moments(h, r);
    double mean = 0;
    double mean_x = 0;
    for (int64_t c = 0; c < h.cols; ++c) {
      const double x = (h.at(r, c) - m.mean) * m.inverse;
      const double dy = dn.at(r, c) * gain.at(0, c);
      mean += dy / width;
      mean_x += dy * x / width;
      out.dgain.at(0, c) += dn.at(r, c) * x;
      out.dshift.at(0, c) += dn.at(r, c);
    }
    for (int64_t c = 0; c < h.cols; ++c) {
      const double x = (h.at(r, c) - m.mean) * m.inverse;
      const double dy = dn.at(r, c) * gain.at(0, c);
      const double dx = m.inverse * (dy - mean - x * mean_x) + (dh != nullptr ? dh->at(r, c) : 0);
      out.dx.at(r, c) = dx;
      out.dbranch.at(r, c) = dx * drop_factor(dropout, r, c);
      out.dbias.at(0, c) += out.dbranch.at(r, c);
    }
  }
  return out;
}

namespace {

constexpr double kGelu = 0.79788456080286535588;  // sqrt(2 / pi)

double activate(ActivationKind kind, double x) {
  if (kind == ActivationKind::kRelu) return std::max(0.0, x);
  if (kind == ActivationKind::kSwish) return x / (1 + std::exp(-x));
  if (kind == ActivationKind::kGeluErf) return 0.5 * x * std::erfc(-x * M_SQRT1_2);
  return 0.5 * x * (1 + std::tanh(kGelu * (x + 0.044715 * x * x * x)));
}

double slope(ActivationKind kind, double x) {
  if (kind == ActivationKind::kRelu) return x > 0 ? 1 : 0;
  if (kind == ActivationKind::kSwish) {
    const double s = 1 / (1 + std::exp(-x));
    return s + x * s * (1 - s);
  }
  if (kind == ActivationKind::kGeluErf) {
    return 0.5 * std::erfc(-x * M_SQRT1_2) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
  }
  const double t = std::tanh(kGelu * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kGelu * (1 + 3 * 0.044715 * x * x);
}

}  // namespace

Matrix activation(ActivationKind kind, const Matrix& z, const Matrix& bias,
                  const Dropout& dropout) {
  Matrix out(z.rows, z.cols);
  for (int64_t r = 0; r < z.rows; ++r) {
    for (int64_t c = 0; c < z.cols; ++c) {
      out.at(r, c) = activate(kind, z.at(r, c) + bias.at(0, c)) * drop_factor(dropout, r, c);
    }
  }
  return out;
}

Matrix activation_gradient(ActivationKind kind, const Matrix& z, const Matrix& bias,
                           const Dropout& dropout, const Matrix& dout) {
  Matrix dz(z.rows, z.cols);
  for (int64_t r = 0; r < z.rows; ++r) {
    for (int64_t c = 0; c < z.cols; ++c) {
      dz.at(r, c) =
          dout.at(r, c) * slope(kind, z.at(r, c) + bias.at(0, c)) * drop_factor(dropout, r, c);
    }
  }
  return dz;
}

Matrix column_sums(const Matrix& m) {
  Matrix out(1, m.cols);
  for (int64_t r = 0; r < m.rows; ++r) {
    for (int64_t c = 0; c < m.cols; ++c) out.at(0, c) += m.at(r, c);
  }
  return out;
}

Attended attention(const Matrix& q, const Matrix& k, const Matrix& v, const Matrix& dout,
                   std::span<const uint32_t> query_offsets, std::span<const uint32_t> key_offsets,
                   int64_t heads, bool causal, const Dropout& dropout) {
  Attended r{Matrix(q.rows, q.cols), Matrix(q.rows, heads), Matrix(q.rows, q.cols),
             Matrix(k.rows, k.cols), Matrix(k.rows, k.cols)};
  const int64_t width = q.cols / heads;
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  for (size_t s = 0; s + 1 < query_offsets.size(); ++s) {
    const int64_t first_key = key_offsets[s];
    for (int64_t i = query_offsets[s]; i < query_offsets[s + 1]; ++i) {
      int64_t keys = key_offsets[s + 1] - key_offsets[s];
      if (causal) keys = std::min(keys, i - int64_t{query_offsets[s]} + 1);
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t begin = h * width;
        const int64_t end = begin + width;
        std::vector<double> p(static_cast<size_t>(keys)), factor(p), dp(p);
        double top = -INFINITY;
        for (int64_t j = 0; j < keys; ++j) {
          double score = 0;
          for (int64_t c = begin; c < end; ++c) score += q.at(i, c) * k.at(first_key + j, c);
          p[static_cast<size_t>(j)] = score * scale;
          top = std::max(top, score * scale);
        }
        double sum = 0;
        for (double& x : p) sum += x = std::exp(x - top);
        r.log_sums.at(i, h) = top + std::log(sum);
        double dot = 0;
        for (int64_t j = 0; j < keys; ++j) {
          const auto at = static_cast<size_t>(j);
          p[at] /= sum;
          factor[at] = drop_factor(dropout, i, j, h);
          for (int64_t c = begin; c < end; ++c) {
            r.out.at(i, c) += p[at] * factor[at] * v.at(first_key + j, c);
            dp[at] += dout.at(i, c) * v.at(first_key + j, c);
            r.dv.at(first_key + j, c) += p[at] * factor[at] * dout.at(i, c);
          }
          dp[at] *= factor[at];
          dot += p[at] * dp[at];
        }
        for (int64_t j = 0; j < keys; ++j) {
          const auto at = static_cast<size_t>(j);
          const double ds = p[at] * (dp[at] - dot) * scale;
          const double term = p[at] * dp[at] * scale;
          for (int64_t c = begin; c < end; ++c) {
            r.dq_terms += std::pow(term * k.at(first_key + j, c), 2);
            r.dk_terms += std::pow(term * q.at(i, c), 2);
            r.dq.at(i, c) += ds * k.at(first_key + j, c);
            r.dk.at(first_key + j, c) += ds * q.at(i, c);
          }
        }
      }
    }
  }
  r.dq_terms = std::sqrt(r.dq_terms);
  r.dk_terms = std::sqrt(r.dk_terms);
  return r;
}

Matrix embed(std::span<const uint32_t> ids, std::span<const uint32_t> places, double scale,
             const Matrix& table, const Matrix& positions, const Dropout& dropout) {
  Matrix out(static_cast<int64_t>(ids.size()), table.cols);
  for (int64_t t = 0; t < out.rows; ++t) {
    const uint32_t id = ids[static_cast<size_t>(t)];
    for (int64_t c = 0; c < table.cols; ++c) {
      out.at(t, c) = (scale * table.at(id, c) + positions.at(places[static_cast<size_t>(t)], c)) *
                     drop_factor(dropout, t, c);
    }
  }
  return out;
}

Matrix embed_gradient(std::span<const uint32_t> keys, double scale, const Matrix& dout,
                      int64_t rows, const Dropout& dropout) {
  Matrix out(rows, dout.cols);
  for (int64_t t = 0; t < static_cast<int64_t>(keys.size()); ++t) {
    const uint32_t key = keys[static_cast<size_t>(t)];
    for (int64_t c = 0; c < dout.cols; ++c) {
      out.at(key, c) += scale * dout.at(t, c) * drop_factor(dropout, t, c);
    }
  }
  return out;
}

Loss projection_loss(const Matrix& hidden, const Matrix& table, std::span<const uint32_t> targets,
                     double smoothing, double scale) {
  Matrix z = multiply(hidden, false, table, true);
  Loss loss;
  const auto pieces = static_cast<double>(z.cols);
  for (int64_t t = 0; t < z.rows; ++t) {
    if (t >= static_cast<int64_t>(targets.size())) {
      for (int64_t v = 0; v < z.cols; ++v) z.at(t, v) = 0;
      continue;
    }
    const uint32_t target = targets[static_cast<size_t>(t)];
    double total = 0;
    double mean = 0;
    double top = -INFINITY;
    for (int64_t v = 0; v < z.cols; ++v) top = std::max(top, z.at(t, v));
    for (int64_t v = 0; v < z.cols; ++v) {
      total += std::exp(z.at(t, v) - top);
      mean += z.at(t, v) / pieces;
    }
    const double log_sum = top + std::log(total);
    const double nll = log_sum - z.at(t, target);
    loss.nll += nll;
    loss.smoothed += (1 - smoothing) * nll + smoothing * (log_sum - mean);
    for (int64_t v = 0; v < z.cols; ++v) {
      const double p = std::exp(z.at(t, v) - log_sum);
      const double wanted = smoothing / pieces + (v == target ? 1 - smoothing : 0);
      z.at(t, v) = scale * (p - wanted);
    }
  }
  loss.dhidden = multiply(z, false, table, false);
  loss.dtable = multiply(z, true, hidden, false);
  return loss;
}

void adam(const AdamConstants& c, double rate, double gradient_scale, double updates,
          const Matrix& gradient, Matrix& p, Matrix& m, Matrix& v) {
  for (size_t i = 0; i < p.values.size(); ++i) {
    const double g = gradient.values[i] * gradient_scale;
    m.values[i] = c.beta1 * m.values[i] + (1 - c.beta1) * g;
    v.values[i] = c.beta2 * v.values[i] + (1 - c.beta2) * g * g;
    const double mean = m.values[i] / (1 - std::pow(c.beta1, updates));
    const double square = v.values[i] / (1 - std::pow(c.beta2, updates));
    p.values[i] -= rate * (mean / (std::sqrt(square) + c.epsilon) + c.weight_decay * p.values[i]);
  }
}

Matrix orthogonalised(const Matrix& m) {
  const bool tall = m.rows > m.cols;  // computed by its transpose
  Matrix x(std::min(m.rows, m.cols), std::max(m.rows, m.cols));
  const double size = norm(m);
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.cols; ++c) {
      x.at(r, c) = size > 0 ? (tall ? m.at(c, r) : m.at(r, c)) / size : 0;
    }
  }
  for (int i = 0; i < 5; ++i) {
    const Matrix gram = multiply(x, false, x, true);
    Matrix polynomial = multiply(gram, false, gram, false);
    for (size_t k = 0; k < gram.values.size(); ++k) {
      polynomial.values[k] = -4.7750 * gram.values[k] + 2.0315 * polynomial.values[k];
    }
    const Matrix moved = multiply(polynomial, false, x, false);
    for (size_t k = 0; k < x.values.size(); ++k) {
      x.values[k] = 3.4445 * x.values[k] + moved.values[k];
    }
  }
  if (!tall) return x;
  Matrix back(m.rows, m.cols);
  for (int64_t r = 0; r < m.rows; ++r) {
    for (int64_t c = 0; c < m.cols; ++c) back.at(r, c) = x.at(c, r);
  }
  return back;
}

void muon(const MuonConstants& c, double rate, double gradient_scale, const Matrix& gradient,
          Matrix& p, Matrix& momentum) {
  Matrix nesterov(p.rows, p.cols);
  for (size_t i = 0; i < p.values.size(); ++i) {
    const double g = (1 - c.momentum) * gradient_scale * gradient.values[i];
    momentum.values[i] = c.momentum * momentum.values[i] + g;
    nesterov.values[i] = c.momentum * momentum.values[i] + g;
  }
  const Matrix x = orthogonalised(nesterov);
  const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(p.rows, p.cols)));
  for (size_t i = 0; i < p.values.size(); ++i) {
    p.values[i] -= rate * (scale * x.values[i] + c.weight_decay * p.values[i]);
  }
}

double norm(const Matrix& m) {
  double squares = 0;
  for (double x : m.values) squares += x * x;
  return std::sqrt(squares);
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

double relative_error(const Matrix& got, const Matrix& wanted, double least) {
  if (got.values.size() != wanted.values.size()) return INFINITY;
  double difference = 0;
  for (size_t i = 0; i < got.values.size(); ++i) {
    difference += std::pow(got.values[i] - wanted.values[i], 2);
  }
  return std::sqrt(difference) / std::max(norm(wanted), least);
}

}  // namespace reigen::reference
