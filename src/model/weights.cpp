#include "model/weights.h"

#include "model/packed_parameters.h"
#include "model/quantized_parameters.h"
#include "model/transformer.h"
#include "ops/gpu_backend.h"

namespace reigen {

Tensor matrix_of(const ParameterLayout& layout, size_t index, const Weights& weights) {
  const ParameterSlice& slice = layout.slices()[index];
  if (weights.quantized != nullptr) {
    return {nullptr, DType::kF32, slice.rows, slice.cols, slice.cols};
  }
  void* data = static_cast<char*>(weights.compute) + slice.offset * size_of(weights.type);
  return {data, weights.type, slice.rows, slice.cols, slice.cols};
}

Tensor vector_of(const ParameterLayout& layout, size_t index, const Weights& weights) {
  if (weights.quantized != nullptr) return weights.quantized->numbers(index);
  return slice_of(layout, index, weights.master);
}

// A 16-bit residual stream loses small branches once it has grown. bf16 with a residual of the
// same type trains as well as fp32 does (docs/design/cuda.md); fp16 can overflow there.
DType residual_type(DType type, NormPlace norm) {
  if (type == DType::kF16 && norm == NormPlace::kPre) return DType::kF32;
  return type;
}

DeviceWeights::DeviceWeights(const Device& device, const Transformer& model,
                             std::span<float> parameters, DType type)
    : elements_(parameters.size()), view_(parameters) {
  if (Gpu* gpu = device.gpu()) upload(*gpu, device, model, parameters, type);
}

DeviceWeights::DeviceWeights(const Device& device, const Transformer& model,
                             const QuantizedParameters& parameters, DType type)
    : elements_(model.layout().elements()) {
  if (Gpu* gpu = device.gpu()) {
    upload(*gpu, device, model, parameters.expanded(), type);
  } else {
    view_.quantized = &parameters;
  }
}

void DeviceWeights::upload(Gpu& gpu, const Device& device, const Transformer& model,
                           std::span<const float> parameters, DType type) {
  const size_t bytes = elements_ * sizeof(float);
  master_ = DeviceBuffer(DeviceKind::kGpu, bytes, "the parameters");
  gpu.upload(master_.data(), parameters.data(), bytes);
  view_.master = master_.as<float>();
  view_.compute = master_.data();
  view_.type = type;
  view_.residual = residual_type(type, model.options().norm);
  if (type != DType::kF32) {
    compute_ =
        DeviceBuffer(DeviceKind::kGpu, elements_ * size_of(type), "the parameters in 16 bits");
    gpu_backend(device)->convert(master(), compute_.data(), type);
    view_.compute = compute_.data();
  }
  const std::span<const float> table = model.sinusoids();
  if (table.empty()) return;
  sinusoids_ = DeviceBuffer(DeviceKind::kGpu, table.size_bytes(), "positions");
  gpu.upload(sinusoids_.data(), table.data(), table.size_bytes());
  view_.sinusoids =
      f32_matrix(sinusoids_.as<float>(), model.options().max_length, model.options().width);
}

DeviceWeights::~DeviceWeights() = default;

void DeviceWeights::pack(const Device& device, const Transformer& model) {
  packed_ = std::make_unique<PackedParameters>(device, model, view_);
  view_.packed = packed_.get();
}

}  // namespace reigen
