// int8 matrices: their rounding, their files, and the model that computes with them.
#include "model/quantized_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file/files.h"
#include "model/saved_model.h"
#include "support/small_model.h"
#include "support/teacher_forced.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using ::testing::HasSubstr;

template <class F>
std::string quantized_error(F&& f) {
  try {
    f();
  } catch (const CheckpointError& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

CheckpointFacts write_quantized(const SmallModel& small, const std::string& directory) {
  const QuantizedParameters rounded(small.model.layout(), small.parameters);
  return write_quantized_checkpoint(directory, small.facts(7), small.model.layout(),
                                    rounded.tensors(), small.vocabulary, false);
}

PackedBatch small_batch() {
  PackedBatch batch;
  batch.source = {5, 9, 0};
  batch.target_in = {0, 6};
  batch.target_out = {6, 0};
  batch.source_offsets = {0, 3};
  batch.target_offsets = {0, 2};
  batch.first_source_token = batch.first_target_token = {0};
  return batch;
}

TEST(QuantizedParameters, AreWithinHalfAStepAndLeaveVectorsAlone) {
  const SmallModel small(tiny_variant("pre"));
  const QuantizedParameters rounded(small.model.layout(), small.parameters);
  const std::vector<float> expanded = rounded.expanded();
  size_t matrices = 0;
  for (size_t s = 0; s < small.model.layout().slices().size(); ++s) {
    const ParameterSlice& slice = small.model.layout().slices()[s];
    const Int8Matrix matrix = rounded.matrix(s);
    EXPECT_EQ(matrix.empty(), !is_quantizable(slice));
    matrices += matrix.empty() ? 0 : 1;
    for (int64_t r = 0; r < slice.rows; ++r) {
      for (int64_t c = 0; c < slice.cols; ++c) {
        const size_t at = slice.offset + static_cast<size_t>(r * slice.cols + c);
        const double step = matrix.empty() ? 0 : matrix.scales[r];
        ASSERT_NEAR(expanded[at], small.parameters[at], 0.5001 * step) << slice.name;
      }
    }
  }
  EXPECT_GT(matrices, 5u);
}

TEST(QuantizedParameters, ComeBackFromAFileOfAQuarterTheSize) {
  for (const char* variant : {"pre", "post", "swish"}) {
    TempDir dir;
    const SmallModel small(tiny_variant(variant), 500);
    const CheckpointFacts facts = write_quantized(small, dir.path("a"));
    EXPECT_LT(facts.files[0].bytes, 4 * facts.parameters / 2);  // names take most of the rest
    const SavedModel read = load_model(dir.path("a"));
    EXPECT_TRUE(read.facts.quantized);
    EXPECT_TRUE(read.parameters.empty());
    ASSERT_NE(read.quantized, nullptr);
    EXPECT_EQ(read.quantized->expanded(),
              QuantizedParameters(small.model.layout(), small.parameters).expanded());
    EXPECT_THAT(quantized_error([&] { require_fp32(read, "averaged"); }), HasSubstr("averaged"));
  }
}

TEST(QuantizedParameters, GiveNearlyTheLossOfTheExpandedOnes) {
  for (const char* variant : {"pre", "post", "swish"}) {
    TempDir dir;
    write_quantized(SmallModel(tiny_variant(variant)), dir.path("a"));
    SavedModel read = load_model(dir.path("a"));
    const PlacedModel placed(read, {.device = "cpu"}, 1);
    Arena arena;
    const PackedBatch batch = small_batch();
    const double loss =
        read.model->evaluate(placed.opened.device, batch, placed.weights.view(), 0, arena).nll;
    std::vector<float> expanded = read.quantized->expanded();
    const double wanted = read.model->evaluate(placed.opened.device, batch, expanded, 0, arena).nll;
    EXPECT_NEAR(loss, wanted, 0.02 * wanted) << variant;
    EXPECT_NE(loss, wanted) << variant;  // x is rounded, too
  }
}

TEST(QuantizedParameters, OfADifferentModelAreRefused) {
  TempDir dir;
  const SmallModel small(tiny_variant("pre"));
  write_quantized(small, dir.path("a"));
  const std::string file = dir.path("a/model.safetensors");
  const SmallModel other(tiny_variant("pre"), 28);
  EXPECT_THAT(quantized_error([&] { QuantizedParameters(other.model.layout(), file); }),
              HasSubstr("F32 [29] but the model needs F32 [28]"));
  small.write(dir.path("b"));
  EXPECT_THAT(quantized_error([&] {
                QuantizedParameters(small.model.layout(), dir.path("b/model.safetensors"));
              }),
              HasSubstr("has no tensor"));
  std::vector<float> values(small.model.layout().elements());
  EXPECT_THAT(quantized_error([&] { read_buffer(file, small.model.layout(), "", values); }),
              HasSubstr("I8"));
}

TEST(QuantizedParameters, AreNamedByTheManifest) {
  TempDir dir;
  write_quantized(SmallModel(tiny_variant("pre")), dir.path("a"));
  const std::string text = read_file(dir.path("a/manifest.json"));
  EXPECT_TRUE(parse_checkpoint_manifest(text, "m").quantized);
  auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return quantized_error([&] { parse_checkpoint_manifest(changed, "m"); });
  };
  EXPECT_THAT(with("\"int8\"", "\"int2\""), HasSubstr("quantized"));
  EXPECT_THAT(with("\"quantized\"", "\"quantised\""), HasSubstr("quantized"));
  EXPECT_THAT(with("\"version\": 3", "\"version\": 5"), HasSubstr("version 5"));
}

}  // namespace
}  // namespace reigen
