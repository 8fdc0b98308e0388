// A checkpoint as a directory of Hugging Face transformers.
//
// A pre-norm model equals PegasusForConditionalGeneration, a post-norm one MarianMTModel: the same
// sinusoids, embeddings times sqrt(width), norms with epsilon 1e-5. Their defaults for the special
// pieces are different, so every value is written. Our start piece is also the padding piece,
// because both classes, and CTranslate2's converter of Pegasus, start a translation with padding.
#include <algorithm>
#include <vector>

#include "base/format.h"
#include "base/interrupt.h"
#include "base/json/json_view.h"
#include "config/decode_options.h"
#include "convert/export_format.h"
#include "convert/foreign_names.h"
#include "decode/calibration.h"
#include "tensor/safetensors.h"

namespace reigen {
namespace {

std::string hf_activation(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kGelu:
      return "gelu_new";  // the tanh form
    case ActivationKind::kGeluErf:
      return "gelu";
    case ActivationKind::kSwish:
      return "swish";
    default:
      return "relu";
  }
}

DropoutOptions trained_dropout(const CheckpointFacts& facts) {
  DropoutOptions dropout;
  if (!facts.training.contains("options")) return dropout;
  const Json& options = facts.training.at("options");
  if (!options.is_object() || !options.contains("dropout")) return dropout;
  auto read = [&](const char* key, double& rate) {
    const Json& rates = options.at("dropout");
    if (rates.is_object() && rates.contains(key) && rates.at(key).is_number()) {
      rate = rates.at(key).get<double>();
    }
  };
  read("residual", dropout.residual);
  read("attention", dropout.attention);
  read("activation", dropout.activation);
  return dropout;
}

Json hf_config(const SavedModel& saved) {
  const ModelOptions& m = saved.facts.model;
  const bool pre = m.norm == NormPlace::kPre;
  const uint32_t start = saved.vocabulary.bos();
  const uint32_t end = saved.vocabulary.eos();
  const DropoutOptions dropout = trained_dropout(saved.facts);
  Json json = {{"architectures", {pre ? "PegasusForConditionalGeneration" : "MarianMTModel"}},
               {"model_type", pre ? "pegasus" : "marian"},
               {"is_encoder_decoder", true},
               {"vocab_size", saved.vocabulary.pieces().source},
               {"d_model", m.width},
               {"encoder_layers", m.encoder_layers},
               {"decoder_layers", m.decoder_layers},
               {"num_hidden_layers", m.encoder_layers},
               {"encoder_attention_heads", m.heads},
               {"decoder_attention_heads", m.heads},
               {"encoder_ffn_dim", m.ffn_width},
               {"decoder_ffn_dim", m.ffn_width},
               {"max_position_embeddings", m.max_length},
               {"activation_function", hf_activation(m.activation)},
               {"scale_embedding", true},
               {"tie_word_embeddings", m.tied},
               {"normalize_before", pre},  // read by CTranslate2's converter
               {"normalize_embedding", false},
               {"static_position_embeddings", true},
               {"dropout", dropout.residual},
               {"attention_dropout", dropout.attention},
               {"activation_dropout", dropout.activation},
               {"encoder_layerdrop", 0.0},
               {"decoder_layerdrop", 0.0},
               {"init_std", 0.02},
               {"use_cache", true},
               {"pad_token_id", start},
               {"bos_token_id", start},
               {"eos_token_id", end},
               {"decoder_start_token_id", start},
               {"forced_eos_token_id", end},
               {"dtype", "float32"},
               {"torch_dtype", "float32"},
               {"tokenizer_class", "MarianTokenizer"}};
  if (!pre) {
    json["share_encoder_decoder_embeddings"] = m.tied && saved.vocabulary.pieces().joint;
    json["decoder_vocab_size"] = saved.vocabulary.size();
  }
  return json;
}

Json hf_generation(const SavedModel& saved) {
  const uint32_t start = saved.vocabulary.bos();
  const uint32_t end = saved.vocabulary.eos();
  Json json = {{"pad_token_id", start},
               {"bos_token_id", start},
               {"eos_token_id", end},
               {"decoder_start_token_id", start},
               {"forced_eos_token_id", end},
               {"max_length", saved.facts.model.max_length + 1},  // the start piece is counted
               {"num_beams", DecodeOptions().beam}};
  // Where a search here never emits the start piece (Transformer::set_start_piece).
  if (saved.facts.model.output_bias && start != end) {
    json["bad_words_ids"] = Json::array({Json::array({start})});
  }
  return json;
}

// Tensors that point into the parameters, and memory for those that we do not have.
class HfTensors {
 public:
  explicit HfTensors(const SavedModel& saved) : zeros_(zero_count(saved)) {
    for (const ParameterSlice& slice : saved.model->layout().slices()) {
      add_slice(slice, std::span(saved.parameters).subspan(slice.offset, slice.size()));
      if (!saved.facts.model.biases) add_missing_biases(slice);
    }
    if (!has("final_logits_bias")) {
      const auto pieces = static_cast<int64_t>(saved.vocabulary.size());
      add("final_logits_bias", {1, pieces}, zeros(pieces));
    }
    // Tied to a table that is not the shared one: not every version of transformers fills it in.
    if (saved.facts.model.tied && !saved.vocabulary.pieces().joint) {
      const ParameterSlice& table = saved.model->layout().find("target_embedding.weight");
      add("lm_head.weight", shape_of(table, table.size()),
          std::span(saved.parameters).subspan(table.offset, table.size()));
    }
    const ModelOptions& m = saved.facts.model;
    for (const char* stack : {"model.encoder", "model.decoder"}) {
      add(format("{}.embed_positions.weight", stack), {m.max_length, m.width},
          saved.model->sinusoids());
    }
  }

