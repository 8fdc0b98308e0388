// Which parameters --freeze leaves as they are.
#include "optim/frozen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/transformer.h"
#include "optim/muon_plan.h"

namespace reigen {
namespace {

using ::testing::HasSubstr;

Transformer frozen_model(bool tied) {
  ModelOptions model = sizes_of_preset();
  model.tied = tied;
  model.positions = Positions::kLearned;
  return {resolve_model(model, "tiny"), {}, 100};
}

// Whether each element of a buffer is frozen.
std::vector<bool> frozen_elements(const ParameterLayout& layout, const std::string& parts) {
  std::vector<bool> frozen(layout.elements());
  const Frozen of_parts(layout, parts);
  for (const ElementRange& range : of_parts.ranges()) {
    for (size_t i = range.begin; i < range.end; ++i) frozen[i] = true;
  }
  return frozen;
}

TEST(Frozen, HasAllElementsOfItsPartsAndNoOther) {
  for (bool tied : {true, false}) {
    const Transformer model = frozen_model(tied);
    for (const std::string part : {"embeddings", "encoder", "decoder", "encoder.0"}) {
      const std::vector<bool> frozen = frozen_elements(model.layout(), part);
      for (const ParameterSlice& slice : model.layout().slices()) {
        const bool layer = slice.name.starts_with("encoder.") || slice.name.starts_with("decoder.");
        const bool wanted = part == "embeddings" ? !layer : slice.name.starts_with(part + ".");
        for (size_t i = 0; i < slice.size(); ++i) ASSERT_EQ(frozen[slice.offset + i], wanted);
      }
    }
  }
}

TEST(Frozen, TakesSeveralPartsAndSingleParameters) {
  const Transformer model = frozen_model(true);
  const ParameterSlice& gain = model.layout().find("encoder.norm.gain");
  const std::vector<bool> frozen =
      frozen_elements(model.layout(), "decoder,embeddings,encoder.norm.gain");
  for (const ParameterSlice& slice : model.layout().slices()) {
    const bool trained = slice.name.starts_with("encoder.") && slice.name != gain.name;
    EXPECT_EQ(frozen[slice.offset], !trained) << slice.name;
  }
}

TEST(Frozen, IsNothingWithoutParts) {
  const Transformer model = frozen_model(true);
  const Frozen none(model.layout(), "");
  EXPECT_TRUE(none.empty());
  const MuonPlan plan = muon_plan(model.layout(), true);
  EXPECT_EQ(none.without_frozen(plan).matrices.size(), plan.matrices.size());
  EXPECT_EQ(none.without_frozen(plan).rest.size(), plan.rest.size());
}

TEST(Frozen, NamesAPartThatTheModelLacks) {
  const Transformer model = frozen_model(true);
  for (const std::string parts : {"encoders", "encoder,", "encoder.9", "embedding.weigh"}) {
    try {
      const Frozen frozen(model.layout(), parts);
      ADD_FAILURE() << parts;
    } catch (const ConfigError& e) {
      EXPECT_THAT(e.what(), HasSubstr("--freeze " + parts));
    }
  }
  EXPECT_THROW(Frozen(model.layout(), "embeddings,encoder,decoder"), ConfigError);
}

TEST(Frozen, LeavesEveryOtherElementInThePlanOnce) {
  const Transformer model = frozen_model(true);
  for (const std::string parts : {"encoder", "embeddings,decoder.1", "encoder.0,encoder.norm"}) {
    const Frozen frozen(model.layout(), parts);
    for (OptimizerKind kind : {OptimizerKind::kAdam, OptimizerKind::kMuon}) {
      OptimizerOptions options;
      options.kind = kind;
      const MuonPlan plan = frozen.without_frozen(muon_plan(model.layout(), options));
      std::vector<int> seen(model.layout().elements());
      for (const MatrixRange& m : plan.matrices) {
        for (size_t i = m.offset; i < m.end(); ++i) ++seen[i];
      }
      for (const ElementRange& r : plan.rest) {
        for (size_t i = r.begin; i < r.end; ++i) ++seen[i];
      }
      const std::vector<bool> left_out = frozen_elements(model.layout(), parts);
      for (size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], left_out[i] ? 0 : 1) << i;
    }
  }
}

TEST(Frozen, VisitsAPartOfTheBufferOnly) {
  const Transformer model = frozen_model(true);
  const Frozen frozen(model.layout(), "encoder");
  const ElementRange all = frozen.ranges().front();
  std::vector<ElementRange> seen;
  auto note = [&](ElementRange range) { seen.push_back(range); };
  frozen.visit(0, all.begin, note);
  EXPECT_TRUE(seen.empty());
  frozen.visit(all.begin + 8, all.begin + 24, note);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].begin, all.begin + 8);
  EXPECT_EQ(seen[0].end, all.begin + 24);
}

}  // namespace
}  // namespace reigen
