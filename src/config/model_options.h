// The shape of a Transformer and its presets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/schema.h"

namespace reigen {

enum class NormPlace { kPre, kPost };
enum class ActivationName { kRelu, kGelu, kSwish };
enum class Positions { kSinusoid, kLearned };

// The defaults are `base`: with 32,768 pieces exactly 60,880,896 parameters.
struct ModelOptions {
  int64_t width = 512;
  int64_t heads = 8;
  int64_t ffn_width = 2048;
  int64_t encoder_layers = 6;
  int64_t decoder_layers = 6;
  int64_t max_length = 512;  // tokens of a sentence, end included
  NormPlace norm = NormPlace::kPre;
  ActivationName activation = ActivationName::kRelu;
  Positions positions = Positions::kSinusoid;
  bool tied = true;     // one table embeds both sides and projects onto the vocabulary
  bool biases = false;  // also in attention, not only in the feed-forward layers
};

struct DropoutOptions {
  double embedding = 0.1;
  double attention = 0.1;
  double activation = 0.1;
  double residual = 0.1;
};

// The section `model.`. Declared with 0 for the sizes a preset gives (`sizes_of_preset`), they are
// filled in by `resolve_model`.
void describe(Schema& schema, ModelOptions& options);
void describe(Schema& schema, DropoutOptions& options);
ModelOptions sizes_of_preset();
ModelOptions resolve_model(const ModelOptions& given, const std::string& preset);

// What a checkpoint records of a model, and back; throws CheckpointError for what it cannot read.
Json model_json(const ModelOptions& options);
ModelOptions model_from_json(const Json& json);

// tiny, small, base or big; throws ConfigError for another name.
ModelOptions model_preset(const std::string& name);
std::vector<std::string> model_preset_names();

// Throws ConfigError when the parts do not fit together.
void check_model_options(const ModelOptions& options);

}  // namespace reigen
