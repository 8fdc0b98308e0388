// The estimated memory of a step against the arena that the step really uses.
#include "model/activation_memory.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "model/transformer.h"
#include "support/teacher_forced.h"

namespace reigen {
namespace {

struct Shape {
  const char* name;
  ModelOptions model;
  size_t pieces;
};

ModelOptions shaped(int64_t width, int64_t ffn_width, int64_t encoder, int64_t decoder) {
  ModelOptions options;
  options.width = width;
  options.heads = 4;
  options.ffn_width = ffn_width;
  options.encoder_layers = encoder;
  options.decoder_layers = decoder;
  options.max_length = 64;
  return options;
}

ModelOptions untied_post(ModelOptions options) {
  options.norm = NormPlace::kPost;
  options.positions = Positions::kLearned;
  options.activation = ActivationKind::kGelu;
  options.tied = false;
  options.biases = true;
  return options;
}

std::vector<Shape> shapes() {
  return {{"pre", shaped(64, 256, 2, 2), 200},
          {"post", untied_post(shaped(64, 256, 2, 2)), 200},
          {"wide_ffn", shaped(32, 512, 1, 1), 100},
          {"narrow_ffn", shaped(64, 32, 2, 2), 100},
          {"deep_encoder", shaped(32, 64, 6, 1), 300},
          {"deep_decoder", untied_post(shaped(32, 64, 1, 6)), 300},
          {"large_vocabulary", shaped(32, 128, 1, 1), 8000},
          {"large_vocabulary_post", untied_post(shaped(32, 128, 2, 2)), 3000},
          {"one_layer", shaped(128, 512, 1, 1), 1000},
          {"narrow", shaped(16, 24, 2, 2), 29}};
}

// Sentences of `source` and `target` tokens each.
PackedBatch batch_of(uint32_t sentences, uint32_t source, uint32_t target, size_t pieces) {
  PackedBatch batch;
  auto fill = [&](std::vector<uint32_t>& ids, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      ids.push_back(static_cast<uint32_t>(mix64(ids.size()) % pieces));
    }
  };
  for (uint32_t s = 0; s < sentences; ++s) {
    batch.first_source_token.push_back(batch.source.size());
    batch.first_target_token.push_back(batch.target_out.size());
    fill(batch.source, source);
    fill(batch.target_in, target);
    fill(batch.target_out, target);
    batch.source_offsets.push_back(static_cast<uint32_t>(batch.source.size()));
    batch.target_offsets.push_back(static_cast<uint32_t>(batch.target_out.size()));
  }
  return batch;
}

class StepMemory : public ::testing::TestWithParam<Shape> {
 protected:
  StepMemory()
      : model(GetParam().model, {}, GetParam().pieces),
        parameters(model.layout().elements()),
        gradients(parameters.size()) {
    model.initialise(parameters, 1);
  }

  // Whether a step fits into `bytes`.
  bool fits(const PackedBatch& batch, double bytes) {
    Arena arena;
    arena.bytes(static_cast<size_t>(bytes) / 64 * 64);
    const size_t before = arena.capacity();
    model.forward_backward(Device::cpu(1), {.batch = batch, .loss_scale = 1e-3F}, parameters,
                           gradients, arena);
    return arena.capacity() == before;
  }

  Transformer model;
  std::vector<float> parameters;
  std::vector<float> gradients;
};

TEST_P(StepMemory, IsBoundedToWithinATenth) {
  const ActivationBytes bytes = activation_bytes(GetParam().model, GetParam().pieces);
  struct Lengths {
    uint32_t sentences;
    uint32_t source;
    uint32_t target;
  };
  for (const Lengths& l :
       {Lengths{40, 15, 15}, {20, 60, 30}, {20, 10, 60}, {60, 2, 10}, {14, 64, 37}}) {
    const PackedBatch batch = batch_of(l.sentences, l.source, l.target, GetParam().pieces);
    ASSERT_GT(batch.target_out.size(), 512u);
    const double bound = bytes.of(batch.source.size(), batch.target_out.size());
    EXPECT_TRUE(fits(batch, bound)) << l.source << " and " << l.target;
    EXPECT_FALSE(fits(batch, bound / 1.1)) << l.source << " and " << l.target;
  }
}

TEST_P(StepMemory, IsBoundedForASmallBatchToo) {
  const ActivationBytes bytes = activation_bytes(GetParam().model, GetParam().pieces);
  for (uint32_t sentences : {1, 3, 20}) {
    for (auto [source, target] : {std::pair{1U, 1U}, {9U, 1U}, {1U, 9U}, {11U, 13U}}) {
      const PackedBatch batch = batch_of(sentences, source, target, GetParam().pieces);
      EXPECT_TRUE(fits(batch, bytes.of(batch.source.size(), batch.target_out.size())));
    }
  }
}

TEST_P(StepMemory, FitsTheBudgetWithTheMostTokensItAllows) {
  const ActivationBytes bytes = activation_bytes(GetParam().model, GetParam().pieces);
  const double budget = bytes.of_any(1500);
  const uint64_t most = bytes.most_tokens(budget);
  EXPECT_NEAR(static_cast<double>(most), 1500, 1);
  for (uint32_t target : {4, 25, 46}) {  // any proportion
    const auto sentences = static_cast<uint32_t>(most / 50);
    EXPECT_TRUE(fits(batch_of(sentences, 50 - target, target, GetParam().pieces), budget));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, StepMemory, ::testing::ValuesIn(shapes()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ActivationBytes, AllowsNoTokensWhereNoneFit) {
  const ActivationBytes bytes = activation_bytes(tiny_variant("pre"), 29);
  EXPECT_EQ(bytes.most_tokens(-1e9), 0u);
  EXPECT_EQ(bytes.most_tokens(0), 0u);
  EXPECT_EQ(bytes.most_tokens(4.0 * 512 * 29), 0u);  // the logits alone
}

TEST(ActivationBytes, NeverTakesMoreThanTheBudgetInAnyProportion) {
  const ActivationBytes bytes = activation_bytes(model_preset("base"), 32'000);
  for (double budget : {100e6, 1e9, 7.77e9}) {
    const uint64_t most = bytes.most_tokens(budget);
    ASSERT_GT(most, 0u);
    for (uint64_t source : {uint64_t{0}, most / 3, most / 2, most}) {
      EXPECT_LE(bytes.of(source, most - source), budget);
    }
    EXPECT_GT(bytes.of_any(most + 1), budget);
  }
}

}  // namespace
}  // namespace reigen
