#include "config/model_options.h"

#include "base/error.h"
#include "base/format.h"
#include "config/suggest.h"

namespace reigen {
namespace {

struct Preset {
  const char* name;
  int64_t width;
  int64_t heads;
  int64_t ffn_width;
  int64_t layers;
};

// `small` is the model of the Multi30k benchmark; `base` and `big` are those of Vaswani et al.
constexpr Preset kPresets[] = {
    {"tiny", 128, 4, 512, 2},
    {"small", 256, 4, 1024, 4},
    {"base", 512, 8, 2048, 6},
    {"big", 1024, 16, 4096, 6},
};

}  // namespace

std::vector<std::string> model_preset_names() {
  std::vector<std::string> names;
  for (const auto& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

ModelOptions model_preset(const std::string& name) {
  for (const auto& preset : kPresets) {
    if (name != preset.name) continue;
    ModelOptions options;
    options.width = preset.width;
    options.heads = preset.heads;
    options.ffn_width = preset.ffn_width;
    options.encoder_layers = preset.layers;
    options.decoder_layers = preset.layers;
    return options;
  }
  auto near = nearest(name, model_preset_names());
  throw ConfigError(format("unknown preset '{}'{}; use one of {}", name,
                           near ? format(" (did you mean '{}'?)", *near) : "",
                           fmt::join(model_preset_names(), ", ")));
}

void describe(Schema& s, ModelOptions& o) {
  const std::string own = "; 0 for the preset's";
  s.option("model.width", o.width, "model width (size of embeddings and hidden states)" + own, 0,
           65'536)
      .hyperparameter();
  s.option("model.heads", o.heads, "number of attention heads" + own, 0, 1024).hyperparameter();
  s.option("model.ffn-width", o.ffn_width, "inner width of the feed-forward layers" + own, 0,
           1'000'000)
      .hyperparameter();
  s.option("model.encoder-layers", o.encoder_layers, "number of encoder layers" + own, 0, 1000)
      .hyperparameter();
  s.option("model.decoder-layers", o.decoder_layers, "number of decoder layers" + own, 0, 1000)
      .hyperparameter();
  s.option("model.max-length", o.max_length,
           "maximum length of a sentence in tokens, end of sentence included", 2, 65'536)
      .hyperparameter();
  s.choice("model.norm", o.norm, "layer normalisation before (pre) or after (post) each sublayer",
           {{"pre", NormPlace::kPre}, {"post", NormPlace::kPost}})
      .hyperparameter();
  s.choice("model.activation", o.activation,
           "activation function of the feed-forward layers; gelu is its tanh form, gelu-erf the "
           "exact one",
           {{"relu", ActivationKind::kRelu},
            {"gelu", ActivationKind::kGelu},
            {"swish", ActivationKind::kSwish},
            {"gelu-erf", ActivationKind::kGeluErf}})
      .hyperparameter();
  s.choice("model.positions", o.positions, "positional encoding",
           {{"sinusoid", Positions::kSinusoid}, {"learned", Positions::kLearned}})
      .hyperparameter();
  s.option("model.tied", o.tied,
           "use one matrix for source embeddings, target embeddings and the output projection")
      .hyperparameter();
  s.option("model.biases", o.biases,
           "use biases in attention layers, too, not only in feed-forward layers")
      .hyperparameter();
  s.option("model.output-bias", o.output_bias,
           "use a bias for each piece in the output projection, as Marian's models do")
      .hyperparameter();
}

void describe(Schema& s, DropoutOptions& o) {
  Option all = {.key = "dropout.all",
                .flag = "dropout",
                .value_name = "X",
                .help = "dropout rate of all four kinds at once; a later option changes one kind",
                .limits = "0 to 0.9",
                .assign =
                    [&o](const Json& value) {
                      const double rate = parse_number(scalar(value), 0, 0.9);
                      o = {rate, rate, rate, rate};
                    },
                .current = nullptr};
  s.custom(all);
  s.option("dropout.embedding", o.embedding, "dropout rate of embedded tokens", 0, 0.9)
      .hyperparameter()
      .by_recipe();
  s.option("dropout.attention", o.attention, "dropout rate of attention weights", 0, 0.9)
      .hyperparameter()
      .by_recipe();
  s.option("dropout.activation", o.activation, "dropout rate inside feed-forward layers", 0, 0.9)
      .hyperparameter()
      .by_recipe();
  s.option("dropout.residual", o.residual,
           "dropout rate of each sublayer's output before it is added to the residual", 0, 0.9)
      .hyperparameter()
      .by_recipe();
}

ModelOptions sizes_of_preset() {
  ModelOptions options;
  options.width = options.heads = options.ffn_width = 0;
  options.encoder_layers = options.decoder_layers = 0;
  return options;
}

ModelOptions resolve_model(const ModelOptions& given, const std::string& preset) {
  const ModelOptions sizes = model_preset(preset);
  ModelOptions options = given;
  auto fill = [](int64_t& value, int64_t own) {
    if (value == 0) value = own;
  };
  fill(options.width, sizes.width);
  fill(options.heads, sizes.heads);
  fill(options.ffn_width, sizes.ffn_width);
  fill(options.encoder_layers, sizes.encoder_layers);
  fill(options.decoder_layers, sizes.decoder_layers);
  check_model_options(options);
  return options;
}

Json model_json(const ModelOptions& options) {
  ModelOptions copy = options;
  Schema schema("model", "");
  describe(schema, copy);
  Json json = schema.current()["model"];
  if (!options.output_bias) json.erase("output-bias");  // older versions read such a model, too
  return json;
}

ModelOptions model_from_json(const Json& json) {
  ModelOptions options;
  try {
    Schema schema("model", "");
    describe(schema, options);
    schema.parse_yaml(Json({{"model", json}}).dump(), "model");
    check_model_options(options);
  } catch (const ConfigError& e) {
    throw CheckpointError(format("cannot read the model's shape: {}", e.what()));
  }
  return options;
}

void check_model_options(const ModelOptions& o) {
  if (o.width < 1 || o.ffn_width < 1 || o.encoder_layers < 1 || o.decoder_layers < 1) {
    throw ConfigError(
        format("model.width {}, model.ffn-width {}, model.encoder-layers {} and "
               "model.decoder-layers {} must be at least 1 each",
               o.width, o.ffn_width, o.encoder_layers, o.decoder_layers));
  }
  if (o.heads < 1 || o.width % o.heads != 0) {
    throw ConfigError(
        format("model.width {} must be a multiple of model.heads {}", o.width, o.heads));
  }
  constexpr int64_t kMostPositions = int64_t{1} << 26;  // a table of 256 MB
  if (o.max_length > kMostPositions / o.width) {
    throw ConfigError(
        format("model.max-length {} times model.width {} is more than {}, the largest table of "
               "positions; lower one of them",
               o.max_length, o.width, kMostPositions));
  }
  if (o.width % 2 != 0) {
    throw ConfigError(
        format("model.width {} must be even: half of the positional encoding is "
               "sines, half cosines",
               o.width));
  }
}

}  // namespace reigen
