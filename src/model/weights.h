// A model's parameters in the device's memory, as a pass reads them.
//
// Matrices are read in the compute type, vectors (gains, shifts, biases) in fp32. On the CPU both
// are the fp32 master weights; on a GPU there is a 16-bit compute copy beside them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "config/model_options.h"
#include "device/buffer.h"
#include "tensor/parameters.h"
#include "tensor/tensor.h"

namespace reigen {

class PackedParameters;
class QuantizedParameters;
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
  const PackedParameters* packed = nullptr;        // of a model that is loaded for inference
  const QuantizedParameters* quantized = nullptr;  // instead of `master` and `compute`
};

// A matrix of a model's parameters, in the compute type; without data where it is in int8.
Tensor matrix_of(const ParameterLayout& layout, size_t slice, const Weights& weights);
// Gains, shifts, biases and positions, in fp32.
Tensor vector_of(const ParameterLayout& layout, size_t slice, const Weights& weights);

// Type of the residual stream for activations of type `type`.
DType residual_type(DType type, NormPlace norm);

// Parameters copied to a device. On the CPU they are not copied and must outlive this object.
class DeviceWeights {
 public:
  // `type` is that of the compute copy, fp32 on the CPU.
  DeviceWeights(const Device& device, const Transformer& model, std::span<float> parameters,
                DType type);

  // A GPU gets the expanded parameters; on the CPU `parameters` must outlive this object.
  DeviceWeights(const Device& device, const Transformer& model,
                const QuantizedParameters& parameters, DType type);
  ~DeviceWeights();

  // For inference: parameters that do not change any more, in the forms that products read fastest.
  void pack(const Device& device, const Transformer& model);

  const Weights& view() const { return view_; }
  std::span<float> master() const { return {view_.master, elements_}; }

 private:
  void upload(Gpu& gpu, const Device& device, const Transformer& model,
              std::span<const float> parameters, DType type);

  size_t elements_;
  DeviceBuffer master_;
  DeviceBuffer compute_;
  DeviceBuffer sinusoids_;
  std::unique_ptr<PackedParameters> packed_;
  Weights view_;
};

}  // namespace reigen
