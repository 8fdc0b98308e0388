// A checkpoint as a model of CTranslate2: the file format of its version 6 and the variables of
// TransformerSpec, revision 7, as its loader reads them; vocabularies as JSON (CTranslate2 3.16 and
// later).
//
// Positions are written as a table, because the sinusoids that CTranslate2 computes itself have
// other frequencies and start at 1. A table that serves several variables is written once, the
// others are aliases.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "convert/export_format.h"
#include "convert/foreign_names.h"

namespace reigen {
namespace {

constexpr uint32_t kBinaryVersion = 6;
constexpr uint32_t kSpecRevision = 7;
// CTranslate2 takes up to max_input_length tokens, 1024 by default, and fails for a position that
// the table lacks. On a GPU it pads a batch to a multiple of up to 16 tokens.
constexpr int64_t kFewestPositions = 1025;
constexpr int64_t kPositionMultiple = 16;
// As in CTranslate2's DataType.
enum class Ct2Type : uint8_t { kFloat32 = 0, kInt8 = 1, kInt16 = 2 };

struct Ct2Variable {
  std::string name;
  std::vector<int64_t> shape;  // empty for one number
  Ct2Type type = Ct2Type::kFloat32;
  uint64_t bytes = 0;
  std::function<void(FileWriter&)> write;  // exactly `bytes`
};

uint8_t ct2_activation(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kGelu:
      return 1;  // GELUTanh
    case ActivationKind::kSwish:
      return 2;
    case ActivationKind::kGeluErf:
      return 3;
    default:
      return 0;
  }
}

// The scale of a row of int8: the largest magnitude becomes 127.
float row_scale(std::span<const float> row) {
  float largest = 0;
  for (const float v : row) largest = std::max(largest, std::abs(v));
  return largest == 0 ? 1.0F : 127.0F / largest;
}

template <class T>
void put(FileWriter& file, T value) {
  file.write(&value, sizeof value);
}

// Texts end with a zero, which their length includes.
void put_text(FileWriter& file, const std::string& text) {
  put(file, static_cast<uint16_t>(text.size() + 1));
  file.write(text.c_str(), text.size() + 1);
}

class Ct2Model {
 public:
  Ct2Model(const SavedModel& saved, ExportWeights weights) : saved_(saved), weights_(weights) {
    add_settings("encoder");
    add_settings("decoder");
    add_number<int8_t>("encoder/embeddings_merge", 0, Ct2Type::kInt8);
    add_number<int16_t>("decoder/alignment_layer", -1, Ct2Type::kInt16);
    add_number<int16_t>("decoder/alignment_heads", 1, Ct2Type::kInt16);
    add_number<int8_t>("decoder/start_from_zero_embedding", 0, Ct2Type::kInt8);
    for (const ParameterSlice& slice : saved.model->layout().slices()) add_slice(slice);
    add_positions();
    if (saved.facts.model.tied) {
      aliases_.emplace_back("decoder/projection/weight", "decoder/embeddings/weight");
      if (saved.vocabulary.pieces().joint) {
        aliases_.emplace_back("encoder/embeddings_0/weight", "decoder/embeddings/weight");
      }
    }
    std::sort(variables_.begin(), variables_.end(),
              [](const Ct2Variable& a, const Ct2Variable& b) { return a.name < b.name; });
  }

  void write(FileWriter& file) const {
    put(file, kBinaryVersion);
    put_text(file, "TransformerSpec");
    put(file, kSpecRevision);
    put(file, static_cast<uint32_t>(variables_.size()));
    for (const Ct2Variable& variable : variables_) {
      check_interrupt();
      write_variable(file, variable);
    }
    put(file, static_cast<uint32_t>(aliases_.size()));
    for (const auto& [alias, name] : aliases_) {
      put_text(file, alias);
      put_text(file, name);
    }
  }

 private:
  static void write_variable(FileWriter& file, const Ct2Variable& variable) {
    put_text(file, variable.name);
    put(file, static_cast<uint8_t>(variable.shape.size()));
    for (const int64_t n : variable.shape) put(file, static_cast<uint32_t>(n));
    put(file, static_cast<uint8_t>(variable.type));
    put(file, static_cast<uint32_t>(variable.bytes));
    variable.write(file);
  }

  template <class T>
  void add_number(std::string name, T value, Ct2Type type) {
    variables_.push_back(
        {std::move(name), {}, type, sizeof value, [value](FileWriter& file) { put(file, value); }});
  }

  void add_settings(const std::string& stack) {
    const ModelOptions& m = saved_.facts.model;
    add_number(stack + "/num_heads", static_cast<int16_t>(m.heads), Ct2Type::kInt16);
    add_number<int8_t>(stack + "/pre_norm", m.norm == NormPlace::kPre ? 1 : 0, Ct2Type::kInt8);
    add_number(stack + "/activation", ct2_activation(m.activation), Ct2Type::kInt8);
    add_number<int8_t>(stack + "/scale_embeddings", 1, Ct2Type::kInt8);  // by sqrt(width)
  }

  void add_floats(std::string name, std::vector<int64_t> shape, std::span<const float> values) {
    check_size(name, values.size_bytes());
    variables_.push_back(
        {std::move(name), std::move(shape), Ct2Type::kFloat32, values.size_bytes(),
         [values](FileWriter& file) { file.write(values.data(), values.size_bytes()); }});
  }

