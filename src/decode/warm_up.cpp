#include "decode/warm_up.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/terminal.h"
#include "device/buffer.h"
#include "device/gpu.h"

namespace reigen {
namespace {

constexpr size_t kWarmUpTokens = 24;  // of the source; as many rows as most sentences have

void search_with_zeros(const OpenedDevice& opened, const ModelOptions& model, size_t pieces,
                       SpecialIds special, const DecodeOptions& options) {
  Gpu* gpu = opened.device.gpu();
  ModelOptions one_layer = model;
  one_layer.encoder_layers = one_layer.decoder_layers = 1;
  Transformer zeros(one_layer, DropoutOptions{}, pieces);
  auto cleared = [&](size_t bytes) {
    DeviceBuffer buffer(DeviceKind::kGpu, bytes, "the first search");
    if (bytes > 0) gpu->clear(buffer.data(), bytes);
    return buffer;
  };
  const size_t elements = zeros.layout().elements();
  const DeviceBuffer master = cleared(elements * sizeof(float));
  const DeviceBuffer compute = cleared(elements * size_of(opened.type));
  const DeviceBuffer sinusoids = cleared(zeros.sinusoids().size_bytes());
  Weights weights;
  weights.master = master.as<float>();
  weights.compute = compute.data();
  weights.type = opened.type;
  weights.residual = residual_type(opened.type, model.norm);
  if (!zeros.sinusoids().empty()) {
    weights.sinusoids = f32_matrix(sinusoids.as<float>(), model.max_length, model.width);
  }
  const size_t tokens = std::min(kWarmUpTokens, static_cast<size_t>(model.max_length));
  DecodeOptions few_steps = options;
  few_steps.max_ratio = 0.1;
  beam_search(opened.device, zeros, weights, {std::vector<uint32_t>(tokens, special.eos)}, special,
              few_steps);
}

}  // namespace

void warm_up(const OpenedDevice& opened, const ModelOptions& model, size_t pieces,
             SpecialIds special, const DecodeOptions& options) {
  if (opened.device.gpu() == nullptr) return;
  check_model_for(opened.device, model);
  try {
    search_with_zeros(opened, model, pieces, special, options);
  } catch (const DeviceError& e) {
    log_warning(format("the GPU could not be prepared while the model was read: {}", e.what()));
  }
}

}  // namespace reigen
