// Embedding tables of two vocabularies, and the bias of the projection.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/incremental.h"
#include "model/transformer.h"
#include "support/teacher_forced.h"

namespace reigen {
namespace {

constexpr uint32_t kSourcePieces = 20;
constexpr uint32_t kTargetPieces = 29;  // not a multiple of 8

struct Tables {
  Tables(const ModelOptions& options, const PieceCounts& pieces)
      : model(options, DropoutOptions{0, 0, 0, 0}, pieces),
        parameters(model.layout().elements()),
        gradients(parameters.size()) {
    model.initialise(parameters, 3);
  }
  std::span<float> values(const std::string& name, std::vector<float>& buffer) const {
    const ParameterSlice& slice = model.layout().find(name);
    return std::span(buffer).subspan(slice.offset, slice.size());
  }
  double loss() {
    Arena arena;
    return model.evaluate(device, batch(), parameters, 0, arena).nll;
  }
  void backward() {
    Arena arena;
    const PackedBatch pairs = batch();
    model.forward_backward(device, {.batch = pairs}, parameters, gradients, arena);
  }
  static PackedBatch batch() {
    PackedBatch batch;
    batch.add(std::vector<uint32_t>{5, 19, 7, 1}, std::vector<uint32_t>{28, 4, 20, 1}, 2);
    batch.add(std::vector<uint32_t>{3, 1}, std::vector<uint32_t>{9, 28, 1}, 2);
    return batch;
  }

  const Device device = Device::cpu(1);
  Transformer model;
  std::vector<float> parameters;
  std::vector<float> gradients;
};

TEST(Tables, OfTwoVocabulariesTieTheTargetsToTheProjection) {
  for (const char* variant : {"pre", "post"}) {
    ModelOptions options = tiny_variant(variant);
    const PieceCounts pieces = PieceCounts::separate(kSourcePieces, kTargetPieces);
    options.tied = true;
    Tables tied(options, pieces);
    options.tied = false;
    Tables apart(options, pieces);
    for (const ParameterSlice& slice : apart.model.layout().slices()) {
      const std::string from =
          slice.name == "projection.weight" ? "target_embedding.weight" : slice.name;
      const auto values = tied.values(from, tied.parameters);
      std::copy(values.begin(), values.end(), apart.values(slice.name, apart.parameters).begin());
    }
    EXPECT_EQ(tied.loss(), apart.loss());
    tied.backward();
    apart.backward();
    const auto both = tied.values("target_embedding.weight", tied.gradients);
    const auto embedding = apart.values("target_embedding.weight", apart.gradients);
    const auto projection = apart.values("projection.weight", apart.gradients);
    for (size_t i = 0; i < both.size(); ++i) {
      EXPECT_NEAR(both[i], embedding[i] + projection[i], 1e-5);
    }
    EXPECT_TRUE(std::equal(both.begin(), both.end(), projection.begin()) == false);
    const auto source = tied.values("source_embedding.weight", tied.gradients);
    const auto wanted = apart.values("source_embedding.weight", apart.gradients);
    EXPECT_TRUE(std::equal(source.begin(), source.end(), wanted.begin()));
  }
}

TEST(OutputBias, HasTheGradientOfItsDefinition) {
  ModelOptions options = tiny_variant("pre");
  options.output_bias = true;
  Tables tables(options, kTargetPieces);
  const auto bias = tables.values("projection.bias", tables.parameters);
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = 0.1F * static_cast<float>(i % 7);
  tables.backward();
  const auto gradient = tables.values("projection.bias", tables.gradients);
  double sum = 0;
  for (size_t i = 0; i < bias.size(); ++i) {
    constexpr float kStep = 1e-2F;
    const float before = bias[i];
    bias[i] = before + kStep;
    const double above = tables.loss();
    bias[i] = before - kStep;
    const double below = tables.loss();
    bias[i] = before;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 2e-3) << i;
    sum += gradient[i];
  }
  EXPECT_NEAR(sum, 0, 1e-4);  // of a softmax
}

TEST(OutputBias, IsPartOfADecodersLogitsAndTheStartPieceIsNeverEmitted) {
  ModelOptions options = tiny_variant("post");
  options.output_bias = true;
  Tables tables(options, kTargetPieces);
  tables.model.set_start_piece(2);
  auto logits = [&] {
    IncrementalDecoder decoder(tables.device, tables.model, tables.parameters);
    decoder.reserve(3, 2);
    EXPECT_TRUE(decoder.add(std::vector<uint32_t>{5, 9, 1}, std::vector<uint32_t>{0, 3},
                            std::vector<int64_t>{2}));
    const Tensor out = decoder.step(std::vector<uint32_t>{0}, std::vector<uint32_t>{2});
    return std::vector<float>(out.row(0), out.row(0) + out.cols);
  };
  const std::vector<float> before = logits();
  ASSERT_EQ(before.size(), kTargetPieces);
  for (float& value : tables.values("projection.bias", tables.parameters)) value = 0.5F;
  const std::vector<float> after = logits();
  for (size_t i = 0; i < after.size(); ++i) {
    if (i == 2) {
      EXPECT_LT(after[i], -1e8F);
    } else {
      EXPECT_NEAR(after[i], before[i] + 0.5F, 1e-5);
    }
  }
}

}  // namespace
}  // namespace reigen
