// A model's parameters as a pass reads them, in the device's memory.
//
// Matrices are read in the type products take, vectors (gains, shifts, biases) in fp32. On the CPU
// both are the fp32 buffer itself; on a GPU a 16-bit copy of it stands beside.
#pragma once

#include <span>
#include <vector>

#include "config/model_options.h"
#include "device/buffer.h"
#include "tensor/tensor.h"

namespace reigen {

class Transformer;

struct Weights {
  Weights() = default;
  Weights(std::span<float> host) : master(host.data()), compute(host.data()) {}
  Weights(std::vector<float>& host) : Weights(std::span<float>(host)) {}

  float* master = nullptr;
  void* compute = nullptr;
  DType type = DType::kF32;      // of the compute copy and of activations
  DType residual = DType::kF32;  // of the sum that sublayers add to
  Tensor sinusoids;              // on a GPU; empty where the model's own can be read
};

// Of the residual, for activations of this type.
DType residual_type(DType type, NormPlace norm);

// Parameters brought to a device. On the CPU they stay where they are and must outlive this.
class DeviceWeights {
 public:
  // `type` is that of the compute copy, fp32 on the CPU.
  DeviceWeights(const Device& device, const Transformer& model, std::span<float> parameters,
                DType type);

  const Weights& view() const { return view_; }
  std::span<float> master() const { return {view_.master, elements_}; }

 private:
  size_t elements_;
  DeviceBuffer master_;
  DeviceBuffer compute_;
  DeviceBuffer sinusoids_;
  Weights view_;
};

}  // namespace reigen
