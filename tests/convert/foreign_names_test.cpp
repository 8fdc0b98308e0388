// Every parameter of every shape has its names in both programs, and no two have the same.
#include "convert/foreign_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "model/transformer.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ForeignNames, OfEveryParameterAreDistinct) {
  for (const bool pre : {true, false}) {
    for (const bool tied : {true, false}) {
      for (const bool joint : {true, false}) {
        ModelOptions options = model_preset("tiny");
        options.norm = pre ? NormPlace::kPre : NormPlace::kPost;
        options.tied = tied;
        options.biases = options.output_bias = true;
        const Transformer model(options, {}, joint ? 50 : PieceCounts::separate(40, 50));
        std::set<std::string> hf;
        std::set<std::string> ctranslate2;
        size_t parts = 0;
        for (const ParameterSlice& slice : model.layout().slices()) {
          const auto names = hf_names(slice.name);
          EXPECT_EQ(slice.size() % names.size(), 0u) << slice.name;
          parts += names.size();
          hf.insert(names.begin(), names.end());
          ctranslate2.insert(ctranslate2_name(slice.name));
        }
        EXPECT_EQ(hf.size(), parts);
        EXPECT_EQ(ctranslate2.size(), model.layout().slices().size());
      }
    }
  }
}

TEST(ForeignNames, SeparateQueriesKeysAndValues) {
  EXPECT_THAT(hf_names("encoder.3.self.query_key_value.weight"),
              ElementsAre("model.encoder.layers.3.self_attn.q_proj.weight",
                          "model.encoder.layers.3.self_attn.k_proj.weight",
                          "model.encoder.layers.3.self_attn.v_proj.weight"));
  EXPECT_THAT(hf_attention_biases("decoder.0.cross.key_value.weight"),
              ElementsAre("model.decoder.layers.0.encoder_attn.k_proj.bias",
                          "model.decoder.layers.0.encoder_attn.v_proj.bias"));
  EXPECT_THAT(hf_attention_biases("decoder.0.ffn.input.weight"), IsEmpty());
  EXPECT_THAT(hf_names("positions.weight"), IsEmpty());
  EXPECT_EQ(ctranslate2_name("decoder.1.cross_norm.shift"),
            "decoder/layer_1/attention/layer_norm/beta");
}

TEST(ForeignNames, AMatrixOfOneRowIsNoVector) {
  ModelOptions options = model_preset("tiny");
  options.ffn_width = 1;
  options.biases = options.output_bias = true;
  const Transformer model(options, {}, 50);
  EXPECT_EQ(model.layout().find("encoder.0.ffn.input.weight").rows, 1);
  EXPECT_TRUE(is_matrix("encoder.0.ffn.input.weight"));
  for (const ParameterSlice& slice : model.layout().slices()) {
    EXPECT_TRUE(slice.rows == 1 || is_matrix(slice.name)) << slice.name;
  }
  for (const char* vector : {"encoder.0.ffn.input.bias", "encoder.0.self_norm.gain",
                             "decoder.norm.shift", "projection.bias"}) {
    EXPECT_FALSE(is_matrix(vector)) << vector;
  }
}

}  // namespace
}  // namespace reigen
