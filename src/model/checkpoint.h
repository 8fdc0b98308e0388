// A checkpoint directory: what is in it, how it is written whole or not at all, how it is checked.
//
//   manifest.json          what this is: model, vocabulary, languages, step, scores, every file
//   model.safetensors      the parameters by name; all that translating needs
//   vocab.model            the vocabulary (pieces.vocab for text that comes cut into pieces)
//   optimizer.safetensors  the optimizer's moments; only needed to train on
//   workers.safetensors    what workers keep of their gradients (--compress); only to train on with
//                          as many
//   SHA256SUMS             covers all of them, the manifest included
//
// It is self-contained: copied anywhere it can be used without the run or the data it came from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/model_options.h"
#include "tensor/parameters.h"
#include "tensor/safetensors.h"
#include "text/vocabulary.h"

namespace reigen {

struct CheckpointFile {
  std::string file;
  uint64_t bytes = 0;
  std::string sha256;
  std::string holds;  // for people
};

struct CheckpointFacts {
  uint64_t step = 0;
  ModelOptions model;
  uint64_t parameters = 0;
  uint64_t pieces = 0;  // of the vocabulary
  std::string source_language;
  std::string target_language;
  bool nfkc = true;  // how text was normalised before it was cut into pieces
  bool whitespace = true;
  Json scores = Json::object();    // of the validation set at this step, if it was evaluated
  Json training = Json::object();  // options and state, for those who train on
  std::vector<CheckpointFile> files;
};

// A buffer of the model's layout under a prefix: "" for parameters, "first_moment." for moments.
struct NamedBuffer {
  std::string prefix;
  std::span<const float> values;
};

inline constexpr const char* kWorkersFile = "workers.safetensors";

// Writes `directory` complete or not at all; throws IoError and leaves nothing when the disk is
// full. `moments` and `kept` may be empty. Returns the facts with their files.
CheckpointFacts write_checkpoint(const std::string& directory, CheckpointFacts facts,
                                 const ParameterLayout& layout, std::span<const float> parameters,
                                 const std::vector<NamedBuffer>& moments,
                                 const Vocabulary& vocabulary, bool overwrite = false,
                                 const std::vector<SafeTensorSource>& kept = {});

// Checks manifest and SHA256SUMS against each other. Throws CheckpointError naming what is wrong.
CheckpointFacts read_checkpoint_facts(const std::string& directory);

// Throws CheckpointError when a file is missing, cut short or differs from its checksum.
void verify_checkpoint_file(const std::string& directory, const CheckpointFile& file);
const CheckpointFile& find_file(const CheckpointFacts& facts, const std::string& directory,
                                const std::string& name);
// vocab.model or pieces.vocab.
const CheckpointFile& vocabulary_file(const CheckpointFacts& facts, const std::string& directory);

// Reads a verified file of tensors into a buffer; throws CheckpointError when one is missing or has
// another shape.
void read_buffer(const std::string& path, const ParameterLayout& layout, const std::string& prefix,
                 std::span<float> values);

bool is_checkpoint(const std::string& directory);

}  // namespace reigen
