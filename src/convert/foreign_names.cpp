#include "convert/foreign_names.h"

#include <algorithm>
#include <stdexcept>

namespace reigen {
namespace {

// "encoder.3.self.output.weight" in its parts; the layer is empty for a norm above all layers.
struct LayerParameter {
  std::string stack;  // "encoder" or "decoder"
  std::string layer;
  std::string block;   // "self", "cross_norm", "ffn", "norm", ...
  std::string matrix;  // "query_key_value"; empty for a norm
  std::string kind;    // "weight", "bias", "gain" or "shift"
};

std::vector<std::string> split_name(const std::string& name) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    parts.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

LayerParameter layer_parameter(const std::string& name) {
  const std::vector<std::string> parts = split_name(name);
  if (parts.size() == 3) return {parts[0], "", parts[1], "", parts[2]};
  if (parts.size() == 4) return {parts[0], parts[1], parts[2], "", parts[3]};
  if (parts.size() == 5) return {parts[0], parts[1], parts[2], parts[3], parts[4]};
  throw std::logic_error("no parameter of a layer: " + name);
}

struct TableName {
  const char* own;
  const char* hf;
  const char* ctranslate2;
};
constexpr TableName kTables[] = {
    {"embedding.weight", "model.shared.weight", "decoder/embeddings/weight"},
    {"source_embedding.weight", "model.encoder.embed_tokens.weight", "encoder/embeddings_0/weight"},
    {"target_embedding.weight", "model.decoder.embed_tokens.weight", "decoder/embeddings/weight"},
    {"projection.weight", "lm_head.weight", "decoder/projection/weight"},
    {"projection.bias", "final_logits_bias", "decoder/projection/bias"},
    {"positions.weight", "", ""},
};

const TableName* table_name(const std::string& name) {
  for (const TableName& table : kTables) {
    if (name == table.own) return &table;
  }
  return nullptr;
}

std::string hf_block(const LayerParameter& p) {
  const std::string stack = "model." + p.stack;
  if (p.layer.empty()) return stack + ".layer_norm.";
  const std::string layer = stack + ".layers." + p.layer;
  if (p.block == "self") return layer + ".self_attn.";
  if (p.block == "cross") return layer + ".encoder_attn.";
  if (p.block == "self_norm") return layer + ".self_attn_layer_norm.";
  if (p.block == "cross_norm") return layer + ".encoder_attn_layer_norm.";
  if (p.block == "ffn_norm") return layer + ".final_layer_norm.";
  return layer + ".";  // a feed-forward layer has no name of its own
}

std::vector<std::string> hf_matrices(const LayerParameter& p) {
  if (p.matrix.empty()) return {""};
  if (p.block == "ffn") return {p.matrix == "input" ? "fc1." : "fc2."};
  if (p.matrix == "output") return {"out_proj."};
  if (p.matrix == "query") return {"q_proj."};
  if (p.matrix == "key_value") return {"k_proj.", "v_proj."};
  return {"q_proj.", "k_proj.", "v_proj."};
}

std::string ctranslate2_matrix(const LayerParameter& p) {
  if (p.block == "ffn") return p.matrix == "input" ? "/linear_0/" : "/linear_1/";
  if (p.block == "self") return p.matrix == "output" ? "/linear_1/" : "/linear_0/";
  if (p.matrix == "query") return "/linear_0/";
  return p.matrix == "key_value" ? "/linear_1/" : "/linear_2/";
}

}  // namespace

bool is_matrix(const std::string& name) { return name.ends_with(".weight"); }

std::vector<std::string> hf_names(const std::string& name) {
  if (const TableName* table = table_name(name)) {
    if (*table->hf == '\0') return {};
    return {table->hf};
  }
  const LayerParameter p = layer_parameter(name);
  const std::string kind = p.kind == "gain" || p.kind == "weight" ? "weight" : "bias";
  std::vector<std::string> names;
  for (const std::string& matrix : hf_matrices(p)) names.push_back(hf_block(p) + matrix + kind);
  return names;
}

std::vector<std::string> hf_attention_biases(const std::string& name) {
  if (table_name(name) != nullptr) return {};
  LayerParameter p = layer_parameter(name);
  if (p.kind != "weight" || (p.block != "self" && p.block != "cross")) return {};
  std::vector<std::string> names;
  for (const std::string& matrix : hf_matrices(p)) names.push_back(hf_block(p) + matrix + "bias");
  return names;
}

std::string ctranslate2_name(const std::string& name) {
  if (const TableName* table = table_name(name)) return table->ctranslate2;
  const LayerParameter p = layer_parameter(name);
  std::string kind = p.kind;
  if (kind == "gain") kind = "gamma";
  if (kind == "shift") kind = "beta";
  if (p.layer.empty()) return p.stack + "/layer_norm/" + kind;
  std::string block = p.block;
  const bool norm = block.ends_with("_norm");
  if (norm) block.resize(block.size() - 5);
  if (block == "self") block = "self_attention";
  if (block == "cross") block = "attention";
  const std::string path = p.stack + "/layer_" + p.layer + "/" + block;
  return path + (norm ? "/layer_norm/" : ctranslate2_matrix(p)) + kind;
}

}  // namespace reigen