  // The format counts the bytes of a variable in 32 bits.
  void check_size(const std::string& name, uint64_t bytes) const {
    constexpr uint64_t kMostBytes = std::numeric_limits<uint32_t>::max();
    if (bytes <= kMostBytes) return;
    throw ConfigError(format("{}: {} has {} bytes, but a variable of CTranslate2 has at most {}",
                             saved_.path, name, with_commas(bytes), with_commas(kMostBytes)));
  }

  void add_slice(const ParameterSlice& slice) {
    const std::string name = ctranslate2_name(slice.name);
    if (name.empty()) return;
    const auto values = std::span(saved_.parameters).subspan(slice.offset, slice.size());
    if (slice.name == "projection.bias") return add_output_bias(name, values);
    if (!is_matrix(slice.name)) return add_floats(name, {slice.cols}, values);
    if (weights_ == ExportWeights::kFloat32) {
      return add_floats(name, {slice.rows, slice.cols}, values);
    }
    add_int8(name, slice, values);
  }

  // CTranslate2 has no setting for a piece that is never emitted (Transformer::set_start_piece). It
  // may hold the bias in fp16, whose largest number is 65504.
  void add_output_bias(const std::string& name, std::span<const float> values) {
    output_bias_.assign(values.begin(), values.end());
    if (saved_.vocabulary.bos() != saved_.vocabulary.eos()) {
      output_bias_[saved_.vocabulary.bos()] = -1e4F;
    }
    add_floats(name, {static_cast<int64_t>(values.size())}, output_bias_);
  }

  // Weights as CTranslate2's converter quantises them: round half to even, a scale for each row.
  void add_int8(const std::string& name, const ParameterSlice& slice,
                std::span<const float> values) {
    const auto cols = static_cast<size_t>(slice.cols);
    const auto rows = static_cast<size_t>(slice.rows);
    check_size(name, values.size());
    variables_.push_back(
        {name, {slice.rows, slice.cols}, Ct2Type::kInt8, values.size(), [=](FileWriter& file) {
           std::vector<int8_t> row(cols);
           for (size_t r = 0; r < rows; ++r) {
             const auto from = values.subspan(r * cols, cols);
             const float scale = row_scale(from);
             for (size_t c = 0; c < cols; ++c) {
               row[c] = static_cast<int8_t>(std::nearbyint(from[c] * scale));
             }
             file.write(row.data(), row.size());
           }
         }});
    variables_.push_back({name + "_scale",
                          {slice.rows},
                          Ct2Type::kFloat32,
                          rows * sizeof(float),
                          [=](FileWriter& file) {
                            for (size_t r = 0; r < rows; ++r) {
                              put(file, row_scale(values.subspan(r * cols, cols)));
                            }
                          }});
  }

  void add_positions() {
    ModelOptions m = saved_.facts.model;
    std::span<const float> table;
    if (m.positions == Positions::kLearned) {
      const ParameterSlice& slice = saved_.model->layout().find("positions.weight");
      table = std::span(saved_.parameters).subspan(slice.offset, slice.size());
    } else {
      const int64_t rows = std::max(m.max_length, kFewestPositions);
      m.max_length = (rows + kPositionMultiple - 1) / kPositionMultiple * kPositionMultiple;
      longer_ = std::make_unique<Transformer>(m, DropoutOptions{}, saved_.vocabulary.pieces());
      table = longer_->sinusoids();
    }
    add_floats("decoder/position_encodings/encodings", {m.max_length, m.width}, table);
    aliases_.emplace_back("encoder/position_encodings/encodings",
                          "decoder/position_encodings/encodings");
  }

  const SavedModel& saved_;
  ExportWeights weights_;
  std::vector<float> output_bias_;
  std::unique_ptr<Transformer> longer_;  // for its sinusoids
  std::vector<Ct2Variable> variables_;
  std::vector<std::pair<std::string, std::string>> aliases_;  // and the variable
};

Json ct2_config(const Vocabulary& vocabulary) {
  return {{"unk_token", vocabulary.piece(vocabulary.unk())},
          {"bos_token", vocabulary.piece(vocabulary.bos())},
          {"eos_token", vocabulary.piece(vocabulary.eos())},
          {"decoder_start_token", vocabulary.piece(vocabulary.bos())},
          {"add_source_bos", false},
          {"add_source_eos", true},
          {"layer_norm_epsilon", 1e-5}};
}

Json pieces_of(const Vocabulary& vocabulary) {
  Json pieces = Json::array();
  for (uint32_t id = 0; id < vocabulary.size(); ++id) pieces.push_back(vocabulary.piece(id));
  return pieces;
}

}  // namespace

void write_ctranslate2(const SavedModel& saved, ExportWeights weights, const StagedDirectory& out) {
  const Ct2Model model(saved, weights);
  FileWriter file(out.file("model.bin"));
  model.write(file);
  file.close();
  write_export_file(out, "config.json", pretty(ct2_config(saved.vocabulary)));
  const Vocabulary& vocabulary = saved.vocabulary;
  if (vocabulary.pieces().joint) {
    write_export_file(out, "shared_vocabulary.json", pretty(pieces_of(vocabulary)));
  } else {
    write_export_file(out, "source_vocabulary.json", pretty(pieces_of(vocabulary.source())));
    write_export_file(out, "target_vocabulary.json", pretty(pieces_of(vocabulary)));
  }
  if (vocabulary.cuts_text()) {
    write_export_file(out, "source.spm", vocabulary.source().bytes());
    write_export_file(out, "target.spm", vocabulary.bytes());
  }
}

}  // namespace reigen
