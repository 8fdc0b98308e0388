#include "model/checkpoint.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/json/json_view.h"
#include "data/manifest.h"
#include "tensor/safetensors.h"

namespace reigen {
namespace {

constexpr const char* kFormat = "reigen checkpoint";
constexpr int kVersion = 1;
constexpr int kSeparateVersion = 2;  // with a vocabulary for each language
constexpr int kQuantizedVersion = 3;
constexpr int kTaggedVersion = 4;      // with target languages; also quantised ones
constexpr const char* kInt8 = "int8";  // value of the field `quantized`
constexpr const char* kManifest = "manifest.json";
constexpr const char* kSums = "SHA256SUMS";
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kModel = "model";  // values of the field `weights`
constexpr const char* kAverage = "average";
constexpr std::array kAlways = {kManifest, kSums, kModelFile};
constexpr uint64_t kMostManifestBytes = 64 << 20;

std::vector<int64_t> shape_of(const ParameterSlice& slice) {
  if (slice.rows == 1) return {slice.cols};
  return {slice.rows, slice.cols};
}

std::vector<SafeTensorSource> tensors_of(const ParameterLayout& layout,
                                         const std::vector<NamedBuffer>& buffers) {
  std::vector<SafeTensorSource> tensors;
  for (const auto& buffer : buffers) {
    for (const auto& slice : layout.slices()) {
      tensors.push_back({buffer.prefix + slice.name, shape_of(slice),
                         buffer.values.subspan(slice.offset, slice.size())});
    }
  }
  return tensors;
}

CheckpointFile closed(FileWriter& file, const std::string& name, const std::string& holds) {
  file.close();
  return {name, file.bytes(), file.sha256(), holds};
}

CheckpointFile write_tensors(const StagedDirectory& staged, const std::string& name,
                             const std::string& holds, const ParameterLayout& layout,
                             const std::vector<NamedBuffer>& buffers) {
  FileWriter file(staged.file(name));
  write_safetensors(file, tensors_of(layout, buffers), {{"format", "pt"}, {"writer", "reigen"}});
  return closed(file, name, holds);
}

CheckpointFile write_text(const StagedDirectory& staged, const std::string& name,
                          const std::string& holds, const std::string& text) {
  FileWriter file(staged.file(name));
  file.write(text);
  return closed(file, name, holds);
}

Json to_json(const CheckpointFacts& facts) {
  const auto vocabularies =
      std::count_if(facts.files.begin(), facts.files.end(),
                    [](const CheckpointFile& file) { return Vocabulary::is_file_name(file.file); });
  const int version = !facts.target_languages.empty() ? kTaggedVersion
                      : facts.quantized               ? kQuantizedVersion
                      : vocabularies > 1              ? kSeparateVersion
                                                      : kVersion;
  Json json = {{"format", kFormat}, {"version", version}, {"step", facts.step}};
  if (facts.quantized) json["quantized"] = kInt8;
  json["source_language"] = facts.source_language;
  json["target_language"] = facts.target_language;
  if (!facts.target_languages.empty()) json["target_languages"] = facts.target_languages;
  json["parameters"] = facts.parameters;
  json["vocabulary_pieces"] = facts.pieces;
  if (facts.source_pieces > 0) json["source_vocabulary_pieces"] = facts.source_pieces;
  json["normalisation"] = {{"nfkc", facts.nfkc}, {"whitespace", facts.whitespace}};
  json["model"] = model_json(facts.model);
  json["scores"] = facts.scores;
  if (has_average(facts)) json["weights"] = facts.use_average ? kAverage : kModel;
  json["files"] = Json::array();
  for (const auto& f : facts.files) {
    json["files"].push_back(
        {{"file", f.file}, {"bytes", f.bytes}, {"sha256", f.sha256}, {"holds", f.holds}});
  }
  json["training"] = facts.training;
  return json;
}

// A name that is printed, and written into cards of exported models.
std::string label(const JsonView& view, std::string text) {
  constexpr size_t kMostBytes = 300;
  const bool control = std::any_of(text.begin(), text.end(), [](unsigned char c) {
    constexpr unsigned char kDelete = 0x7F;
    return c < ' ' || c == kDelete;
  });
  if (control || text.size() > kMostBytes) {
    view.refuse(format("a name of up to {} bytes without control characters", kMostBytes));
  }
  return text;
}

std::string label(const JsonView& view) { return label(view, view); }

CheckpointFile checkpoint_file_from(const JsonView& json) {
  CheckpointFile file{json.at("file"), json.at("bytes"), json.at("sha256"), json.at("holds")};
  if (!is_plain_file_name(file.file)) json.at("file").refuse("a plain file name");
  return file;
}

ModelOptions model_of(const JsonView& json, const std::string& name) {
  try {
    return model_from_json(json.json());
  } catch (const CheckpointError& e) {
    throw CheckpointError(format("{}: {}", name, e.what()));
  }
}

CheckpointFacts from_json(const JsonView& json, const std::string& name) {
  CheckpointFacts facts;
  facts.step = json.at("step");
  facts.source_language = label(json.at("source_language"));
  facts.target_language = label(json.at("target_language"));
  facts.parameters = json.at("parameters");
  facts.pieces = json.at("vocabulary_pieces");
  if (json.contains("source_vocabulary_pieces")) {
    facts.source_pieces = json.at("source_vocabulary_pieces");
  }
  facts.nfkc = json.at("normalisation").at("nfkc");
  facts.whitespace = json.at("normalisation").at("whitespace");
  facts.model = model_of(json.at("model"), name);
  for (const JsonView& score : json.at("scores").members()) {
    if (!score.json().is_number()) score.refuse("a number");
  }
  for (const auto& [name, score] : json.at("scores").object().items()) {
    label(json.at("scores"), name);
  }
  facts.scores = json.at("scores").json();
  facts.training = json.at("training").object();
  if (json.at("training").contains("device")) {
    (void)static_cast<std::string>(json.at("training").at("device"));
  }
  for (const JsonView& file : json.at("files").elements()) {
    facts.files.push_back(checkpoint_file_from(file));
  }
  const Json& version = json.at("version").json();
  if (version == kTaggedVersion) {
    for (const JsonView& language : json.at("target_languages").elements()) {
      facts.target_languages.push_back(label(language));
    }
    if (facts.target_languages.empty()) json.at("target_languages").refuse("at least one");
  }
  if (version == kQuantizedVersion || (version == kTaggedVersion && json.contains("quantized"))) {
    if (static_cast<std::string>(json.at("quantized")) != kInt8) {
      json.at("quantized").refuse(kInt8);
    }
    facts.quantized = true;
  }
  if (json.contains("weights")) {
    const std::string weights = json.at("weights");
    if (weights != kModel && weights != kAverage) json.at("weights").refuse("model or average");
    facts.use_average = weights == kAverage;
  }
  return facts;
}

// Of a parameter in the model's file.
uint64_t least_bytes(const CheckpointFacts& facts) { return facts.quantized ? 1 : sizeof(float); }

std::string sums_of(const std::vector<CheckpointFile>& files) {
  std::string sums;
  for (const auto& file : files) sums += file.sha256 + "  " + file.file + "\n";
  return sums;
}

std::string listed_sum(const std::string& sums, const std::string& directory,
                       const std::string& name) {
  const size_t at = sums.find("  " + name + "\n");
  if (at == std::string::npos || at < 64) {
    throw CheckpointError(format("{}/{}: truncated or damaged", directory, kSums));
  }
  return sums.substr(at - 64, 64);
}

std::string text_of_shape(const std::vector<int64_t>& shape) {
  return format("[{}]", fmt::join(shape, ", "));
}

}  // namespace

bool has_average(const CheckpointFacts& facts) {
  return std::any_of(facts.files.begin(), facts.files.end(),
                     [](const CheckpointFile& file) { return file.file == kAverageFile; });
}

bool is_checkpoint(const std::string& directory) {
  return std::all_of(kAlways.begin(), kAlways.end(),
                     [&](const char* name) { return path_exists(directory + "/" + name); });
}

namespace {

void describe(CheckpointFacts& facts, const ParameterLayout& layout, const Vocabulary& vocabulary) {
  facts.parameters = layout.parameters();
  facts.pieces = vocabulary.size();
  const PieceCounts pieces = vocabulary.pieces();
  facts.source_pieces = pieces.joint ? 0 : pieces.source;
  facts.target_languages = vocabulary.source().tagged_languages();
  facts.files.clear();
}

void write_vocabulary(const StagedDirectory& staged, CheckpointFacts& facts,
                      const Vocabulary& vocabulary) {
  for (const Vocabulary::File& file : vocabulary.files()) {
    std::string holds = "vocabulary of both languages";
    if (vocabulary.has_source()) {
      holds = format("vocabulary of the {} language",
                     file.vocabulary == &vocabulary ? "target" : "source");
    }
    facts.files.push_back(write_text(staged, file.name, holds, file.vocabulary->bytes()));
  }
}

void complete(StagedDirectory& staged, const CheckpointFacts& facts) {
  std::vector<CheckpointFile> listed = facts.files;
  listed.push_back(write_text(staged, kManifest, "", pretty(to_json(facts))));
  write_text(staged, kSums, "", sums_of(listed));
  staged.commit();
}

}  // namespace

CheckpointFacts write_checkpoint(const std::string& directory, CheckpointFacts facts,
                                 const ParameterLayout& layout, std::span<const float> parameters,
                                 const std::vector<NamedBuffer>& moments,
                                 const Vocabulary& vocabulary, bool overwrite,
                                 const std::vector<SafeTensorSource>& compressor_state,
                                 OutputName name, std::span<const float> average) {
  StagedDirectory staged(directory, overwrite, name);
  describe(facts, layout, vocabulary);
  facts.files.push_back(
      write_tensors(staged, kModelFile, "parameters, fp32", layout, {{"", parameters}}));
  if (!average.empty()) {
    facts.files.push_back(write_tensors(
        staged, kAverageFile, "moving average of the parameters, fp32", layout, {{"", average}}));
  }
  write_vocabulary(staged, facts, vocabulary);
  if (!moments.empty()) {
    facts.files.push_back(write_tensors(staged, "optimizer.safetensors",
                                        "moments of the optimizer, fp32; only needed to resume",
                                        layout, moments));
  }
  if (!compressor_state.empty()) {
    FileWriter file(staged.file(kWorkersFile));
    write_safetensors(file, compressor_state, {{"format", "pt"}, {"writer", "reigen"}});
    facts.files.push_back(
        closed(file, kWorkersFile, "compressor state of each rank; only needed to resume"));
  }
  complete(staged, facts);
  return facts;
}

CheckpointFacts write_quantized_checkpoint(const std::string& directory, CheckpointFacts facts,
                                           const ParameterLayout& layout,
                                           const std::vector<SafeTensorSource>& parameters,
                                           const Vocabulary& vocabulary, bool overwrite) {
  StagedDirectory staged(directory, overwrite);
  describe(facts, layout, vocabulary);
  facts.quantized = true;
  facts.use_average = false;
  FileWriter file(staged.file(kModelFile));
  write_safetensors(file, parameters, {{"format", "pt"}, {"writer", "reigen"}});
  facts.files.push_back(closed(
      file, kModelFile, "parameters: matrices in int8 with a scale for each row, others fp32"));
  write_vocabulary(staged, facts, vocabulary);
  complete(staged, facts);
  return facts;
}

CheckpointFacts parse_checkpoint_manifest(std::string_view text, const std::string& name) {
  try {
    const Json json = parse_json(text, name);
    const JsonView view(json);
    if (view.at("format").json() != kFormat) {
      throw CheckpointError(format("{}: not the manifest of a checkpoint", name));
    }
    const Json& version = view.at("version").json();
    if (version != kVersion && version != kSeparateVersion && version != kQuantizedVersion &&
        version != kTaggedVersion) {
      throw CheckpointError(
          format("{}: has format version {}, but this reigen reads versions {} to {}", name,
                 one_line(version), kVersion, kTaggedVersion));
    }
    return from_json(view, name);
  } catch (const FieldError& e) {
    throw CheckpointError(format("{}: damaged: {}", name, e.what()));
  } catch (const DataError& e) {
    throw CheckpointError(e.what());
  }
}

namespace {

// A file that cannot be read, on a failing disk for example, is a damaged checkpoint: a resume then
// falls back to the one before.
template <class F>
auto as_checkpoint(F read) {
  try {
    return read();
  } catch (const DataError& e) {
    throw CheckpointError(e.what());
  } catch (const IoError& e) {
    throw CheckpointError(e.what());
  }
}

}  // namespace

CheckpointFacts read_checkpoint_facts(const std::string& directory) {
  for (const char* name : kAlways) {
    if (path_exists(directory + "/" + name)) continue;
    throw CheckpointError(
        format("{}: not a complete reigen checkpoint: {} is missing", directory, name));
  }
  const std::string path = directory + "/" + kManifest;
  const std::string text = as_checkpoint([&] { return read_file(path, kMostManifestBytes); });
  Sha256 digest;
  digest.update(text.data(), text.size());
  const std::string sum = digest.hex();
  const std::string sums =
      as_checkpoint([&] { return read_file(directory + "/" + kSums, kMostManifestBytes); });
  if (sum != listed_sum(sums, directory, kManifest)) {
    throw CheckpointError(format("{}: damaged (SHA-256 does not match {})", path, kSums));
  }
  CheckpointFacts facts = parse_checkpoint_manifest(text, path);
  // Before a model of these sizes is built: one embedding alone has this many parameters.
  const auto width = static_cast<uint64_t>(facts.model.width);
  const uint64_t rows = find_file(facts, directory, kModelFile).bytes / least_bytes(facts) / width;
  for (const uint64_t pieces : {facts.pieces, facts.source_pieces}) {
    if (pieces <= rows) continue;
    throw CheckpointError(format("{}: {} pieces of width {} do not fit into its {}", path,
                                 with_commas(pieces), width, kModelFile));
  }
  std::vector<CheckpointFile> listed = facts.files;
  listed.push_back({.file = kManifest, .sha256 = sum});
  if (sums != sums_of(listed)) {
    throw CheckpointError(
        format("{}/{}: damaged (does not match {})", directory, kSums, kManifest));
  }
  return facts;
}

void verify_checkpoint_file(const std::string& directory, const CheckpointFile& file) {
  const std::string path = directory + "/" + file.file;
  if (!path_exists(path)) throw CheckpointError(format("{}: is missing", path));
  const uint64_t bytes = as_checkpoint([&] { return file_size(path); });
  if (bytes != file.bytes) {
    throw CheckpointError(format("{}: has {} bytes instead of {}; it was truncated or changed",
                                 path, with_commas(bytes), with_commas(file.bytes)));
  }
  if (as_checkpoint([&] { return sha256_of_file(path); }) != file.sha256) {
    throw CheckpointError(
        format("{}: damaged (SHA-256 does not match {}/{})", path, directory, kManifest));
  }
}

void check_parameter_count(const CheckpointFacts& facts, const std::string& directory,
                           const ParameterLayout& layout) {
  const CheckpointFile& file = find_file(facts, directory, kModelFile);
  if (layout.parameters() <= file.bytes / least_bytes(facts)) return;
  throw CheckpointError(
      format("{}/{}: a model of its shape has {} parameters, but {} has only {} bytes", directory,
             kManifest, with_commas(layout.parameters()), kModelFile, with_commas(file.bytes)));
}

const CheckpointFile& find_file(const CheckpointFacts& facts, const std::string& directory,
                                const std::string& name) {
  for (const auto& file : facts.files) {
    if (file.file == name) return file;
  }
  throw CheckpointError(format("{}: has no {}", directory, name));
}

std::vector<CheckpointFile> vocabulary_files(const CheckpointFacts& facts,
                                             const std::string& directory) {
  std::vector<CheckpointFile> files;
  for (const auto& file : facts.files) {
    if (Vocabulary::is_file_name(file.file)) files.push_back(file);
  }
  if (files.empty()) throw CheckpointError(format("{}: has no vocabulary", directory));
  return files;
}

void read_buffer(const std::string& path, const ParameterLayout& layout, const std::string& prefix,
                 std::span<float> values) {
  const SafeTensorsFile file(path);
  for (const auto& slice : layout.slices()) {
    const SafeTensor& tensor = file.find(prefix + slice.name);
    if (tensor.shape != shape_of(slice)) {
      throw CheckpointError(format("{}: {} has the shape {} but the model needs {}", path,
                                   prefix + slice.name, text_of_shape(tensor.shape),
                                   text_of_shape(shape_of(slice))));
    }
    tensor.copy_f32(values.subspan(slice.offset, slice.size()));
  }
}

}  // namespace reigen
