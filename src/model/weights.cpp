#include "model/weights.h"

#include "model/transformer.h"
#include "ops/gpu_backend.h"

namespace reigen {

// A 16-bit residual stream loses small branches once it has grown. bf16 with a residual of the
// same type trains as well as fp32 does (docs/design/cuda.md); fp16 can overflow there.
DType residual_type(DType type, NormPlace norm) {
  if (type == DType::kF16 && norm == NormPlace::kPre) return DType::kF32;
  return type;
}

DeviceWeights::DeviceWeights(const Device& device, const Transformer& model,
                             std::span<float> parameters, DType type)
    : elements_(parameters.size()), view_(parameters) {
  Gpu* gpu = device.gpu();
  if (gpu == nullptr) return;
  const size_t bytes = elements_ * sizeof(float);
  master_ = DeviceBuffer(DeviceKind::kGpu, bytes, "the parameters");
  gpu->upload(master_.data(), parameters.data(), bytes);
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
  gpu->upload(sinusoids_.data(), table.data(), table.size_bytes());
  view_.sinusoids =
      f32_matrix(sinusoids_.as<float>(), model.options().max_length, model.options().width);
}

}  // namespace reigen
