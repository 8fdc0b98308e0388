// The whole model compared with PyTorch (same weights and batch, same loss and gradients), and the
// properties that training relies on.
#include "model/transformer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "ops/adam.h"
#include "tensor/safetensors.h"

namespace reigen {
namespace {

using ::testing::HasSubstr;

constexpr size_t kPieces = 29;
constexpr float kSmoothing = 0.1F;

PackedBatch make_batch(const std::vector<std::vector<uint32_t>>& source,
                       const std::vector<std::vector<uint32_t>>& target) {
  PackedBatch batch;
  for (size_t s = 0; s < source.size(); ++s) {
    batch.first_source_token.push_back(batch.source.size());
    batch.first_target_token.push_back(batch.target_out.size());
    batch.source.insert(batch.source.end(), source[s].begin(), source[s].end());
    batch.target_in.push_back(2);
    batch.target_in.insert(batch.target_in.end(), target[s].begin(), target[s].end() - 1);
    batch.target_out.insert(batch.target_out.end(), target[s].begin(), target[s].end());
    batch.source_offsets.push_back(static_cast<uint32_t>(batch.source.size()));
    batch.target_offsets.push_back(static_cast<uint32_t>(batch.target_out.size()));
  }
  return batch;
}

PackedBatch fixture_batch() {
  return make_batch({{5, 9, 2, 7, 1}, {3, 1}, {11, 28, 4, 4, 4, 8, 1}},
                    {{6, 6, 1}, {10, 12, 13, 14, 2, 1}, {1}});
}

ModelOptions small_options() {
  ModelOptions options;
  options.width = 16;
  options.heads = 2;
  options.ffn_width = 24;
  options.encoder_layers = 2;
  options.decoder_layers = 2;
  options.max_length = 12;
  return options;
}

ModelOptions variant_options(const std::string& name) {
  ModelOptions options = small_options();
  if (name == "post") {
    options.norm = NormPlace::kPost;
    options.activation = ActivationKind::kGelu;
    options.positions = Positions::kLearned;
  }
  if (name == "swish") options.activation = ActivationKind::kSwish;
  options.tied = name == "pre";
  options.biases = name != "pre";
  return options;
}

double norm_of(std::span<const float> values) {
  double sum = 0;
  for (float v : values) sum += static_cast<double>(v) * v;
  return std::sqrt(sum);
}

constexpr DropoutOptions kNoDropout = {0, 0, 0, 0};

class AgainstPyTorch : public ::testing::TestWithParam<const char*> {};

TEST_P(AgainstPyTorch, LossAndEveryGradientAgree) {
  const std::string variant = GetParam();
  SafeTensorsFile fixture(REIGEN_TESTS "/model/fixture.safetensors");
  Transformer model(variant_options(variant), kNoDropout, kPieces);
  std::vector<float> parameters(model.layout().elements());
  for (const auto& slice : model.layout().slices()) {
    auto values = fixture.find(variant + ".weight." + slice.name).f32();
    ASSERT_EQ(values.size(), slice.size()) << slice.name;
    std::copy(values.begin(), values.end(), parameters.begin() + static_cast<long>(slice.offset));
  }
  for (int threads : {1, 2}) {
    std::vector<float> gradients(parameters.size());
    Arena arena;
    PackedBatch batch = fixture_batch();
    LossSums loss =
        model.forward_backward(Device::cpu(threads), {.batch = batch, .smoothing = kSmoothing},
                               parameters, gradients, arena);
    auto wanted = fixture.find(variant + ".loss").f32();
    EXPECT_NEAR(loss.smoothed, wanted[0], 1e-5 * wanted[0]);
    EXPECT_NEAR(loss.nll, wanted[1], 1e-5 * wanted[1]);
    for (const auto& slice : model.layout().slices()) {
      auto gradient = fixture.find(variant + ".gradient." + slice.name).f32();
      std::vector<float> difference(slice.size());
      for (size_t i = 0; i < slice.size(); ++i) {
        difference[i] = gradients[slice.offset + i] - gradient[i];
      }
      // Some are zero in exact arithmetic (a bias on keys moves all scores alike).
      EXPECT_LE(norm_of(difference), 1e-4 * norm_of(gradient) + 1e-6) << slice.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, AgainstPyTorch, ::testing::Values("pre", "post", "swish"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Transformer, BaseHasTheParametersOfTheOriginal) {
  Transformer model(model_preset("base"), {}, 32'768);
  EXPECT_EQ(model.layout().parameters(), 60'880'896u);
}

TEST(Transformer, NamesEveryParameterOnceAndEndsWithTheEmbedding) {
  Transformer model(small_options(), {}, kPieces);
  std::set<std::string> names;
  for (const auto& slice : model.layout().slices()) {
    EXPECT_TRUE(names.insert(slice.name).second) << slice.name;
  }
  EXPECT_EQ(model.layout().slices().back().name, "embedding.weight");
}

struct StepResult {
  std::vector<float> parameters;
  std::vector<float> gradients;
  LossSums loss;
};

StepResult run_once(const DropoutOptions& dropout, const PackedBatch& batch, uint64_t step,
                    const std::function<void(size_t)>& on_ready = {}) {
  Transformer model(small_options(), dropout, kPieces);
  StepResult run;
  run.parameters.resize(model.layout().elements());
  run.gradients.resize(model.layout().elements());
  model.initialise(run.parameters, 7);
  Arena arena;
  run.loss = model.forward_backward(Device::cpu(1),
                                    {.batch = batch, .seed = 3, .step = step, .smoothing = 0.1F},
                                    run.parameters, run.gradients, arena, {.ready = on_ready});
  return run;
}

TEST(Transformer, RepeatsAStepBitForBitAndChangesDropoutWithTheStep) {
  DropoutOptions dropout = {0.1, 0.2, 0.3, 0.1};
  StepResult first = run_once(dropout, fixture_batch(), 5);
  EXPECT_EQ(first.gradients, run_once(dropout, fixture_batch(), 5).gradients);
  EXPECT_NE(first.gradients, run_once(dropout, fixture_batch(), 6).gradients);
}

TEST(Transformer, SumsToTheSameGradientWhenABatchIsSplitOverWorkers) {
  DropoutOptions dropout = {0.1, 0.2, 0.3, 0.1};
  PackedBatch whole = fixture_batch();
  StepResult together = run_once(dropout, whole, 5);
  std::vector<float> sum(together.gradients.size());
  double loss = 0;
  std::vector<std::vector<uint32_t>> source = {{5, 9, 2, 7, 1}, {3, 1}, {11, 28, 4, 4, 4, 8, 1}};
  std::vector<std::vector<uint32_t>> target = {{6, 6, 1}, {10, 12, 13, 14, 2, 1}, {1}};
  for (size_t s = 0; s < 3; ++s) {
    PackedBatch part = make_batch({source[s]}, {target[s]});
    part.first_source_token = {whole.first_source_token[s]};
    part.first_target_token = {whole.first_target_token[s]};
    StepResult run = run_once(dropout, part, 5);
    loss += run.loss.smoothed;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += run.gradients[i];
  }
  EXPECT_NEAR(loss, together.loss.smoothed, 1e-5 * loss);
  std::vector<float> difference(sum.size());
  for (size_t i = 0; i < sum.size(); ++i) difference[i] = sum[i] - together.gradients[i];
  EXPECT_LT(norm_of(difference), 1e-5 * norm_of(sum));
}

TEST(Transformer, ReportsFinalGradientsDuringBackward) {
  StepResult final = run_once(kNoDropout, fixture_batch(), 1);
  Transformer model(small_options(), kNoDropout, kPieces);
  std::vector<float> parameters(model.layout().elements());
  std::vector<float> gradients(parameters.size());
  model.initialise(parameters, 7);
  Arena arena;
  std::vector<size_t> seen;
  PackedBatch batch = fixture_batch();
  model.forward_backward(Device::cpu(1), {.batch = batch, .seed = 3, .step = 1, .smoothing = 0.1F},
                         parameters, gradients, arena, {.ready = [&](size_t ready) {
                           seen.push_back(ready);
                           for (size_t i = 0; i < ready; ++i) {
                             ASSERT_EQ(gradients[i], final.gradients[i]) << ready << " " << i;
                           }
                         }});
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_GE(seen.size(), 4u);
  EXPECT_EQ(seen.back(), gradients.size());
}

TEST(Transformer, AllocatesNothingAfterTheFirstSteps) {
  Transformer model(small_options(), {}, kPieces);
  std::vector<float> parameters(model.layout().elements());
  std::vector<float> gradients(parameters.size());
  model.initialise(parameters, 1);
  Arena arena;
  PackedBatch batch = fixture_batch();
  auto step = [&] {
    model.forward_backward(Device::cpu(1), {.batch = batch}, parameters, gradients, arena);
  };
  step();
  step();
  uint64_t before = arena.allocations();
  step();
  EXPECT_EQ(arena.allocations(), before);
}

TEST(Transformer, NamesASentenceThatIsTooLong) {
  std::vector<uint32_t> endless(13, 5);
  try {
    run_once(kNoDropout, make_batch({endless}, {{1}}), 1);
    FAIL() << "expected an error";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("13 tokens"));
    EXPECT_THAT(e.what(), HasSubstr("12"));
  }
}

TEST(Transformer, OverfitsASmallBatch) {
  Transformer model(small_options(), kNoDropout, kPieces);
  const size_t n = model.layout().elements();
  std::vector<float> parameters(n), gradients(n), first(n), second(n);
  model.initialise(parameters, 1);
  Device device = Device::cpu(1);
  Arena arena;
  PackedBatch batch = fixture_batch();
  double before = model.evaluate(device, batch, parameters, 0, arena).nll / 10;
  for (uint64_t step = 1; step <= 200; ++step) {
    std::fill(gradients.begin(), gradients.end(), 0.0F);
    model.forward_backward(device, {.batch = batch, .step = step, .loss_scale = 0.1F}, parameters,
                           gradients, arena);
    adam_step(device, {.rate = 5e-3, .step = step}, gradients, parameters, first, second);
  }
  double after = model.evaluate(device, batch, parameters, 0, arena).nll / 10;
  EXPECT_GT(before, 2.5);
  EXPECT_LT(after, 0.1);
}

}  // namespace
}  // namespace reigen
