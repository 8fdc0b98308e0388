// The two ends of the model that know pieces, embedding and projection with its loss, against the
// double-precision reference.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/hash.h"
#include "ops/embed.h"
#include "ops/op_case.h"
#include "ops/projection_loss.h"

namespace reigen {
namespace {

using reference::Matrix;
using reference::normal;

constexpr double kFp32Sums = 1e-5;

TEST_P(Ops, EmbeddingMatchesItsDefinitionAndGradient) {
  const int64_t pieces = 50;
  const std::vector<uint32_t> lengths(8, 88);
  std::vector<uint32_t> ids;
  for (uint64_t t = 0; t < 8 * 88; ++t) {
    ids.push_back(mix64(t) % 3 == 0 ? 7 : static_cast<uint32_t>(mix64(t + 9999) % pieces));
  }
  for (int64_t width : widths({520}, {20, 37})) {
    const IndexShape shape{
        .heads = 1, .head_width = 64, .dtype = type(), .learned_positions = true};
    const TestBatch batch(device(), lengths, {}, shape, ids);
    const SideIndex& side = batch.index().source;
    const Drop d = drop(side.numbers, batch.numbers(0));
    Matrix table = normal(pieces, width, 1), positions = normal(90, width, 2);
    Matrix w = normal(side.rows, width, 3);
    Buffer ft = typed(table), fp = fp32(positions), out = empty(side.rows, width);
    const float scale = 22.6F;
    const EmbedInput input{side.ids, side.places, scale, d.on_device, side.embed_plan};
    embed_forward(device(), input, ft.tensor(), fp.tensor(), out.tensor());
    const auto factor = static_cast<double>(scale);
    Matrix wanted = embed(ids, batch.places(0), factor, table, positions, d.reference);
    wanted.rows = side.rows;  // tokens that round the count up are zeros
    wanted.values.resize(static_cast<size_t>(side.rows * width));
    expect_close(out, wanted, tolerance(), "out");
    Matrix before = normal(pieces, width, 4), before_positions = normal(90, width, 5);
    Buffer dout = typed(w), dtable = fp32(before), dpositions = fp32(before_positions);
    const Matrix by_id = embed_gradient(ids, factor, w, pieces, d.reference);
    const Matrix by_place = embed_gradient(batch.places(0), 1, w, 90, d.reference);
    embed_backward(device(), input, dout.tensor(), dtable.tensor(), dpositions.tensor());
    expect_close(dtable, sum(by_id, before), kFp32Sums, "dtable");
    expect_close(dpositions, sum(by_place, before_positions), kFp32Sums, "dpositions");
  }
}

TEST_P(Ops, AnEmbeddingInInt8IsScaledByItsRow) {
  if (gpu()) GTEST_SKIP() << "on the CPU only";
  const std::vector<uint32_t> ids = {2, 0, 1, 2}, places = {0, 1, 2, 3};
  for (const int64_t width : {5, 16, 40}) {
    std::vector<int8_t> values;
    for (int64_t i = 0; i < 3 * width; ++i) {
      values.push_back(static_cast<int8_t>(mix64(static_cast<uint64_t>(i))));
    }
    const std::vector<float> scales = {0.5F, 0.25F, 2};
    Matrix table(3, width), positions = normal(4, width, 2);
    for (int64_t i = 0; i < 3 * width; ++i) {
      const auto at = static_cast<size_t>(i);
      table.values[at] = values[at] * static_cast<double>(scales[static_cast<size_t>(i / width)]);
    }
    Buffer fp = fp32(positions), out = empty(4, width);
    const EmbedInput input{.ids = ids,
                           .places = places,
                           .scale = 3,
                           .int8_table = {values.data(), scales.data(), 3, width}};
    embed_forward(device(), input, {}, fp.tensor(), out.tensor());
    expect_close(out, embed(ids, places, 3, table, positions, {}), tolerance(), "out");
  }
}

struct LossShape {
  uint32_t tokens;
  int64_t pieces, width, chunk;
  float smoothing;
};

TEST_P(Ops, ProjectionLossMatchesItsDefinitionAndGradientForAnyChunk) {
  std::vector<LossShape> shapes = {{61, 1003, 64, 0, 0.1F}, {61, 1003, 64, 20, 0},
                                   {61, 1003, 64, 1, 0.1F}, {1, 8000, 128, 0, 0.1F},
                                   {13, 51, 24, 5, 0.1F},   {13, 51, 24, 100, 0}};
  if (gpu()) {  // each path of the kernels
    shapes.push_back({40, 32'768, 64, 16, 0.1F});
    shapes.push_back({9, 50'001, 64, 9, 0.1F});
    shapes.push_back({5, 70'000, 64, 5, 0.1F});
  }
  const double rounding = std::max(tolerance(), GetParam().in_products);
  for (const LossShape& s : shapes) {
    const std::string which = std::to_string(s.pieces) + " pieces, " + std::to_string(s.tokens) +
                              " tokens, chunks of " + std::to_string(s.chunk);
    std::vector<uint32_t> targets;
    for (uint64_t t = 0; t < s.tokens; ++t) {
      targets.push_back(static_cast<uint32_t>(mix64(t) % static_cast<uint64_t>(s.pieces)));
    }
    const IndexShape shape{.heads = 1, .head_width = 64, .dtype = type()};
    const TestBatch batch(device(), {s.tokens}, {s.tokens}, shape, {}, targets);
    const int64_t rows = batch.index().target.rows;
    if (gpu()) set_gpu_step(device(), 1);
    Matrix hidden = normal(rows, s.width, 1), table = normal(s.pieces, s.width, 2, 0.2);
    Matrix before = normal(s.pieces, s.width, 3, 0.01);
    Buffer fh = typed(hidden), ft = typed(table), dh = empty(rows, s.width), dt = fp32(before);
    ProjectionLoss op{fh.tensor(), ft.tensor(), batch.index().targets};
    op.smoothing = s.smoothing;
    op.scale = 0.25F;
    op.chunk = s.chunk;
    op.dhidden = dh.tensor();
    op.dtable = dt.tensor();
    Arena arena(device().kind());
    const LossSums got = projection_loss(device(), op, arena);
    const auto wanted =
        reference::projection_loss(hidden, table, targets, static_cast<double>(s.smoothing), 0.25);
    EXPECT_NEAR(got.smoothed / wanted.smoothed, 1, rounding) << which;
    EXPECT_NEAR(got.nll / wanted.nll, 1, rounding) << which;
    expect_close(dh, wanted.dhidden, 3 * rounding, which + " dhidden");
    expect_close(dt, sum(wanted.dtable, before), 3 * rounding, which + " dtable");

    // Evaluation only, with the sums added in device memory.
    op.dhidden = op.dtable = {};
    const Array<LossSums> sums(device(), {{1, 2}});
    op.sums = sums.span().data();
    const LossSums none = projection_loss(device(), op, arena);
    EXPECT_EQ(none.nll, 0);
    EXPECT_NEAR((sums.values()[0].smoothed - 1) / wanted.smoothed, 1, rounding) << which;
    EXPECT_NEAR((sums.values()[0].nll - 2) / wanted.nll, 1, rounding) << which;
  }
}

}  // namespace
}  // namespace reigen
