// What only decoding does: attention over picked rows of a cache, and a row's best logits.
#include <algorithm>
#include <numeric>

#include "checker.h"
#include "ops/cuda/cached_attention.h"
#include "ops/cuda/top_rows.h"

namespace reigen::bench {

void Checker::cached(DType dtype, int64_t rows, int heads, int64_t width, uint32_t longest) {
  const std::string which = std::string(name_of(dtype)) + " width " + std::to_string(width) + ", " +
                            std::to_string(rows) + " rows, up to " + std::to_string(longest) +
                            " keys";
  const int64_t d = heads * width, cache = 700;
  Matrix q = normal(rows, d, 2), k = normal(cache, d), v = normal(cache, d);
  GpuMatrix gq(q, dtype, 3 * d), gk(k, dtype, 2 * d), gv(v, dtype, d + 8),
      out(rows, d, dtype, d + 8);
  std::vector<uint32_t> picks, begin, count;
  for (int64_t r = 0; r < rows; ++r) {
    // Every third row shares the list of the one before.
    if (r % 3 == 2) {
      begin.push_back(begin.back());
      count.push_back(count.back());
      continue;
    }
    begin.push_back(static_cast<uint32_t>(picks.size()));
    count.push_back(r == 0 ? 1 : 1 + static_cast<uint32_t>(random_() % longest));
    for (uint32_t i = 0; i < count.back(); ++i) {
      picks.push_back(static_cast<uint32_t>(random_() % cache));
    }
  }
  GpuArray<uint32_t> gpicks(picks), gbegin(begin), gcount(count);
  CachedAttention op;
  op.q = gq.tensor();
  op.k = gk.tensor();
  op.v = gv.tensor();
  op.keys = {
      {gpicks.get(), picks.size()}, {gbegin.get(), begin.size()}, {gcount.get(), count.size()}};
  op.heads = heads;
  op.out = out.tensor();
  cuda::cached_attention(context_, op);
  finish();
  Matrix wanted(rows, d);
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  for (int64_t r = 0; r < rows; ++r) {
    const auto at = static_cast<size_t>(r);
    for (int64_t h = 0; h < heads; ++h) {
      std::vector<double> p(count[at]);
      for (size_t j = 0; j < p.size(); ++j) {
        const int64_t key = picks[begin[at] + j];
        for (int64_t c = h * width; c < (h + 1) * width; ++c) {
          p[j] += scale * q.at(r, c) * k.at(key, c);
        }
      }
      const double top = *std::max_element(p.begin(), p.end());
      double sum = 0;
      for (double& x : p) sum += x = std::exp(x - top);
      for (size_t j = 0; j < p.size(); ++j) {
        const int64_t key = picks[begin[at] + j];
        for (int64_t c = h * width; c < (h + 1) * width; ++c) {
          wanted.at(r, c) += p[j] / sum * v.at(key, c);
        }
      }
    }
  }
  compare("cached attention", which, out, wanted, rounding(dtype));
}

void Checker::tops(DType dtype, int64_t rows, int64_t pieces, int64_t keep, bool coarse) {
  const std::string which = std::string(name_of(dtype)) + " " + std::to_string(keep) + " of " +
                            std::to_string(pieces) + (coarse ? ", many equal" : "");
  Matrix z = normal(rows, pieces, 4);
  if (coarse) {
    for (double& x : z.values) x = std::round(x / 8);  // -0 too
  }
  if (rows > 2) std::fill_n(&z.at(2, 0), pieces, -1.5);  // all equal
  if (rows > 3) z.at(3, pieces - 1) = -INFINITY;
  if (rows > 4) z.at(4, pieces / 2) = NAN;
  GpuMatrix gz(z, dtype, (pieces + 7) / 8 * 8 + 16);
  GpuArray<cuda::TopLogit> tops(std::vector<cuda::TopLogit>(static_cast<size_t>(rows * keep)));
  GpuArray<float> sums(std::vector<float>(static_cast<size_t>(rows)));
  cuda::top_rows(context_, gz.tensor(), keep, tops.get(), sums.get());
  finish();
  const auto got = tops.download();
  const auto got_sums = sums.download();
  bool same = true;
  bool seen = true;
  double error = 0;
  std::vector<uint32_t> order(static_cast<size_t>(pieces));
  for (int64_t r = 0; r < rows; ++r) {
    const auto got_sum = static_cast<double>(got_sums[static_cast<size_t>(r)]);
    if (r == 3 || r == 4) {
      seen = seen && !std::isfinite(got_sum);
      continue;
    }
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return z.at(r, a) > z.at(r, b); });
    for (int64_t i = 0; i < keep; ++i) {
      const cuda::TopLogit& top = got[static_cast<size_t>(r * keep + i)];
      const bool inside = i < pieces;
      const uint32_t token = inside ? order[static_cast<size_t>(i)] : 0;
      const double logit = inside ? z.at(r, token) : -INFINITY;
      same = same && top.token == token && static_cast<double>(top.logit) == logit;
    }
    double sum = 0;
    for (int64_t c = 0; c < pieces; ++c) sum += std::exp(z.at(r, c) - z.at(r, order[0]));
    error = std::max(error, std::abs(got_sum - z.at(r, order[0]) - std::log(sum)));
  }
  require("top rows", which, same);
  require("top rows", which + " not finite", seen);
  add("top rows", which + " log sum", error, 1e-5);
}

void Checker::decoding() {
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (int64_t width : {8, 24, 32, 64, 72, 128, 256}) cached(dtype, 20, 2, width, 60);
    cached(dtype, 500, 8, 64, 40);  // more than fill the chip
    tops(dtype, 6, 32'768, 5, false);
    tops(dtype, 6, 1'003, 16, true);
    tops(dtype, 6, 8'001, 64, false);
    tops(dtype, 6, 8'001, 512, true);
    tops(dtype, 6, 32'768, 512, false);
  }
  cached(DType::kBF16, 3, 8, 64, 1);
  cached(DType::kBF16, 8, 8, 64, 600);
  tops(DType::kF32, 1, 7, 12, false);
  tops(DType::kF32, 6, 70'001, 1, false);
}

}  // namespace reigen::bench
