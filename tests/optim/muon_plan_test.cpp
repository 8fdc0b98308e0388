// Which parameters Muon updates.
#include "optim/muon_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/transformer.h"

namespace reigen {
namespace {

Transformer model_of(bool tied) {
  ModelOptions model = sizes_of_preset();
  model.tied = tied;
  model.biases = true;
  return {resolve_model(model, "tiny"), {}, 100};
}

TEST(MuonPlan, HasTheHiddenMatricesAndNothingElse) {
  for (bool tied : {true, false}) {
    const Transformer model = model_of(tied);
    const MuonPlan plan = muon_plan(model.layout(), false);
    std::vector<size_t> expected;
    for (const ParameterSlice& slice : model.layout().slices()) {
      const bool layer = slice.name.starts_with("encoder.") || slice.name.starts_with("decoder.");
      if (layer && slice.name.ends_with(".weight")) expected.push_back(slice.offset);
    }
    const auto layers = static_cast<size_t>(model.options().encoder_layers * 4 +
                                            model.options().decoder_layers * 7);
    ASSERT_EQ(plan.matrices.size(), layers);
    for (size_t i = 0; i < layers; ++i) EXPECT_EQ(plan.matrices[i].offset, expected[i]);
  }
}

TEST(MuonPlan, CoversEveryElementOnce) {
  const Transformer model = model_of(true);
  for (bool split : {true, false}) {
    const MuonPlan plan = muon_plan(model.layout(), split);
    std::vector<int> seen(model.layout().elements());
    for (const MatrixRange& m : plan.matrices) {
      for (size_t i = m.offset; i < m.end(); ++i) ++seen[i];
    }
    for (const ElementRange& range : plan.rest) {
      for (size_t i = range.begin; i < range.end; ++i) ++seen[i];
    }
    EXPECT_EQ(std::ranges::count(seen, 1), static_cast<ptrdiff_t>(seen.size())) << split;
  }
}

TEST(MuonPlan, SplitsQueriesKeysAndValues) {
  const Transformer model = model_of(true);
  const int64_t width = model.options().width;
  const MuonPlan plan = muon_plan(model.layout(), true);
  auto matrix_at = [&](size_t offset) {
    return *std::ranges::find(plan.matrices, offset, &MatrixRange::offset);
  };
  for (const auto& [name, parts] : {std::pair("decoder.0.self.query_key_value", 3),
                                    std::pair("decoder.0.cross.key_value", 2)}) {
    const ParameterSlice& slice = model.layout().find(std::string(name) + ".weight");
    for (int part = 0; part < parts; ++part) {
      const MatrixRange m = matrix_at(slice.offset + static_cast<size_t>(part * width * width));
      EXPECT_EQ(m.rows, width);
      EXPECT_EQ(m.cols, width);
    }
  }
}

TEST(MuonPlan, IsOneRangeWithoutMuon) {
  const Transformer model = model_of(true);
  const MuonPlan plan = muon_plan(model.layout(), OptimizerOptions{});
  EXPECT_TRUE(plan.matrices.empty());
  ASSERT_EQ(plan.rest.size(), 1u);
  EXPECT_EQ(plan.rest[0].size(), model.layout().elements());
}

}  // namespace
}  // namespace reigen
