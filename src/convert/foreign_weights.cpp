#include "convert/foreign_weights.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "convert/foreign_names.h"

namespace reigen {
namespace {

constexpr const char* kShared = "model.shared.weight";
constexpr const char* kEncoderTable = "model.encoder.embed_tokens.weight";
constexpr const char* kDecoderTable = "model.decoder.embed_tokens.weight";
constexpr const char* kProjection = "lm_head.weight";
constexpr const char* kOutputBias = "final_logits_bias";
constexpr const char* kPositions[] = {"model.encoder.embed_positions.weight",
                                      "model.decoder.embed_positions.weight"};

class WeightReader {
 public:
  WeightReader(const SafeTensorsHeader& file, const ForeignConfig& config,
               const PieceCounts& pieces, const std::string& name)
      : file_(file), config_(config), pieces_(pieces), name_(name), options_(config.model) {}

  ForeignModel read() {
    choose_tables();
    options_.biases = has_attention_biases();
    // A search of a model with an output bias never emits the start piece.
    options_.output_bias = config_.start_forbidden || (has(kOutputBias) && !all_zero(kOutputBias));
    used_.insert(kOutputBias);
    ForeignModel out;
    out.model = std::make_unique<Transformer>(options_, DropoutOptions{}, pieces_);
    choose_positions(out);
    check_size(out.model->layout());
    out.parameters.resize(out.model->layout().elements());
    for (const ParameterSlice& slice : out.model->layout().slices()) {
      read_slice(slice, std::span(out.parameters).subspan(slice.offset, slice.size()));
    }
    refuse_unused();
    return out;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw DataError(format("{}: {}", name_, why));
  }
  bool has(const std::string& tensor) const { return file_.tensors.contains(tensor); }

  const SafeTensor& find(const std::string& tensor, const std::vector<int64_t>& shape) const {
    const auto found = file_.tensors.find(tensor);
    if (found == file_.tensors.end()) refuse(format("has no tensor {}", tensor));
    if (found->second.shape != shape) {
      refuse(format("{} has the shape [{}], but config.json asks for [{}]", tensor,
                    fmt::join(found->second.shape, ", "), fmt::join(shape, ", ")));
    }
    return found->second;
  }

  void copy(const std::string& tensor, const std::vector<int64_t>& shape, std::span<float> into) {
    check_interrupt();
    used_.insert(tensor);
    try {
      find(tensor, shape).copy_as_f32(into);
    } catch (const CheckpointError& e) {
      refuse(format("{}: {}", tensor, e.what()));
    }
    if (!std::all_of(into.begin(), into.end(), [](float v) { return std::isfinite(v); })) {
      refuse(format("{} has values that are not finite", tensor));
    }
  }

  bool all_zero(const std::string& tensor) const {
    const auto& bytes = file_.tensors.at(tensor).bytes;
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
  }

  std::vector<std::string> bias_names() const {
    std::vector<std::string> names;
    ModelOptions without = options_;
    without.biases = false;
    const Transformer model(without, {}, 8);
    for (const ParameterSlice& slice : model.layout().slices()) {
      for (std::string& name : hf_attention_biases(slice.name)) names.push_back(std::move(name));
    }
    return names;
  }

  bool has_attention_biases() {
    bool any = false;
    for (const std::string& name : bias_names()) {
      if (!has(name)) refuse(format("has no tensor {}", name));
      any = any || !all_zero(name);
      used_.insert(name);
    }
    return any;
  }

  // The first of these tensors that the file has: a table that serves several purposes is stored
  // under one of its names, or under all.
  std::string first_of(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (has(name)) return name;
    }
    refuse(format("has no tensor {}", *names.begin()));
  }

  // transformers 5 has tables of the two sides and a shared one that nothing reads, where
  // config.json shares them but does not tie them to the projection.
  bool has_own_tables() const {
    return !config_.tied_projection && has(kEncoderTable) && has(kDecoderTable);
  }

  void choose_tables() {
    if (config_.shared_tables && !has_own_tables()) {
      source_ = target_ = first_of({kShared, kEncoderTable, kDecoderTable, kProjection});
    } else {
      source_ = first_of({kEncoderTable});
      target_ = config_.tied_projection ? first_of({kDecoderTable, kProjection})
                                        : first_of({kDecoderTable});
    }
    projection_ = config_.tied_projection ? target_ : first_of({kProjection});
    if (has_own_tables()) {
      used_.insert(kShared);
    } else {
      check_copies();
    }
    // Before a model of this width and a table of its positions are made.
    find(source_, {static_cast<int64_t>(pieces_.source), options_.width});
    find(target_, {static_cast<int64_t>(pieces_.target), options_.width});
    // With a joint vocabulary, `tied` ties all three tables.
    options_.tied = config_.tied_projection && config_.scaled_embeddings &&
                    (config_.shared_tables || !pieces_.joint);
  }

