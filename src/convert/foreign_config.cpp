#include "convert/foreign_config.h"

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
    return config;
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

}  // namespace

ForeignConfig parse_foreign_config(std::string_view text, const std::string& name) {
  const Json json = parse_json(text, name);
  try {
    return ConfigReader(json, name).read();
  } catch (const FieldError& e) {
    throw DataError(format("{}: {}", name, e.what()));
  }
}

}  // namespace reigen
