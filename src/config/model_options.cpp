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

// `small` is the model of the Multi30k yardstick; `base` and `big` are those of Vaswani et al.
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
  throw ConfigError(format("unknown preset '{}'{}; there are {}", name,
                           near ? format(", did you mean '{}'?", *near) : "",
                           fmt::join(model_preset_names(), ", ")));
}

void check_model_options(const ModelOptions& o) {
  if (o.heads < 1 || o.width % o.heads != 0) {
    throw ConfigError(
        format("model.width {} must be a multiple of model.heads {}", o.width, o.heads));
  }
  if (o.width % 2 != 0) {
    throw ConfigError(format("model.width {} must be even, for sines and cosines", o.width));
  }
}

}  // namespace reigen
