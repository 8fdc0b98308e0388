#include "model/flops.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "device/buffer.h"
#include "device/gpu.h"
#include "ops/matmul.h"

namespace reigen {

TokenFlops token_flops(const ModelOptions& m, int64_t pieces) {
  const auto width = static_cast<double>(m.width);
  const auto ffn = 2 * width * static_cast<double>(m.ffn_width);
  const double square = width * width;
  const auto encoders = static_cast<double>(m.encoder_layers);
  const auto decoders = static_cast<double>(m.decoder_layers);
  // Multiplications with weights. Keys and values of cross-attention are made of source tokens.
  const double source = encoders * (4 * square + ffn) + decoders * 2 * square;
  const double target = decoders * (6 * square + ffn) + width * static_cast<double>(pieces);
  // A multiplication and an addition; once forward, and in backward once for each factor.
  constexpr double kEach = 2 * 3;
  return {kEach * source, kEach * target};
}

double measure_flops(const Device& device, DType type) {
  Gpu* gpu = device.gpu();
  const int64_t size = gpu != nullptr ? 8192 : 768;
  const size_t bytes = static_cast<size_t>(size * size) * size_of(type);
  DeviceBuffer memory[3];
  Tensor t[3];
  for (int i = 0; i < 3; ++i) {
    memory[i] = DeviceBuffer(device.kind(), bytes, "a product that measures the device");
    if (gpu != nullptr) {
      gpu->clear(memory[i].data(), bytes);
    } else {
      std::fill_n(memory[i].as<float>(), size * size, 0.5F);
    }
    t[i] = {memory[i].data(), type, size, size, size};
  }
  const double operations = 2 * std::pow(static_cast<double>(size), 3);
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    Stopwatch watch;
    matmul(device, t[0], Transpose::kNo, t[1], Transpose::kYes, t[2]);
    if (gpu != nullptr) gpu->wait();
    if (i > 0) best = std::max(best, operations / std::max(1e-9, watch.seconds()));
  }
  return best;
}

}  // namespace reigen
