// Every operation against its double-precision reference, and every gradient against finite
// differences of that reference; with and without dropout, for odd widths, one-token sentences and
// one or several threads.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/activation.h"
#include "ops/adam.h"
#include "ops/attention.h"
#include "ops/embed.h"
#include "ops/matmul.h"
#include "ops/op_test_support.h"
#include "ops/projection_loss.h"
#include "ops/residual_norm.h"

namespace reigen {
namespace {

using reference::Matrix;
using reference::numeric_gradient;
using reference::random;
using reference::weighted;

constexpr double kTolerance = 2e-6;  // fp32 against double
constexpr double kGradTolerance = 5e-6;

struct Case {
  int threads;
  float rate;
};

class Ops : public ::testing::TestWithParam<Case> {
 protected:
  Device device_ = Device::cpu(GetParam().threads);
  Dropout dropout(int64_t rows) {
    tokens_ = token_numbers(rows);
    return make_dropout(GetParam().rate, tokens_);
  }
  std::vector<uint64_t> tokens_;
};

TEST_P(Ops, MatmulMultipliesInEveryOrientationAndAccumulates) {
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      Matrix a = ta ? random(7, 33, 1) : random(33, 7, 1);
      Matrix b = tb ? random(19, 7, 2) : random(7, 19, 2);
      Buffer fa(a, 40);
      Buffer fb(b, 20);
      Buffer c(33, 19, 1);
      auto flag = [](bool t) { return t ? Transpose::kYes : Transpose::kNo; };
      matmul(device_, fa.tensor(), flag(ta), fb.tensor(), flag(tb), c.tensor(), 2, 1);
      Matrix wanted = reference::multiply(a, ta, b, tb);
      for (double& x : wanted.values) x = 2 * x + 1;
      EXPECT_LT(relative_error(c.values(), wanted), kTolerance) << ta << tb;
    }
  }
}

TEST_P(Ops, ResidualNormMatchesItsDefinitionAndItsGradient) {
  for (int64_t width : {16, 37, 256}) {
    const int64_t rows = 40;
    Matrix x = random(rows, width, 1), branch = random(rows, width, 2), bias = random(1, width, 3);
    Matrix gain = random(1, width, 4), shift = random(1, width, 5);
    Matrix wn = random(rows, width, 6), wh = random(rows, width, 7);
    Dropout drop = dropout(rows);
    auto forward = [&](const Matrix& xx, const Matrix& yy, const Matrix& bb, const Matrix& gg,
                       const Matrix& ss) {
      return reference::residual_norm(xx, &yy, &bb, gg, ss, drop);
    };
    Buffer fx(x), fb(branch, width + 3), fbias(bias), fg(gain), fs(shift);
    Buffer h(rows, width), n(rows, width), stats(rows, 2);
    ResidualNorm op{fx.tensor(), fb.tensor(), fbias.tensor(), fg.tensor(),   fs.tensor(),
                    drop,        h.tensor(),  n.tensor(),     stats.tensor()};
    residual_norm_forward(device_, op);
    auto wanted = forward(x, branch, bias, gain, shift);
    EXPECT_LT(relative_error(h.values(), wanted.h), kTolerance);
    EXPECT_LT(relative_error(n.values(), wanted.n), kTolerance);

    auto scalar = [&](const reference::Normed& out) {
      return weighted(out.n, wn) + weighted(out.h, wh);
    };
    Buffer dn(wn), dh(wh), dbranch(rows, width);
    Buffer dgain(1, width), dshift(1, width), dbias(1, width);
    residual_norm_backward(device_, op,
                           {dn.tensor(), dh.tensor(), dh.tensor(), dbranch.tensor(), dgain.tensor(),
                            dshift.tensor(), dbias.tensor()});
    auto check = [&](const Buffer& got, const Matrix& at, auto f) {
      EXPECT_LT(relative_error(got.values(), numeric_gradient(f, at)), kGradTolerance) << width;
    };
    check(dh, x, [&](const Matrix& m) { return scalar(forward(m, branch, bias, gain, shift)); });
    check(dbranch, branch,
          [&](const Matrix& m) { return scalar(forward(x, m, bias, gain, shift)); });
    check(dbias, bias, [&](const Matrix& m) { return scalar(forward(x, branch, m, gain, shift)); });
    check(dgain, gain, [&](const Matrix& m) { return scalar(forward(x, branch, bias, m, shift)); });
    check(dshift, shift,
          [&](const Matrix& m) { return scalar(forward(x, branch, bias, gain, m)); });
  }
}

