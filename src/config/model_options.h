// The shape of a Transformer and its presets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/activation_kind.h"
#include "config/schema.h"

namespace reigen {

enum class NormPlace { kPre, kPost };
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
  ActivationKind activation = ActivationKind::kRelu;
  Positions positions = Positions::kSinusoid;
  bool tied = true;          // one matrix for both embeddings and the output projection
  bool biases = false;       // in attention layers; feed-forward layers always have them
  bool output_bias = false;  // of the projection
};

struct DropoutOptions {
  double embedding = 0.1;
  double attention = 0.1;
  double activation = 0.1;
  double residual = 0.1;
};

// The section `model`. A size of 0 stands for the preset's (`sizes_of_preset`) until
// `resolve_model` fills it in.
void describe(Schema& schema, ModelOptions& options);
void describe(Schema& schema, DropoutOptions& options);
ModelOptions sizes_of_preset();
ModelOptions resolve_model(const ModelOptions& given, const std::string& preset);

// The model section of a checkpoint, and back; throws CheckpointError when it cannot be read.
Json model_json(const ModelOptions& options);
ModelOptions model_from_json(const Json& json);

// tiny, small, base or big; throws ConfigError for any other name.
ModelOptions model_preset(const std::string& name);
std::vector<std::string> model_preset_names();

// Throws ConfigError when the sizes do not fit together.
void check_model_options(const ModelOptions& options);

}  // namespace reigen
