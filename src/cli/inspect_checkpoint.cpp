// `reigen inspect CHECKPOINT`: its files, their sizes and content, and parameters by module.
#include "cli/inspect_checkpoint.h"

#include <map>

#include "base/file/files.h"
#include "base/format.h"
#include "base/json/json_view.h"
#include "base/terminal.h"
#include "model/saved_model.h"

namespace reigen {
namespace {

struct Module {
  std::string name;
  uint64_t parameters = 0;
};

// "decoder.3.cross.output.weight" belongs to decoder.3; "embedding.weight" to embedding.
std::string module_of(const std::string& name) {
  size_t dot = name.find('.');
  if (name.starts_with("encoder.") || name.starts_with("decoder.")) dot = name.find('.', dot + 1);
  return name.substr(0, dot);
}

std::vector<Module> modules_of(const ParameterLayout& layout) {
  std::map<std::string, uint64_t> sums;
  for (const auto& slice : layout.slices()) sums[module_of(slice.name)] += slice.size();
  std::vector<Module> modules;
  modules.reserve(sums.size());
  for (const auto& [name, parameters] : sums) modules.push_back({name, parameters});
  return modules;
}

std::string megabytes(uint64_t bytes) { return format("{:.1f}", static_cast<double>(bytes) / 1e6); }

struct Listed {
  CheckpointFile file;
  uint64_t bytes;  // on disk
};

// The manifest and the sums cannot list their own sizes.
std::vector<Listed> all_files(const std::string& path, const CheckpointFacts& facts) {
  std::vector<Listed> all;
  for (const auto& file : facts.files) {
    all.push_back({file, file_size(path + "/" + file.file)});
  }
  auto add = [&](const char* name, const char* holds) {
    all.push_back({{name, 0, "", holds}, file_size(path + "/" + name)});
  };
  add("manifest.json", "model, options, training state, scores, list of files");
  add("SHA256SUMS", "checksums of all files");
  return all;
}

Json to_json(const std::string& path, const CheckpointFacts& facts, const ParameterLayout& layout) {
  Json json = {
      {"path", path},
      {"step", facts.step},
      {"source_language", facts.source_language},
      {"target_language", facts.target_language},
      {"parameters", facts.parameters},
      {"vocabulary_pieces", facts.pieces},
      {"source_vocabulary_pieces", facts.source_pieces > 0 ? facts.source_pieces : facts.pieces},
      {"model", model_json(facts.model)},
      {"scores", facts.scores}};
  if (!facts.target_languages.empty()) json["target_languages"] = facts.target_languages;
  if (facts.training.contains("device")) json["device"] = facts.training.at("device");
  json["quantized"] = facts.quantized;
  json["weights"] = facts.use_average ? "average" : "model";
  json["files"] = Json::array();
  uint64_t total = 0;
  for (const auto& [file, bytes] : all_files(path, facts)) {
    json["files"].push_back({{"file", file.file}, {"bytes", bytes}, {"holds", file.holds}});
    total += bytes;
  }
  json["bytes"] = total;
  json["modules"] = Json::array();
  for (const auto& module : modules_of(layout)) {
    json["modules"].push_back({{"module", module.name}, {"parameters", module.parameters}});
  }
  return json;
}

std::string model_line(const ModelOptions& m) {
  return format("width {}, {} heads, ffn {}, {}+{} layers, {}-norm, {} embeddings", m.width,
                m.heads, m.ffn_width, m.encoder_layers, m.decoder_layers,
                m.norm == NormPlace::kPre ? "pre" : "post", m.tied ? "tied" : "separate");
}

// Without scores the checkpoint does not tell whether there was an evaluation before it.
std::string average_line(const CheckpointFacts& facts) {
  if (facts.use_average) {
    return "translation uses the moving average of the weights, which scored better than the "
           "weights\n";
  }
  return facts.scores.empty()
             ? "translation uses the weights; no score shows that their moving average is better\n"
             : "translation uses the weights, which scored better than their moving average\n";
}

// Of a run that began with --from.
std::string starting_point_line(const CheckpointFacts& facts) {
  const auto state = facts.training.find("state");
  if (state == facts.training.end() || !state->is_object()) return "";
  const auto start = state->find("starting_point");
  if (start == state->end() || !start->is_object()) return "";
  const JsonView view(*start, "training.state.starting_point");
  const std::string path = view.at("path");
  const uint64_t step = view.at("step");
  return format("its run began with the weights of {} (step {})\n", path, with_commas(step));
}

std::string text_report(const std::string& path, const CheckpointFacts& facts,
                        const ParameterLayout& layout) {
  std::string out = format("{}: {} to {}, step {}\n{}\n", path, facts.source_language,
                           facts.target_language, with_commas(facts.step), model_line(facts.model));
  out += format("{} parameters, vocabulary of {}{} pieces\n", with_commas(facts.parameters),
                facts.source_pieces > 0 ? with_commas(facts.source_pieces) + " + " : "",
                with_commas(facts.pieces));
  if (!facts.target_languages.empty()) {
    out += format("target languages: {}\n", fmt::join(facts.target_languages, ", "));
  }
  if (facts.quantized) out += "matrices in int8 with a scale for each row, for inference only\n";
  if (facts.training.contains("device")) {
    out += format("trained on {}\n", facts.training.at("device").get<std::string>());
  }
  out += starting_point_line(facts);
  if (has_average(facts)) out += average_line(facts);
  for (const auto& [name, value] : facts.scores.items()) {
    out += format("validation {}: {:.4f}\n", name, value.get<double>());
  }
  Table files;
  files.text_column(2);
  files.row({"file", "MB", "content"});
  uint64_t total = 0;
  for (const auto& [file, bytes] : all_files(path, facts)) {
    files.row({file.file, megabytes(bytes), file.holds});
    total += bytes;
  }
  files.row({"total", megabytes(total), ""});
  Table modules;
  modules.row({"module", "parameters", "MB", "share"});
  for (const auto& module : modules_of(layout)) {
    modules.row({module.name, with_commas(module.parameters), megabytes(4 * module.parameters),
                 percent(module.parameters, facts.parameters)});
  }
  modules.row({"total", with_commas(facts.parameters), megabytes(4 * facts.parameters), "100.0%"});
  return out + "\nFiles\n\n" + files.text() + "\nParameters by module\n\n" + modules.text();
}

}  // namespace

void inspect_checkpoint(const InspectOptions& options) {
  const std::string path = resolve_checkpoint(options.path);
  const CheckpointFacts facts = read_checkpoint_facts(path);
  if (options.verify) {
    for (const auto& file : facts.files) verify_checkpoint_file(path, file);
  }
  const Transformer model(facts.model, {}, facts.piece_counts());
  if (options.json) {
    Json json = to_json(path, facts, model.layout());
    if (options.verify) json["verified_files"] = facts.files.size() + 1;
    print(pretty(json));
    return;
  }
  print(text_report(path, facts, model.layout()));
  if (options.verify) {
    print(format("\nVerified: all {} files match their checksums\n", facts.files.size() + 1));
  }
}

}  // namespace reigen