TEST_P(Ops, ResidualNormWithoutABranchIsALayerNorm) {
  Matrix x = random(9, 48, 1), gain = random(1, 48, 2), shift = random(1, 48, 3);
  Matrix wn = random(9, 48, 4);
  Buffer fx(x), fg(gain), fs(shift), n(9, 48), stats(9, 2);
  ResidualNorm op{.x = fx.tensor(), .gain = fg.tensor(), .shift = fs.tensor()};
  op.n = n.tensor();
  op.stats = stats.tensor();
  residual_norm_forward(device_, op);
  auto forward = [&](const Matrix& m) {
    return reference::residual_norm(m, nullptr, nullptr, gain, shift, {}).n;
  };
  EXPECT_LT(relative_error(n.values(), forward(x)), kTolerance);
  Buffer dn(wn), dx(9, 48), dgain(1, 48), dshift(1, 48);
  residual_norm_backward(
      device_, op,
      {.dn = dn.tensor(), .dx = dx.tensor(), .dgain = dgain.tensor(), .dshift = dshift.tensor()});
  auto f = [&](const Matrix& m) { return weighted(forward(m), wn); };
  EXPECT_LT(relative_error(dx.values(), numeric_gradient(f, x)), kGradTolerance);
}

TEST_P(Ops, ActivationsMatchTheirDefinitionAndGradient) {
  for (auto kind : {ActivationKind::kRelu, ActivationKind::kGelu, ActivationKind::kSwish}) {
    const int64_t rows = 33, width = 51;
    Matrix z = random(rows, width, 1), bias = random(1, width, 2), w = random(rows, width, 3);
    for (double& x : z.values) x = static_cast<float>(3 * x);
    Dropout drop = dropout(rows);
    Buffer fz(z), fb(bias), out(rows, width);
    Activation op{kind, fz.tensor(), fb.tensor(), drop, out.tensor()};
    activation_forward(device_, op);
    EXPECT_LT(relative_error(out.values(), reference::activation(kind, z, bias, drop)), kTolerance);
    Buffer dout(w), dbias(1, width);
    activation_backward(device_, op, dout.tensor(), dout.tensor(), dbias.tensor());
    auto by_z = [&](const Matrix& m) {
      return weighted(reference::activation(kind, m, bias, drop), w);
    };
    auto by_bias = [&](const Matrix& m) {
      return weighted(reference::activation(kind, z, m, drop), w);
    };
    EXPECT_LT(relative_error(dout.values(), numeric_gradient(by_z, z)), kGradTolerance);
    EXPECT_LT(relative_error(dbias.values(), numeric_gradient(by_bias, bias)), kGradTolerance);
  }
}

TEST_P(Ops, BiasIsAddedToEveryRowAndItsGradientIsTheColumnSum) {
  Matrix y = random(37, 21, 1), bias = random(1, 21, 2);
  Buffer fy(y), fb(bias), db(1, 21);
  bias_backward(device_, fy.tensor(), db.tensor());
  Matrix ones(1, 37);
  for (double& x : ones.values) x = 1;
  EXPECT_LT(relative_error(db.values(), reference::multiply(ones, false, y, false)), kTolerance);
  add_bias(device_, fy.tensor(), fb.tensor());
  for (int64_t r = 0; r < 37; ++r) {
    for (int64_t c = 0; c < 21; ++c) y.at(r, c) += bias.at(0, c);
  }
  EXPECT_LT(relative_error(fy.values(), y), kTolerance);
}

struct Shape {
  std::vector<uint32_t> queries;
  std::vector<uint32_t> keys;
  int heads;
  int64_t width;  // of a head
  bool causal;
};