  const std::vector<SafeTensorSource>& list() const { return tensors_; }

 private:
  static size_t zero_count(const SavedModel& saved) {
    return std::max(saved.vocabulary.size(), static_cast<size_t>(saved.facts.model.width));
  }
  std::span<const float> zeros(int64_t count) const {
    return std::span(zeros_).first(static_cast<size_t>(count));
  }
  bool has(const std::string& name) const {
    return std::any_of(tensors_.begin(), tensors_.end(),
                       [&](const SafeTensorSource& tensor) { return tensor.name == name; });
  }
  void add(std::string name, std::vector<int64_t> shape, std::span<const float> values) {
    tensors_.push_back({std::move(name), std::move(shape), values});
  }

  void add_slice(const ParameterSlice& slice, std::span<const float> values) {
    const std::vector<std::string> names = hf_names(slice.name);
    const size_t each = names.empty() ? 0 : values.size() / names.size();
    for (size_t i = 0; i < names.size(); ++i) {
      add(names[i], shape_of(slice, each), values.subspan(i * each, each));
    }
  }
  static std::vector<int64_t> shape_of(const ParameterSlice& slice, size_t size) {
    const auto count = static_cast<int64_t>(size);
    if (slice.name == "projection.bias") return {1, count};
    if (!is_matrix(slice.name)) return {count};
    return {count / slice.cols, slice.cols};
  }
  void add_missing_biases(const ParameterSlice& slice) {
    const std::vector<std::string> names = hf_attention_biases(slice.name);
    for (const std::string& name : names) {
      const int64_t outputs = slice.rows / static_cast<int64_t>(names.size());
      add(name, {outputs}, zeros(outputs));
    }
  }

  std::vector<float> zeros_;
  std::vector<SafeTensorSource> tensors_;
};

// An object of piece -> id: too many members for Json, which compares each with all before it.
std::string pieces_json(const Vocabulary& vocabulary) {
  std::string out = "{";
  for (uint32_t id = 0; id < vocabulary.size(); ++id) {
    out += format("{}\n  {}: {}", id == 0 ? "" : ",", Json(vocabulary.piece(id)).dump(), id);
  }
  return out + "\n}\n";
}

Json tokenizer_config(const SavedModel& saved) {
  const Vocabulary& vocabulary = saved.vocabulary;
  return {{"tokenizer_class", "MarianTokenizer"},
          {"source_lang", saved.facts.source_language},
          {"target_lang", saved.facts.target_language},
          {"unk_token", vocabulary.piece(vocabulary.unk())},
          {"eos_token", vocabulary.piece(vocabulary.eos())},
          {"pad_token", vocabulary.piece(vocabulary.bos())},
          {"model_max_length", saved.facts.model.max_length},
          {"separate_vocabs", !vocabulary.pieces().joint},
          {"clean_up_tokenization_spaces", false},
          {"sp_model_kwargs", Json::object()}};
}

}  // namespace

void write_hf(const SavedModel& saved, const StagedDirectory& out) {
  write_export_file(out, "config.json", pretty(hf_config(saved)));
  write_export_file(out, "generation_config.json", pretty(hf_generation(saved)));
  write_export_file(out, "tokenizer_config.json", pretty(tokenizer_config(saved)));
  const Vocabulary& vocabulary = saved.vocabulary;
  write_export_file(out, "vocab.json", pieces_json(vocabulary.source()));
  if (!vocabulary.pieces().joint) {
    write_export_file(out, "target_vocab.json", pieces_json(vocabulary));
  }
  write_export_file(out, "source.spm", vocabulary.source().bytes());
  write_export_file(out, "target.spm", vocabulary.bytes());
  // For `reigen import`: the facts of a checkpoint that the other files have no place for.
  const CheckpointFacts& facts = saved.facts;
  Json own = {{"format", "reigen export"},
              {"step", facts.step},
              {"source_language", facts.source_language},
              {"target_language", facts.target_language},
              {"nfkc", facts.nfkc},
              {"whitespace", facts.whitespace},
              {"scores", facts.scores}};
  if (facts.training.contains(kCalibration)) own[kCalibration] = facts.training.at(kCalibration);
  write_export_file(out, "reigen.json", pretty(own));
  check_interrupt();
  FileWriter file(out.file("model.safetensors"));
  write_safetensors(file, HfTensors(saved).list(), {{"format", "pt"}, {"writer", "reigen"}});
  file.close();
}

}  // namespace reigen
