#include "convert/foreign_config.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/json/json_view.h"

namespace reigen {
namespace {

// Sizes as in the options `model.*`.
constexpr uint64_t kMostForeignPieces = 1 << 24;

class ConfigReader {
 public:
  ConfigReader(const Json& json, const std::string& name) : view_(json), name_(name) {}

  ForeignConfig read() const {
    ForeignConfig config;
    config.model_type = static_cast<std::string>(view_.at("model_type"));
    if (config.model_type != "marian" && config.model_type != "pegasus") {
      refuse(format("model_type {} is not supported; marian and pegasus are", config.model_type));
    }
    read_shape(config);
    config.source_pieces = size("vocab_size", kMostForeignPieces);
    config.shared_tables = flag("share_encoder_decoder_embeddings", true);
    config.tied_projection = flag("tie_word_embeddings", true);
    config.scaled_embeddings = flag("scale_embedding", false);
    config.target_pieces = config.source_pieces;
    if (!config.shared_tables && given("decoder_vocab_size")) {
      config.target_pieces = size("decoder_vocab_size", kMostForeignPieces);
    }
    config.eos = piece_id("eos_token_id", config.target_pieces);
    config.start =
        piece_id(given("decoder_start_token_id") ? "decoder_start_token_id" : "pad_token_id",
                 config.target_pieces);
    read_forbidden(config);
    check_layers(config);
    return config;
  }

  void read_generation(ForeignConfig& config) const {
    if (given("decoder_start_token_id")) {
      config.start = piece_id("decoder_start_token_id", config.target_pieces);
    }
    read_forbidden(config);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw DataError(format("{}: {}", name_, why));
  }
  bool given(const char* key) const { return view_.contains(key) && !view_.at(key).is_null(); }
  bool flag(const char* key, bool otherwise) const {
    return given(key) ? static_cast<bool>(view_.at(key)) : otherwise;
  }
  uint64_t size(const char* key, uint64_t most) const {
    const uint64_t value = view_.at(key);
    if (value == 0 || value > most) {
      refuse(format("{} is {}; it must be from 1 to {}", key, value, most));
    }
    return value;
  }
  uint32_t piece_id(const char* key, uint64_t pieces) const {
    const uint64_t id = view_.at(key);
    if (id >= pieces) refuse(format("{} is {}, but there are only {} pieces", key, id, pieces));
    return static_cast<uint32_t>(id);
  }

  void read_forbidden(ForeignConfig& config) const {
    if (!given("bad_words_ids")) return;
    config.start_forbidden = false;
    config.forbidden_sequences = 0;
    for (const JsonView& sequence : view_.at("bad_words_ids").elements()) {
      const std::vector<JsonView> ids = sequence.elements();
      const bool start = ids.size() == 1 && static_cast<uint64_t>(ids[0]) == config.start;
      if (start) config.start_forbidden = true;
      if (!start) ++config.forbidden_sequences;
    }
  }

  // Settings of other models of their families, which neither class reads.
  void check_layers(const ForeignConfig& config) const {
    const bool pre = config.model.norm == NormPlace::kPre;
    const std::pair<const char*, bool> wanted[] = {{"normalize_before", pre},
                                                   {"add_final_layer_norm", pre},
                                                   {"normalize_embedding", false},
                                                   {"static_position_embeddings", true},
                                                   {"is_encoder_decoder", true}};
    for (const auto& [key, value] : wanted) {
      if (!given(key) || flag(key, value) == value) continue;
      refuse(
          format("{} is {}, but models of type {} have {}", key, !value, config.model_type, value));
    }
  }

  // A setting that both sides have and that is one here.
  int64_t same_size(const char* encoder, const char* decoder, uint64_t most) const {
    const uint64_t value = size(encoder, most);
    if (size(decoder, most) != value) {
      refuse(format("{} {} and {} {} differ; models here have one size for both", encoder, value,
                    decoder, size(decoder, most)));
    }
    return static_cast<int64_t>(value);
  }

  void read_shape(ForeignConfig& config) const {
    ModelOptions& m = config.model;
    m.width = static_cast<int64_t>(size("d_model", 65'536));
    m.heads = same_size("encoder_attention_heads", "decoder_attention_heads", 1024);
    m.ffn_width = same_size("encoder_ffn_dim", "decoder_ffn_dim", 1'000'000);
    m.encoder_layers = static_cast<int64_t>(size("encoder_layers", 1000));
    m.decoder_layers = static_cast<int64_t>(size("decoder_layers", 1000));
    m.max_length = static_cast<int64_t>(size("max_position_embeddings", 65'536));
    m.norm = config.model_type == "pegasus" ? NormPlace::kPre : NormPlace::kPost;
    m.activation = activation();
    try {
      check_model_options(m);
    } catch (const ConfigError& e) {
      refuse(e.what());
    }
  }

  ActivationKind activation() const {
    const std::string kind = view_.at("activation_function");
    if (kind == "relu") return ActivationKind::kRelu;
    if (kind == "gelu" || kind == "gelu_python") return ActivationKind::kGeluErf;
    if (kind == "swish" || kind == "silu") return ActivationKind::kSwish;
    if (kind == "gelu_new" || kind == "gelu_pytorch_tanh" || kind == "gelu_fast") {
      return ActivationKind::kGelu;
    }
    refuse(
        format("activation_function {} is not supported; relu, swish, silu, gelu, gelu_new, "
               "gelu_fast and gelu_pytorch_tanh are",
               kind));
  }

  JsonView view_;
  const std::string& name_;
};

template <class Read>
auto read_json_text(std::string_view text, const std::string& name, Read read) {
  const Json json = parse_json(text, name);
  try {
    return read(ConfigReader(json, name));
  } catch (const FieldError& e) {
    throw DataError(format("{}: {}", name, e.what()));
  }
}

}  // namespace

ForeignConfig parse_foreign_config(std::string_view text, const std::string& name) {
  return read_json_text(text, name, [](const ConfigReader& reader) { return reader.read(); });
}

void read_generation_config(std::string_view text, const std::string& name, ForeignConfig& config) {
  read_json_text(text, name, [&](const ConfigReader& reader) { reader.read_generation(config); });
}

}  // namespace reigen