void check_attention(const Device& device, const Dropout& drop, const Shape& s) {
  auto qo = offsets_of(s.queries), ko = offsets_of(s.keys);
  const int64_t d = s.heads * s.width;
  Matrix q = random(qo.back(), d, 1), k = random(ko.back(), d, 2), v = random(ko.back(), d, 3);
  Matrix w = random(qo.back(), d, 4);
  auto forward = [&](const Matrix& a, const Matrix& b, const Matrix& c) {
    return reference::attention(a, b, c, qo, ko, s.heads, s.causal, drop);
  };
  Buffer fq(q, 3 * d), fk(k, 3 * d), fv(v, d + 5), out(q.rows, d), sums(q.rows, s.heads);
  Attention op{fq.tensor(), fk.tensor(), fv.tensor(), qo,           ko,
               s.heads,     s.causal,    drop,        out.tensor(), sums.tensor()};
  attention_forward(device, op);
  EXPECT_LT(relative_error(out.values(), forward(q, k, v)), kTolerance);
  Buffer dout(w), dq(q.rows, d, 9, 3 * d), dk(k.rows, d, 9, 3 * d), dv(v.rows, d, 9);
  attention_backward(device, op, {dout.tensor(), dq.tensor(), dk.tensor(), dv.tensor()});
  auto check = [&](const Buffer& got, const Matrix& at, auto f) {
    EXPECT_LT(relative_error(got.values(), numeric_gradient(f, at)), kGradTolerance);
  };
  check(dq, q, [&](const Matrix& m) { return weighted(forward(m, k, v), w); });
  check(dk, k, [&](const Matrix& m) { return weighted(forward(q, m, v), w); });
  check(dv, v, [&](const Matrix& m) { return weighted(forward(q, k, m), w); });
}

TEST_P(Ops, AttentionMatchesItsDefinitionAndGradient) {
  std::vector<Shape> shapes = {{{5, 1, 9}, {5, 1, 9}, 2, 8, false},
                               {{5, 1, 9}, {5, 1, 9}, 2, 8, true},
                               {{3, 7, 1}, {8, 1, 17}, 2, 12, false},
                               {{1}, {1}, 1, 4, true},
                               {{20}, {33}, 1, 5, false}};
  for (const auto& shape : shapes) {
    check_attention(device_, dropout(offsets_of(shape.queries).back()), shape);
  }
}

TEST_P(Ops, AttentionHoldsForLongSentences) {
  const std::vector<uint32_t> lengths = {500, 3};
  auto offsets = offsets_of(lengths);
  Matrix q = random(503, 32, 1), k = random(503, 32, 2), v = random(503, 32, 3);
  Dropout drop = dropout(503);
  Buffer fq(q), fk(k), fv(v), out(503, 32), sums(503, 2);
  for (bool causal : {false, true}) {
    attention_forward(device_, {fq.tensor(), fk.tensor(), fv.tensor(), offsets, offsets, 2, causal,
                                drop, out.tensor(), sums.tensor()});
    Matrix wanted = reference::attention(q, k, v, offsets, offsets, 2, causal, drop);
    EXPECT_LT(relative_error(out.values(), wanted), 5 * kTolerance);
  }
}

TEST_P(Ops, EmbeddingMatchesItsDefinitionAndGradient) {
  std::vector<uint32_t> ids = {3, 1, 3, 0, 6, 3, 3, 2};
  auto offsets = offsets_of({3, 1, 4});
  const std::vector<uint32_t> places = {0, 1, 2, 0, 0, 1, 2, 3};
  Matrix table = random(7, 20, 1), positions = random(5, 20, 2), w = random(8, 20, 3);
  Dropout drop = dropout(8);
  Buffer ft(table), fp(positions), out(8, 20);
  EmbedInput input{ids, places, 4.5, drop};
  embed_forward(device_, input, ft.tensor(), fp.tensor(), out.tensor());
  auto forward = [&](const Matrix& t, const Matrix& p) {
    return reference::embed(ids, offsets, 4.5, t, p, drop);
  };
  EXPECT_LT(relative_error(out.values(), forward(table, positions)), kTolerance);
  Buffer dout(w), dtable(7, 20), dpositions(5, 20);
  embed_backward(device_, input, dout.tensor(), dtable.tensor(), dpositions.tensor());
  auto by_table = [&](const Matrix& m) { return weighted(forward(m, positions), w); };
  auto by_place = [&](const Matrix& m) { return weighted(forward(table, m), w); };
  EXPECT_LT(relative_error(dtable.values(), numeric_gradient(by_table, table)), kGradTolerance);
  EXPECT_LT(relative_error(dpositions.values(), numeric_gradient(by_place, positions)),
            kGradTolerance);
}

