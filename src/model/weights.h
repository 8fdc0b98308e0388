// A model's parameters in the device's memory, as a pass reads them.
//
// Matrices are read in the compute type, vectors (gains, shifts, biases) in fp32. On the CPU both
// are the fp32 master weights; on a GPU there is a 16-bit compute copy beside them.
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
  DType residual = DType::kF32;  // of the residual stream
  Tensor sinusoids;              // on a GPU; empty on the CPU, which reads the model's table
};

// Type of the residual stream for activations of type `type`.
DType residual_type(DType type, NormPlace norm);

// Parameters copied to a device. On the CPU they are not copied and must outlive this object.
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
