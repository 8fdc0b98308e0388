#include "model/quantized_parameters.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

constexpr float kMostInt8 = 127;  // and not -128, so that the range is symmetric
constexpr const char* kScale = ".scale";

void round_row(std::span<const float> row, float& scale, int8_t* out) {
  float most = 0;
  for (const float v : row) most = std::max(most, std::abs(v));
  scale = most / kMostInt8;
  const float inverse = scale > 0 ? 1 / scale : 0;
  for (size_t i = 0; i < row.size(); ++i) {
    const float v = std::clamp(std::nearbyint(row[i] * inverse), -kMostInt8, kMostInt8);
    out[i] = static_cast<int8_t>(v);
  }
}

std::vector<int64_t> dimensions(const ParameterSlice& slice) {
  if (slice.rows == 1) return {slice.cols};
  return {slice.rows, slice.cols};
}

const SafeTensor& find_tensor(const SafeTensorsFile& file, const std::string& path,
                              const std::string& name, const char* type,
                              const std::vector<int64_t>& shape) {
  const SafeTensor& tensor = file.find(name);
  if (tensor.dtype == type && tensor.shape == shape) return tensor;
  throw CheckpointError(format("{}: {} is {} [{}] but the model needs {} [{}]", path, name,
                               tensor.dtype, fmt::join(tensor.shape, ", "), type,
                               fmt::join(shape, ", ")));
}

}  // namespace

bool is_quantizable(const ParameterSlice& slice) {
  return slice.name.ends_with(".weight") && slice.name != "positions.weight";
}

QuantizedParameters::QuantizedParameters(const ParameterLayout& layout,
                                         std::span<const float> parameters)
    : layout_(layout), slices_(layout.slices().size()) {
  for (size_t s = 0; s < slices_.size(); ++s) {
    const ParameterSlice& slice = layout_.slices()[s];
    const std::span<const float> from = parameters.subspan(slice.offset, slice.size());
    Slice& to = slices_[s];
    if (!is_quantizable(slice)) {
      to.numbers.assign(from.begin(), from.end());
      continue;
    }
    to.numbers.resize(static_cast<size_t>(slice.rows));
    to.rounded.resize(slice.size());
    to.values = to.rounded.data();
    const auto cols = static_cast<size_t>(slice.cols);
    for (size_t r = 0; r < to.numbers.size(); ++r) {
      round_row(from.subspan(r * cols, cols), to.numbers[r], to.rounded.data() + r * cols);
    }
  }
}

QuantizedParameters::QuantizedParameters(const ParameterLayout& layout, const std::string& path)
    : layout_(layout),
      file_(std::make_unique<SafeTensorsFile>(path)),
      slices_(layout.slices().size()) {
  for (size_t s = 0; s < slices_.size(); ++s) {
    const ParameterSlice& slice = layout_.slices()[s];
    Slice& to = slices_[s];
    if (!is_quantizable(slice)) {
      to.numbers = find_tensor(*file_, path, slice.name, "F32", dimensions(slice)).f32();
      continue;
    }
    to.numbers = find_tensor(*file_, path, slice.name + kScale, "F32", {slice.rows}).f32();
    const SafeTensor& values =
        find_tensor(*file_, path, slice.name, "I8", {slice.rows, slice.cols});
    to.values = reinterpret_cast<const int8_t*>(values.bytes.data());
  }
}

Int8Matrix QuantizedParameters::matrix(size_t index) const {
  const ParameterSlice& slice = layout_.slices()[index];
  if (slices_[index].values == nullptr) return {};
  return {slices_[index].values, slices_[index].numbers.data(), slice.rows, slice.cols};
}

Tensor QuantizedParameters::numbers(size_t index) const {
  const ParameterSlice& slice = layout_.slices()[index];
  return f32_matrix(const_cast<float*>(slices_[index].numbers.data()), slice.rows, slice.cols);
}

void QuantizedParameters::forget(size_t index) const {
  const std::span values(slices_[index].values, layout_.slices()[index].size());
  if (file_) file_->forget(std::as_bytes(values));
}

std::vector<float> QuantizedParameters::expanded() const {
  std::vector<float> all(layout_.elements());
  for (size_t s = 0; s < slices_.size(); ++s) {
    const ParameterSlice& slice = layout_.slices()[s];
    float* to = all.data() + slice.offset;
    const Int8Matrix from = matrix(s);
    if (from.empty()) std::copy(slices_[s].numbers.begin(), slices_[s].numbers.end(), to);
    for (int64_t r = 0; r < from.rows; ++r) {
      for (int64_t c = 0; c < from.cols; ++c) {
        *to++ = from.scales[r] * static_cast<float>(from.row(r)[c]);
      }
    }
  }
  return all;
}

std::vector<SafeTensorSource> QuantizedParameters::tensors() const {
  std::vector<SafeTensorSource> numbers;
  std::vector<SafeTensorSource> matrices;  // at the end, so that the numbers are aligned
  for (size_t s = 0; s < slices_.size(); ++s) {
    const ParameterSlice& slice = layout_.slices()[s];
    const Int8Matrix values = matrix(s);
    if (values.empty()) {
      numbers.push_back({slice.name, dimensions(slice), slices_[s].numbers});
      continue;
    }
    numbers.push_back({slice.name + kScale, {slice.rows}, slices_[s].numbers});
    matrices.push_back({.name = slice.name,
                        .shape = {slice.rows, slice.cols},
                        .int8 = {values.values, slice.size()}});
  }
  numbers.insert(numbers.end(), matrices.begin(), matrices.end());
  return numbers;
}

}  // namespace reigen
