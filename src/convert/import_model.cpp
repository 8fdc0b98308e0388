#include "convert/import_model.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/json/json_view.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "convert/foreign_config.h"
#include "convert/foreign_vocabulary.h"
#include "convert/foreign_weights.h"
#include "decode/calibration.h"

namespace reigen {
namespace {

constexpr uint64_t kMostTextBytes = 64 << 20;    // of a JSON file
constexpr uint64_t kMostModelBytes = 256 << 20;  // of a SentencePiece model

constexpr std::array kForeignFiles = {"config.json",
                                      "generation_config.json",
                                      "model.safetensors",
                                      "source.spm",
                                      "target.spm",
                                      "vocab.json",
                                      "target_vocab.json",
                                      "tokenizer_config.json",
                                      "pytorch_model.bin",
                                      "tf_model.h5",
                                      "spiece.model",
                                      "reigen.json",
                                      "model.safetensors.index.json"};

// The files of a model by their usual names.
class ForeignFiles {
 public:
  explicit ForeignFiles(const std::vector<std::string>& inputs) : where_(inputs.front()) {
    for (const std::string& input : inputs) {
      if (is_directory(input)) {
        for (const char* name : kForeignFiles) {
          if (path_exists(input + "/" + name)) paths_[name] = input + "/" + name;
        }
        continue;
      }
      const std::string name = std::filesystem::path(input).filename().string();
      if (!path_exists(input)) throw DataError(format("{}: does not exist", input));
      if (std::find(kForeignFiles.begin(), kForeignFiles.end(), name) != kForeignFiles.end()) {
        paths_[name] = input;
      } else if (name.ends_with(".safetensors")) {
        paths_["model.safetensors"] = input;
      }
    }
    check();
  }

  bool has(const std::string& name) const { return paths_.contains(name); }
  const std::string& path(const std::string& name) const {
    const auto found = paths_.find(name);
    if (found == paths_.end()) throw DataError(format("{}: has no {}", where_, name));
    return found->second;
  }
  std::string text(const std::string& name) const {
    return read_file(path(name), name.ends_with(".spm") ? kMostModelBytes : kMostTextBytes);
  }

 private:
  void check() const {
    if (has("model.safetensors")) {
      if (has("spiece.model") && !has("source.spm")) {
        throw DataError(format(
            "{}: a PegasusTokenizer (spiece.model, ids moved by 103) is not supported; the files "
            "of a MarianTokenizer are (source.spm, target.spm, vocab.json)",
            path("spiece.model")));
      }
      return;
    }
    if (has("model.safetensors.index.json")) {
      throw DataError(
          format("{}: weights in several files are not supported; save the model with "
                 "save_pretrained(..., max_shard_size=\"100GB\")",
                 path("model.safetensors.index.json")));
    }
    if (has("pytorch_model.bin")) {
      const std::string& bin = path("pytorch_model.bin");
      const std::string folder = std::filesystem::path(bin).parent_path().string();
      throw DataError(
          format("{}: a pickle can execute code and is not read; convert it where you trust it: "
                 "python3 -c \"import sys; from transformers import AutoModelForSeq2SeqLM as M; "
                 "M.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[1])\" {}",
                 bin, shell_word(folder.empty() ? "." : folder)));
    }
    throw DataError(format("{}: has no model.safetensors", where_));
  }

