// Attention over packed sentences, forward and backward, against the double-precision reference:
// tensor cores and plain lanes on a GPU, short and long sentences, one token, two sides.
#include "ops/attention.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "ops/op_case.h"

namespace reigen {
namespace {

using reference::Matrix;
using reference::normal;

enum class Sides { kSelf, kCausal, kCross };

struct Shape {
  std::string name;
  std::vector<uint32_t> queries;
  std::vector<uint32_t> keys;  // empty: the queries'
  int heads;
  int64_t width;  // of a head
};

std::vector<uint32_t> lengths(size_t count, uint32_t longest, uint64_t seed) {
  std::vector<uint32_t> out;
  for (uint64_t i = 0; i < count; ++i) {
    out.push_back(1 + static_cast<uint32_t>(mix64(seed + i) % longest));
  }
  return out;
}

class AttentionOps : public Ops {
 protected:
  void check(const Shape& s, Sides sides) {
    const std::string which = s.name + " width " + std::to_string(s.width);
    const IndexShape index_shape{.heads = s.heads, .head_width = s.width, .dtype = type()};
    const std::vector<uint32_t>& keys = s.keys.empty() ? s.queries : s.keys;
    const TestBatch batch(device(), keys,
                          sides == Sides::kSelf ? std::vector<uint32_t>{} : s.queries, index_shape);
    const BatchIndex& index = batch.index();
    const int side = sides == Sides::kSelf ? 0 : 1;
    const SideIndex& query_side = side == 0 ? index.source : index.target;
    const SideIndex& key_side = sides == Sides::kCausal ? index.target : index.source;
    const int64_t d = s.heads * s.width, nq = query_side.rows, nk = key_side.rows;
    Matrix q = normal(nq, d, 1), k = normal(nk, d, 2), v = normal(nk, d, 3), w = normal(nq, d, 4);
    Buffer fq = typed(q, 3 * d), fk = typed(k, 3 * d), fv = typed(v, stride(d)), dout = typed(w);
    Buffer out = empty(nq, d), sums(device(), nq, s.heads);
    const Drop drops = drop(query_side.numbers, batch.numbers(side));
    Attention op{fq.tensor(), fk.tensor(), fv.tensor(), query_side.offsets, key_side.offsets};
    op.heads = s.heads;
    op.causal = sides == Sides::kCausal;
    op.dropout = drops.on_device;
    op.out = out.tensor();
    op.log_sums = sums.tensor();
    op.plan = sides == Sides::kSelf     ? index.self
              : sides == Sides::kCausal ? index.causal
                                        : index.cross;
    attention_forward(device(), op);
    const auto wanted = attention(q, k, v, w, query_side.offsets, key_side.offsets, s.heads,
                                  op.causal, drops.reference);
    // Weights and their gradients are rounded to the type before they multiply.
    expect_close(out, wanted.out, 2 * tolerance(), which);
    Matrix got = sums.values();
    for (int64_t r = query_side.offsets.back(); r < nq; ++r) {
      for (int64_t h = 0; h < s.heads; ++h) got.at(r, h) = 0;
    }
    EXPECT_LE(relative_error(got, wanted.log_sums), 1e-5) << which;
    Buffer dq = empty(nq, d, 3 * d), dk = empty(nk, d, 2 * d), dv = empty(nk, d);
    attention_backward(device(), op, {dout.tensor(), dq.tensor(), dk.tensor(), dv.tensor()});
    expect_close(dq, wanted.dq, 3 * tolerance(), which + " dq", wanted.dq_terms);
    expect_close(dk, wanted.dk, 3 * tolerance(), which + " dk", wanted.dk_terms);
    expect_close(dv, wanted.dv, 3 * tolerance(), which + " dv");
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, AttentionOps, ::testing::ValuesIn(op_cases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(AttentionOps, MatchesItsDefinitionAndGradientForShortSentences) {
  for (Sides sides : {Sides::kSelf, Sides::kCausal}) {
    check({"one token", {1}, {}, 8, 64}, sides);
    check({"tokens apart", {1, 1, 1, 1, 1}, {}, 8, 32}, sides);
    check({"one sentence", {37}, {}, 8, 64}, sides);
    if (!gpu()) check({"odd", {5, 1, 9}, {}, 2, 5}, sides);
  }
  if (!gpu()) check({"odd", {3, 7, 1}, {8, 1, 17}, 2, 12}, Sides::kCross);
}

TEST_P(AttentionOps, MatchesItsDefinitionAndGradientForEveryHeadWidth) {
  const std::vector<uint32_t> many = lengths(gpu() ? 40 : 5, 70, 1);
  const std::vector<uint32_t> other = lengths(gpu() ? 40 : 5, 70, 1000);
  // 32, 64 and 128 in 16 bits use tensor cores, all others do not.
  for (int64_t width : {8, 24, 32, 40, 64, 72, 128, 200, 256}) {
    const Shape shape{"mixed", many, {}, 3, width};
    check(shape, Sides::kSelf);
    check(shape, Sides::kCausal);
    check({"mixed cross", many, other, 2, width}, Sides::kCross);
  }
  check({"eight heads", many, other, 8, 64}, Sides::kCross);
}

TEST_P(AttentionOps, MatchesItsDefinitionAndGradientForLongSentences) {
  for (int64_t width : {64, 24}) {
    for (Sides sides : {Sides::kSelf, Sides::kCausal}) {
      check({"long",
             gpu() ? std::vector<uint32_t>{500, 1, 512} : std::vector<uint32_t>{260, 1},
             {},
             2,
             width},
            sides);
      check({"middling", {150, 160, 161, 129, 90}, {}, 2, width}, sides);
    }
    check({"long cross", {3, 400}, {401, 2}, 2, width}, Sides::kCross);
  }
}

}  // namespace
}  // namespace reigen
