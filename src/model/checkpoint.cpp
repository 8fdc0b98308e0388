#include "model/checkpoint.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/files.h"
#include "base/format.h"
#include "tensor/safetensors.h"

namespace reigen {
namespace {

constexpr const char* kFormat = "reigen checkpoint";
constexpr int kVersion = 1;
constexpr const char* kManifest = "manifest.json";
constexpr const char* kSums = "SHA256SUMS";
constexpr std::array kAlways = {kManifest, kSums, "model.safetensors"};

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
  Json json = {{"format", kFormat}, {"version", kVersion}, {"step", facts.step}};
  json["source_language"] = facts.source_language;
  json["target_language"] = facts.target_language;
  json["parameters"] = facts.parameters;
  json["vocabulary_pieces"] = facts.pieces;
  json["normalisation"] = {{"nfkc", facts.nfkc}, {"whitespace", facts.whitespace}};
  json["model"] = model_json(facts.model);
  json["scores"] = facts.scores;
  json["files"] = Json::array();
  for (const auto& f : facts.files) {
    json["files"].push_back(
        {{"file", f.file}, {"bytes", f.bytes}, {"sha256", f.sha256}, {"holds", f.holds}});
  }
  json["training"] = facts.training;
  return json;
}

CheckpointFacts from_json(const Json& json) {
  CheckpointFacts facts;
  facts.step = json.at("step");
  facts.source_language = json.at("source_language");
  facts.target_language = json.at("target_language");
  facts.parameters = json.at("parameters");
  facts.pieces = json.at("vocabulary_pieces");
  facts.nfkc = json.at("normalisation").at("nfkc");
  facts.whitespace = json.at("normalisation").at("whitespace");
  facts.model = model_from_json(json.at("model"));
  facts.scores = json.at("scores");
  facts.training = json.at("training");
  for (const auto& f : json.at("files")) {
    facts.files.push_back({f.at("file"), f.at("bytes"), f.at("sha256"), f.at("holds")});
  }
  return facts;
}

std::string sums_of(const std::vector<CheckpointFile>& files) {
  std::string sums;
  for (const auto& file : files) sums += file.sha256 + "  " + file.file + "\n";
  return sums;
}

std::string listed_sum(const std::string& directory, const std::string& name) {
  const std::string sums = read_file(directory + "/" + kSums);
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

bool is_checkpoint(const std::string& directory) {
  return std::all_of(kAlways.begin(), kAlways.end(),
                     [&](const char* name) { return path_exists(directory + "/" + name); });
}

CheckpointFacts write_checkpoint(const std::string& directory, CheckpointFacts facts,
                                 const ParameterLayout& layout, std::span<const float> parameters,
                                 const std::vector<NamedBuffer>& moments,
                                 const Vocabulary& vocabulary, bool overwrite,
                                 const std::vector<SafeTensorSource>& compressor_state) {
  StagedDirectory staged(directory, overwrite);
  facts.parameters = layout.parameters();
  facts.pieces = vocabulary.size();
  facts.files.clear();
  facts.files.push_back(
      write_tensors(staged, "model.safetensors", "parameters, fp32", layout, {{"", parameters}}));
  facts.files.push_back(write_text(staged, vocabulary.file_name(), "vocabulary of both languages",
                                   vocabulary.bytes()));
  if (!moments.empty()) {
    facts.files.push_back(write_tensors(staged, "optimizer.safetensors",
                                        "Adam's two moments, fp32; only needed to resume", layout,
                                        moments));
  }
  if (!compressor_state.empty()) {
    FileWriter file(staged.file(kWorkersFile));
    write_safetensors(file, compressor_state, {{"format", "pt"}, {"writer", "reigen"}});
    facts.files.push_back(
        closed(file, kWorkersFile, "compressor state of each rank; only needed to resume"));
  }
  std::vector<CheckpointFile> listed = facts.files;
  listed.push_back(write_text(staged, kManifest, "", pretty(to_json(facts))));
  write_text(staged, kSums, "", sums_of(listed));
  staged.commit();
  return facts;
}

CheckpointFacts read_checkpoint_facts(const std::string& directory) {
  for (const char* name : kAlways) {
    if (path_exists(directory + "/" + name)) continue;
    throw CheckpointError(
        format("{}: not a complete reigen checkpoint: {} is missing", directory, name));
  }
  const std::string path = directory + "/" + kManifest;
  const std::string sum = sha256_of_file(path);
  if (sum != listed_sum(directory, kManifest)) {
    throw CheckpointError(format("{}: damaged (SHA-256 does not match {})", path, kSums));
  }
  try {
    const Json json = read_json(path);
    if (json.at("format") != kFormat) {
      throw CheckpointError(format("{}: not the manifest of a checkpoint", path));
    }
    if (json.at("version") != kVersion) {
      throw CheckpointError(format("{}: has format version {}, but this reigen reads version {}",
                                   path, one_line(json["version"]), kVersion));
    }
    CheckpointFacts facts = from_json(json);
    std::vector<CheckpointFile> listed = facts.files;
    listed.push_back({.file = kManifest, .sha256 = sum});
    if (read_file(directory + "/" + kSums) != sums_of(listed)) {
      throw CheckpointError(
          format("{}/{}: damaged (does not match {})", directory, kSums, kManifest));
    }
    return facts;
  } catch (const Json::exception& e) {
    throw CheckpointError(format("{}: damaged ({})", path, e.what()));
  }
}

void verify_checkpoint_file(const std::string& directory, const CheckpointFile& file) {
  const std::string path = directory + "/" + file.file;
  if (!path_exists(path)) throw CheckpointError(format("{}: is missing", path));
  const uint64_t bytes = file_size(path);
  if (bytes != file.bytes) {
    throw CheckpointError(format("{}: has {} bytes instead of {}; it was truncated or changed",
                                 path, with_commas(bytes), with_commas(file.bytes)));
  }
  if (sha256_of_file(path) != file.sha256) {
    throw CheckpointError(
        format("{}: damaged (SHA-256 does not match {}/{})", path, directory, kManifest));
  }
}

const CheckpointFile& find_file(const CheckpointFacts& facts, const std::string& directory,
                                const std::string& name) {
  for (const auto& file : facts.files) {
    if (file.file == name) return file;
  }
  throw CheckpointError(format("{}: has no {}", directory, name));
}

const CheckpointFile& vocabulary_file(const CheckpointFacts& facts, const std::string& directory) {
  for (const auto& file : facts.files) {
    if (file.file.ends_with(".model") || file.file.ends_with(".vocab")) return file;
  }
  throw CheckpointError(format("{}: has no vocabulary", directory));
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
    const std::span<const float> stored = tensor.f32();
    std::copy(stored.begin(), stored.end(), values.begin() + static_cast<ptrdiff_t>(slice.offset));
  }
}

}  // namespace reigen