TEST_P(Ops, ProjectionLossMatchesItsDefinitionAndGradientForAnyChunk) {
  Matrix hidden = random(13, 24, 1), table = random(51, 24, 2);
  std::vector<uint32_t> targets;
  for (uint32_t t = 0; t < 13; ++t) targets.push_back(t * 37 % 51);
  for (int64_t chunk : {1, 5, 13, 100}) {
    for (float smoothing : {0.0F, 0.1F}) {
      Arena arena;
      Buffer fh(hidden), ft(table), dh(13, 24), dt(51, 24);
      ProjectionLoss op{fh.tensor(), ft.tensor(), targets,     smoothing,
                        0.25F,       chunk,       dh.tensor(), dt.tensor()};
      LossSums got = projection_loss(device_, op, arena);
      auto wanted = reference::projection_loss(hidden, table, targets, smoothing);
      EXPECT_NEAR(got.smoothed / wanted.smoothed, 1, 1e-6);
      EXPECT_NEAR(got.nll / wanted.nll, 1, 1e-6);
      auto by_hidden = [&](const Matrix& m) {
        return 0.25 * reference::projection_loss(m, table, targets, smoothing).smoothed;
      };
      auto by_table = [&](const Matrix& m) {
        return 0.25 * reference::projection_loss(hidden, m, targets, smoothing).smoothed;
      };
      EXPECT_LT(relative_error(dh.values(), numeric_gradient(by_hidden, hidden)), kGradTolerance);
      EXPECT_LT(relative_error(dt.values(), numeric_gradient(by_table, table)), kGradTolerance);
    }
  }
}

TEST_P(Ops, GlobalNormIsTheRootOfTheSumOfSquares) {
  Matrix x = random(1, 100'003, 1);
  std::vector<float> values(x.values.begin(), x.values.end());
  double sum = 0;
  for (double v : x.values) sum += v * v;
  EXPECT_NEAR(global_norm(device_, values) / std::sqrt(sum), 1, 1e-6);
  values[77'777] = NAN;
  EXPECT_FALSE(std::isfinite(global_norm(device_, values)));
  values[77'777] = INFINITY;
  EXPECT_FALSE(std::isfinite(global_norm(device_, values)));
}

TEST_P(Ops, AdamFollowsItsDefinition) {
  const int64_t n = 40'001;
  Matrix p = random(1, n, 1), m = Matrix(1, n), v = Matrix(1, n);
  Buffer fp(p), fm(1, n), fv(1, n);
  auto span = [&](Buffer& b) { return b.tensor().row_span(0); };
  for (uint64_t step = 1; step <= 5; ++step) {
    Matrix g = random(1, n, 10 + step);
    Buffer fg(g);
    AdamStep options{.rate = 0.01,
                     .beta1 = 0.9,
                     .beta2 = 0.98,
                     .epsilon = 1e-9,
                     .weight_decay = 0.1,
                     .step = step,
                     .gradient_scale = 0.5};
    adam_step(device_, options, span(fg), span(fp), span(fm), span(fv));
    for (int64_t i = 0; i < n; ++i) {
      double grad = 0.5 * g.at(0, i);
      m.at(0, i) = 0.9 * m.at(0, i) + 0.1 * grad;
      v.at(0, i) = 0.98 * v.at(0, i) + 0.02 * grad * grad;
      double mean = m.at(0, i) / (1 - std::pow(0.9, step));
      double square = v.at(0, i) / (1 - std::pow(0.98, step));
      p.at(0, i) -= 0.01 * (mean / (std::sqrt(square) + 1e-9) + 0.1 * p.at(0, i));
    }
  }
  EXPECT_LT(relative_error(fp.values(), p), kTolerance);
  EXPECT_LT(relative_error(fm.values(), m), kTolerance);
  EXPECT_LT(relative_error(fv.values(), v), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(ThreadsAndDropout, Ops,
                         ::testing::Values(Case{1, 0}, Case{1, 0.3F}, Case{3, 0}, Case{3, 0.1F}),
                         [](const auto& info) {
                           return std::to_string(info.param.threads) + "_threads_" +
                                  (info.param.rate > 0 ? "with" : "without") + "_dropout";
                         });

TEST(DropoutRate, IsTheShareOfElementsDropped) {
  Device device = Device::cpu(1);
  const int64_t rows = 400, width = 256;
  auto tokens = token_numbers(rows);
  Dropout drop = make_dropout(0.1F, tokens);
  Matrix one(rows, width), zero(1, width);
  for (double& x : one.values) x = 1;
  Buffer z(one), bias(zero), out(rows, width);
  activation_forward(device,
                     {ActivationKind::kRelu, z.tensor(), bias.tensor(), drop, out.tensor()});
  double dropped = 0;
  for (double x : out.values().values) dropped += x == 0;
  double n = static_cast<double>(rows * width);
  // Five standard deviations of a binomial.
  EXPECT_NEAR(dropped / n, 0.1, 5 * std::sqrt(0.09 / n));
}

}  // namespace
}  // namespace reigen
