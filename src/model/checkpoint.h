// The checkpoint directory: its files, written atomically and verified by checksums.
//
//   manifest.json          model, vocabulary, languages, step, scores, options, list of files
//   model.safetensors      parameters by name; with the vocabulary all that translation needs.
//                          In a quantised checkpoint (`quantized` in the manifest) matrices are
//                          int8, and NAME.scale has a scale for each row
//   average.safetensors    the moving average of the parameters, with ema.decay; `weights` in the
//                          manifest names the file that scored better: model or average
//   vocab.model            vocabulary (pieces.vocab for text that is already split into pieces);
//                          source.model and target.model (or .vocab) where each side has its own
//   optimizer.safetensors  the optimizer's moments; only needed to resume
//   workers.safetensors    compressor state of each rank (residuals, outer momentum); only needed
//                          to resume with the same number of workers
//   SHA256SUMS             checksums of all files, including the manifest
//
// A checkpoint is self-contained: a copy works without its run and its dataset.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file/files.h"
#include "base/json/json.h"
#include "config/model_options.h"
#include "tensor/parameters.h"
#include "tensor/safetensors.h"
#include "text/text_rules.h"
#include "text/vocabulary.h"

namespace reigen {

struct CheckpointFile {
  std::string file;
  uint64_t bytes = 0;
  std::string sha256;
  std::string holds;  // description for people
};

struct CheckpointFacts {
  uint64_t step = 0;
  ModelOptions model;
  uint64_t parameters = 0;
  uint64_t pieces = 0;         // size of the vocabulary, or of the target's
  uint64_t source_pieces = 0;  // where the source has an embedding table of its own; else 0
  std::string source_language;
  std::string target_language;
  std::vector<std::string> target_languages;  // with tags in the vocabulary; empty: no tags
  bool nfkc = true;                           // normalisation of the training text
  bool whitespace = true;
  Json scores = Json::object();    // on the validation set at this step, if it was evaluated
  Json training = Json::object();  // options and counters, for a resume
  bool quantized = false;          // int8 matrices (model/quantized_parameters.h)
  bool use_average = false;        // the averaged parameters are to be used; they scored better
  std::vector<CheckpointFile> files;

  PieceCounts piece_counts() const {
    return source_pieces > 0 ? PieceCounts::separate(source_pieces, pieces) : pieces;
  }
};

// A buffer of the model's layout under a prefix: "" for parameters, "first_moment." for moments.
struct NamedBuffer {
  std::string prefix;
  std::span<const float> values;
};

inline constexpr const char* kWorkersFile = "workers.safetensors";
inline constexpr const char* kAverageFile = "average.safetensors";
bool has_average(const CheckpointFacts& facts);

// Writes `directory` atomically; on a full disk throws IoError and leaves nothing behind.
// `moments`, `compressor_state` and `average` may be empty. Returns the facts completed by the list
// of files. A link at a name of Reigen's own (StagedDirectory) is an error.
CheckpointFacts write_checkpoint(const std::string& directory, CheckpointFacts facts,
                                 const ParameterLayout& layout, std::span<const float> parameters,
                                 const std::vector<NamedBuffer>& moments,
                                 const Vocabulary& vocabulary, bool overwrite = false,
                                 const std::vector<SafeTensorSource>& compressor_state = {},
                                 OutputName name = OutputName::kOfUser,
                                 std::span<const float> average = {});

// A checkpoint for inference only, with int8 matrices.
CheckpointFacts write_quantized_checkpoint(const std::string& directory, CheckpointFacts facts,
                                           const ParameterLayout& layout,
                                           const std::vector<SafeTensorSource>& parameters,
                                           const Vocabulary& vocabulary, bool overwrite);

// The manifest in `text`; throws CheckpointError, which begins with `name` and names the field.
CheckpointFacts parse_checkpoint_manifest(std::string_view text, const std::string& name);

// Reads the manifest and checks it against SHA256SUMS. Throws CheckpointError naming the fault.
CheckpointFacts read_checkpoint_facts(const std::string& directory);

// Throws CheckpointError unless the parameters of `layout` fit into the model's file: called before
// memory is allocated for them.
void check_parameter_count(const CheckpointFacts& facts, const std::string& directory,
                           const ParameterLayout& layout);

// Throws CheckpointError when a file is missing, truncated or differs from its checksum.
void verify_checkpoint_file(const std::string& directory, const CheckpointFile& file);
const CheckpointFile& find_file(const CheckpointFacts& facts, const std::string& directory,
                                const std::string& name);
// vocab.model or pieces.vocab, or the two files of two vocabularies.
std::vector<CheckpointFile> vocabulary_files(const CheckpointFacts& facts,
                                             const std::string& directory);

// Reads a verified file of tensors into a buffer; throws CheckpointError when a tensor is missing
// or has a different shape.
void read_buffer(const std::string& path, const ParameterLayout& layout, const std::string& prefix,
                 std::span<float> values);

bool is_checkpoint(const std::string& directory);

}  // namespace reigen
