// config.json of a Hugging Face MarianMT or Pegasus model, as far as it is a model of ours, and the
// settings of generation_config.json that change its output.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/model_options.h"

namespace reigen {

struct ForeignConfig {
  std::string model_type;  // "marian" or "pegasus"
  ModelOptions model;      // tied, biases and output_bias depend on the tensors
  uint64_t source_pieces = 0;
  uint64_t target_pieces = 0;
  bool shared_tables = true;      // the encoder and the decoder embed with one table
  bool tied_projection = true;    // the projection is the decoder's table
  bool scaled_embeddings = true;  // by sqrt(width)
  uint32_t eos = 0;
  uint32_t start = 0;
  // Of bad_words_ids: whether the start piece alone is one, and the number of all others.
  bool start_forbidden = false;
  uint64_t forbidden_sequences = 0;
};

// Throws DataError, which begins with `name`, for a class or a setting that has no equivalent here;
// it names the setting.
ForeignConfig parse_foreign_config(std::string_view text, const std::string& name);

// Settings of generation_config.json take precedence, as in transformers. Throws as above.
void read_generation_config(std::string_view text, const std::string& name, ForeignConfig& config);

}  // namespace reigen
