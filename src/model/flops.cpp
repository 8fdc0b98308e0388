#include "model/flops.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
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

ProductProbe::ProductProbe(const Device& device, DType type) : device_(device) {
  Gpu* gpu = device.gpu();
  const int64_t size = gpu != nullptr ? 8192 : 768;
  const size_t bytes = static_cast<size_t>(size * size) * size_of(type);
  for (int i = 0; i < 3; ++i) {
    memory_[i] = DeviceBuffer(device.kind(), bytes, "a product that measures the device");
    if (gpu != nullptr) {
      gpu->clear(memory_[i].data(), bytes);
    } else {
      std::fill_n(memory_[i].as<float>(), size * size, 0.5F);
    }
    operands_[i] = {memory_[i].data(), type, size, size, size};
  }
  operations_ = 2 * std::pow(static_cast<double>(size), 3);
  multiply();
}

void ProductProbe::multiply() {
  matmul(device_, operands_[0], Transpose::kNo, operands_[1], Transpose::kYes, operands_[2]);
  if (device_.gpu() != nullptr) device_.gpu()->wait();
}

double ProductProbe::run(double seconds) {
  const Stopwatch watch;
  double done = 0;
  do {
    multiply();
    done += operations_;
  } while (watch.seconds() < seconds);
  return done / std::max(1e-9, watch.seconds());
}

}  // namespace reigen
