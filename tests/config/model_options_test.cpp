// Shapes of models: presets, sizes that fit together, and the record in a checkpoint.
#include "config/model_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace reigen {
namespace {

using ::testing::HasSubstr;

// Every field by name, as in JSON.
std::string text_of(const ModelOptions& options) { return one_line(model_json(options)); }

TEST(ModelPreset, NamesFourSizes) {
  EXPECT_THAT(model_preset_names(), ::testing::ElementsAre("tiny", "small", "base", "big"));
  for (const auto& name : model_preset_names()) check_model_options(model_preset(name));
  EXPECT_EQ(text_of(model_preset("base")), text_of(ModelOptions{}));
  EXPECT_EQ(model_preset("tiny").width, 128);
  EXPECT_EQ(model_preset("big").ffn_width, 4096);
}

TEST(ModelPreset, SuggestsTheNearestNameForATypo) {
  try {
    model_preset("smal");
    FAIL() << "expected an error";
  } catch (const ConfigError& e) {
    EXPECT_STREQ(
        e.what(),
        "unknown preset 'smal' (did you mean 'small'?); use one of tiny, small, base, big");
  }
}

TEST(ResolveModel, FillsInOnlySizesThatWereNotGiven) {
  ModelOptions given = sizes_of_preset();
  EXPECT_EQ(text_of(resolve_model(given, "small")), text_of(model_preset("small")));
  given.width = 64;
  given.decoder_layers = 1;
  given.norm = NormPlace::kPost;
  given.max_length = 99;
  const ModelOptions options = resolve_model(given, "tiny");
  EXPECT_EQ(options.width, 64);
  EXPECT_EQ(options.decoder_layers, 1);
  EXPECT_EQ(options.norm, NormPlace::kPost);
  EXPECT_EQ(options.max_length, 99);
  EXPECT_EQ(options.heads, 4);
  EXPECT_EQ(options.ffn_width, 512);
  EXPECT_EQ(options.encoder_layers, 2);
}

TEST(ResolveModel, RefusesSizesThatDoNotFitTogether) {
  ModelOptions given = sizes_of_preset();
  given.heads = 3;
  EXPECT_THROW(resolve_model(given, "tiny"), ConfigError);
  given.width = 33;
  EXPECT_THROW(resolve_model(given, "tiny"), ConfigError);  // odd
  EXPECT_THROW(resolve_model(sizes_of_preset(), "huge"), ConfigError);
}

TEST(ModelJson, ReadsBackEveryVariant) {
  for (NormPlace norm : {NormPlace::kPre, NormPlace::kPost}) {
    for (auto activation : {ActivationKind::kRelu, ActivationKind::kGelu, ActivationKind::kSwish}) {
      for (Positions positions : {Positions::kSinusoid, Positions::kLearned}) {
        for (int bits = 0; bits < 4; ++bits) {
          const ModelOptions written = {.width = 48,
                                        .heads = 3,
                                        .ffn_width = 20,
                                        .encoder_layers = 7,
                                        .decoder_layers = 5,
                                        .max_length = 77,
                                        .norm = norm,
                                        .activation = activation,
                                        .positions = positions,
                                        .tied = (bits & 1) != 0,
                                        .biases = (bits & 2) != 0};
          const ModelOptions read = model_from_json(Json::parse(pretty(model_json(written))));
          EXPECT_EQ(read.width, 48);
          EXPECT_EQ(read.heads, 3);
          EXPECT_EQ(read.ffn_width, 20);
          EXPECT_EQ(read.encoder_layers, 7);
          EXPECT_EQ(read.decoder_layers, 5);
          EXPECT_EQ(read.max_length, 77);
          EXPECT_EQ(read.norm, norm);
          EXPECT_EQ(read.activation, activation);
          EXPECT_EQ(read.positions, positions);
          EXPECT_EQ(read.tied, written.tied);
          EXPECT_EQ(read.biases, written.biases);
        }
      }
    }
  }
}

TEST(ModelJson, IsACheckpointErrorWhenItCannotBeRead) {
  auto changed = [](const std::string& key, const Json& value) {
    Json json = model_json({});
    json[key] = value;
    return json;
  };
  const std::vector<Json> bad = {nullptr,
                                 7,
                                 "base",
                                 Json::array({1, 2}),
                                 changed("width", 0),
                                 changed("width", -16),
                                 changed("width", 16.5),
                                 changed("width", 1'000'000'000),
                                 changed("width", nullptr),
                                 changed("width", Json::array({16})),
                                 changed("heads", 7),
                                 changed("heads", 0),
                                 changed("encoder-layers", 0),
                                 changed("norm", "sideways"),
                                 changed("activation", 3),
                                 changed("tied", "perhaps"),
                                 changed("experts", 8)};
  for (const Json& json : bad) {
    try {
      model_from_json(json);
      ADD_FAILURE() << "accepted: " << one_line(json);
    } catch (const CheckpointError& e) {
      EXPECT_THAT(e.what(), HasSubstr("cannot read the model's shape"));
    }
  }
}

TEST(DropoutOptions, AllSetsFourRatesAndALaterOptionChangesOne) {
  DropoutOptions options;
  Schema schema("try", "Tries.");
  describe(schema, options);
  schema.parse_yaml("dropout: {all: 0.3, attention: 0}\n", "run.yaml");
  EXPECT_EQ(options.embedding, 0.3);
  EXPECT_EQ(options.attention, 0);
  EXPECT_EQ(options.activation, 0.3);
  EXPECT_EQ(options.residual, 0.3);
  schema.parse(std::vector<std::string>{"--dropout", "0.2", "--dropout.residual=0.5"});
  EXPECT_EQ(options.attention, 0.2);
  EXPECT_EQ(options.residual, 0.5);
}

TEST(DropoutOptions, TheShorthandIsCheckedAndNeverRecorded) {
  DropoutOptions options;
  Schema schema("try", "Tries.");
  describe(schema, options);
  EXPECT_THROW(schema.parse(std::vector<std::string>{"--dropout", "0.95"}), ConfigError);
  EXPECT_THROW(schema.parse_yaml("dropout: {all: []}\n", "run.yaml"), ConfigError);
  schema.parse(std::vector<std::string>{"--dropout", "0.25"});
  EXPECT_EQ(one_line(schema.current()),
            R"({"dropout":{"embedding":0.25,"attention":0.25,"activation":0.25,"residual":0.25}})");
}

}  // namespace
}  // namespace reigen