  // Copies of a table must be copies: a different one would be ignored.
  void check_copies() {
    auto same = [&](const char* name, const std::string& table) {
      if (!has(name)) return;
      used_.insert(name);
      const SafeTensor& a = file_.tensors.at(name);
      const SafeTensor& b = file_.tensors.at(table);
      const bool equal = a.dtype == b.dtype &&
                         std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end());
      if (!equal) {
        refuse(format("{} differs from {}, although config.json ties them", name, table));
      }
    };
    if (config_.shared_tables) {
      same(kShared, source_);
      same(kEncoderTable, source_);
      same(kDecoderTable, target_);
    }
    if (config_.tied_projection) same(kProjection, target_);
  }

  // Before memory is allocated. A table may be stored once and needed three times.
  void check_size(const ParameterLayout& layout) const {
    uint64_t bytes = 0;
    for (const auto& [name, tensor] : file_.tensors) bytes += tensor.bytes.size();
    if (layout.parameters() <= 2 * bytes) return;
    refuse(
        format("a model of the shape in config.json has {} parameters, but the file has only {} "
               "bytes of tensors",
               with_commas(layout.parameters()), with_commas(bytes)));
  }

  // Stored positions must be the sinusoids.
  void choose_positions(const ForeignModel& out) {
    const std::span<const float> sinusoids = out.model->sinusoids();
    std::vector<float> table(sinusoids.size());
    for (const char* name : kPositions) {
      if (!has(name)) continue;
      copy(name, {options_.max_length, options_.width}, table);
      constexpr float kRounding = 2e-3F;  // of 16 bits
      for (size_t i = 0; i < table.size(); ++i) {
        if (std::abs(table[i] - sinusoids[i]) <= kRounding) continue;
        refuse(
            format("{} are not the sinusoids of Marian and Pegasus (position {}: {} instead of "
                   "{})",
                   name, i / static_cast<size_t>(options_.width), table[i], sinusoids[i]));
      }
    }
  }

  void read_table(const std::string& tensor, const ParameterSlice& slice, std::span<float> values,
                  bool embedding) {
    copy(tensor, {slice.rows, slice.cols}, values);
    if (!embedding || config_.scaled_embeddings) return;
    const double scale = 1 / std::sqrt(static_cast<double>(options_.width));
    for (float& v : values) v = static_cast<float>(v * scale);
  }

  void read_slice(const ParameterSlice& slice, std::span<float> values) {
    if (slice.name == "embedding.weight") return read_table(source_, slice, values, true);
    if (slice.name == "source_embedding.weight") return read_table(source_, slice, values, true);
    if (slice.name == "target_embedding.weight") return read_table(target_, slice, values, true);
    if (slice.name == "projection.weight") return read_table(projection_, slice, values, false);
    if (slice.name == "projection.bias") {
      if (has(kOutputBias)) copy(kOutputBias, {1, slice.cols}, values);
      return;  // zeros otherwise
    }
    const std::vector<std::string> names = hf_names(slice.name);
    const size_t each = values.size() / names.size();
    const int64_t rows = slice.rows / static_cast<int64_t>(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      const std::vector<int64_t> shape = is_matrix(slice.name)
                                             ? std::vector{rows, slice.cols}
                                             : std::vector{static_cast<int64_t>(each)};
      copy(names[i], shape, values.subspan(i * each, each));
    }
  }

  void refuse_unused() const {
    for (const auto& [name, tensor] : file_.tensors) {
      if (used_.contains(name)) continue;
      refuse(format("tensor {} is not part of a {} model that can be imported", name,
                    config_.model_type));
    }
  }

  const SafeTensorsHeader& file_;
  const ForeignConfig& config_;
  const PieceCounts pieces_;
  const std::string& name_;
  ModelOptions options_;
  std::string source_;  // the tensors of the three tables
  std::string target_;
  std::string projection_;
  std::set<std::string> used_;
};

}  // namespace

ForeignModel read_foreign_weights(const SafeTensorsHeader& file, const ForeignConfig& config,
                                  const PieceCounts& pieces, const std::string& name) {
  return WeightReader(file, config, pieces, name).read();
}

}  // namespace reigen