  std::string where_;
  std::map<std::string, std::string> paths_;
};

struct TokenizerFacts {
  std::string source_language;
  std::string target_language;
  std::string unk = "<unk>";
};

// The text of a special token, which is stored plainly or as an object.
std::string token_text(const JsonView& view) {
  return view.json().is_object() ? static_cast<std::string>(view.at("content"))
                                 : static_cast<std::string>(view);
}

// A name of a language, which is printed and written into cards.
std::string language_text(const JsonView& view) {
  constexpr size_t kMostBytes = 100;
  std::string text = view;
  const bool control = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
  if (control || text.size() > kMostBytes) {
    view.refuse(format("a language: up to {} bytes without control characters", kMostBytes));
  }
  return text;
}

TokenizerFacts tokenizer_facts(const ForeignFiles& files) {
  TokenizerFacts facts;
  if (!files.has("tokenizer_config.json")) return facts;
  const std::string& path = files.path("tokenizer_config.json");
  const Json json = parse_json(files.text("tokenizer_config.json"), path);
  const JsonView view(json);
  auto read = [&](const char* key, auto text_of, std::string& into) {
    if (view.contains(key) && !view.at(key).is_null()) into = text_of(view.at(key));
  };
  try {
    read("source_lang", language_text, facts.source_language);
    read("target_lang", language_text, facts.target_language);
    read("unk_token", token_text, facts.unk);
  } catch (const FieldError& e) {
    throw DataError(format("{}: {}", path, e.what()));
  }
  return facts;
}

// The id of a piece in a list that `path` gave.
uint32_t id_of(const std::vector<std::string>& pieces, const std::string& piece,
               const std::string& path) {
  const auto found = std::find(pieces.begin(), pieces.end(), piece);
  if (found == pieces.end()) throw DataError(format("{}: has no piece {}", path, piece));
  return static_cast<uint32_t>(found - pieces.begin());
}

ListedPieces target_list(const ForeignFiles& files, const std::string& file,
                         const ForeignConfig& config, const std::string& unk) {
  const std::string& path = files.path(file);
  ListedPieces list;
  list.pieces = parse_piece_ids(files.text(file), config.target_pieces, path);
  list.unk = id_of(list.pieces, unk, path);
  list.eos = config.eos;
  list.start = config.start;
  if (list.eos == list.unk || list.start == list.unk) {
    throw DataError(format("{}: {} has the id {}, which config.json has for the end or the start",
                           path, unk, list.unk));
  }
  return list;
}

// The source's own vocabulary has the same special pieces, perhaps with other ids.
ListedPieces source_list(const ForeignFiles& files, const ForeignConfig& config,
                         const ListedPieces& target) {
  const std::string& path = files.path("vocab.json");
  ListedPieces list;
  list.pieces = parse_piece_ids(files.text("vocab.json"), config.source_pieces, path);
  list.unk = id_of(list.pieces, target.pieces[target.unk], path);
  list.eos = id_of(list.pieces, target.pieces[target.eos], path);
  list.start = list.eos;  // a source has no start piece
  return list;
}

Vocabulary foreign_vocabulary(const ForeignFiles& files, const ForeignConfig& config,
                              const std::string& unk) {
  const std::string source_model = files.text("source.spm");
  const std::string target_model = files.text("target.spm");
  const bool separate = !config.shared_tables && files.has("target_vocab.json");
  if (!separate && config.source_pieces != config.target_pieces) {
    throw DataError(
        format("{}: vocab_size {} and decoder_vocab_size {} differ, but there is no "
               "target_vocab.json",
               files.path("config.json"), config.source_pieces, config.target_pieces));
  }
  const ListedPieces target =
      target_list(files, separate ? "target_vocab.json" : "vocab.json", config, unk);
  Vocabulary of_target = listed_vocabulary(target_model, target, files.path("target.spm"));
  if (!separate && source_model == target_model) return of_target;
  const ListedPieces source = separate ? source_list(files, config, target) : target;
  return Vocabulary::pair(listed_vocabulary(source_model, source, files.path("source.spm")),
                          std::move(of_target));
}

// The facts that `reigen export` added to its own files.
void read_own_facts(const ForeignFiles& files, CheckpointFacts& facts) {
  if (!files.has("reigen.json")) return;
  const std::string& path = files.path("reigen.json");
  const Json json = parse_json(files.text("reigen.json"), path);
  try {
    const JsonView view(json);
    facts.step = view.at("step");
    facts.source_language = language_text(view.at("source_language"));
    facts.target_language = language_text(view.at("target_language"));
    facts.nfkc = view.at("nfkc");
    facts.whitespace = view.at("whitespace");
    for (const JsonView& score : view.at("scores").members()) {
      if (!score.json().is_number()) score.refuse("a number");
    }
    facts.scores = view.at("scores").object();
    if (view.contains(kCalibration)) {
      facts.training[kCalibration] = Calibration::from_json(view.at(kCalibration)).to_json();
    }
  } catch (const FieldError& e) {
    throw DataError(format("{}: {}", path, e.what()));
  }
}

CheckpointFacts imported_facts(const ForeignFiles& files, const ForeignConfig& config,
                               const TokenizerFacts& tokenizer, const ImportOptions& options) {
  CheckpointFacts facts;
  facts.source_language = tokenizer.source_language;
  facts.target_language = tokenizer.target_language;
  facts.nfkc = false;  // their SentencePiece models normalise by themselves
  facts.training = {{"imported", config.model_type}};
  read_own_facts(files, facts);
  if (!options.source.empty()) facts.source_language = options.source;
  if (!options.target.empty()) facts.target_language = options.target;
  if (facts.source_language.empty() || facts.target_language.empty()) {
    throw ConfigError("the files do not name the languages; give --source LANG and --target LANG");
  }
  return facts;
}

// Warns of forbidden sequences that only a search of transformers observes.
void warn_of_forbidden(const ForeignConfig& config, const std::string& output) {
  if (config.forbidden_sequences == 0) return;
  log_warning(
      format("bad_words_ids: {} may write what transformers never does (other sequences than the "
             "start piece: {})",
             output, config.forbidden_sequences));
}

SafeTensorsFile open_tensors(const std::string& path) {
  try {
    return SafeTensorsFile(path);
  } catch (const CheckpointError& e) {
    throw DataError(e.what());
  }
}

// Before memory is taken for lists of that many pieces.
void check_piece_counts(const ForeignConfig& config, const SafeTensorsHeader& file,
                        const std::string& path) {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : file.tensors) bytes += tensor.bytes.size();
  const uint64_t pieces = std::max(config.source_pieces, config.target_pieces);
  const auto width = static_cast<uint64_t>(config.model.width);
  if (pieces * width * sizeof(uint16_t) <= bytes) return;
  throw DataError(
      format("{}: has {} bytes of tensors, too few for the {} pieces of width {} that "
             "config.json has",
             path, with_commas(bytes), with_commas(pieces), width));
}

}  // namespace

CheckpointFacts import_model(const ImportOptions& options) {
  const ForeignFiles files(options.inputs);
  ForeignConfig config = parse_foreign_config(files.text("config.json"), files.path("config.json"));
  if (files.has("generation_config.json")) {
    read_generation_config(files.text("generation_config.json"),
                           files.path("generation_config.json"), config);
  }
  const TokenizerFacts tokenizer = tokenizer_facts(files);
  CheckpointFacts facts = imported_facts(files, config, tokenizer, options);
  const std::string& path = files.path("model.safetensors");
  const SafeTensorsFile tensors = open_tensors(path);
  check_piece_counts(config, tensors.header(), path);
  const Vocabulary vocabulary = foreign_vocabulary(files, config, tokenizer.unk);
  const ForeignModel foreign =
      read_foreign_weights(tensors.header(), config, vocabulary.pieces(), path);
  facts.model = foreign.model->options();
  facts = write_checkpoint(options.output, facts, foreign.model->layout(), foreign.parameters, {},
                           vocabulary, options.overwrite);
  warn_of_forbidden(config, options.output);
  return facts;
}

}  // namespace reigen
