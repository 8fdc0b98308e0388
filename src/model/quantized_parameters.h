// Parameters of a model whose matrices are int8 with a scale for each row; gains, shifts, biases
// and learned positions stay fp32.
//
// The scale of a row is its largest magnitude / 127. A model in this form is for inference only.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/packed_weight.h"
#include "tensor/parameters.h"
#include "tensor/safetensors.h"

namespace reigen {

// Whether a slice of a model is a matrix that becomes int8: a product's weight or an embedding
// table.
bool is_quantizable(const ParameterSlice& slice);

class QuantizedParameters {
 public:
  // Rounds fp32 parameters. The layout must outlive this object.
  QuantizedParameters(const ParameterLayout& layout, std::span<const float> parameters);
  // Reads a verified file, which stays mapped. Throws CheckpointError when a tensor is missing or
  // has a different type or shape.
  QuantizedParameters(const ParameterLayout& layout, const std::string& path);

  Int8Matrix matrix(size_t slice) const;  // empty for a slice that is fp32
  Tensor numbers(size_t slice) const;     // a slice that is fp32
  // The matrix is read rarely or not at all from now on: a file gives back its memory.
  void forget(size_t slice) const;

  // fp32 parameters again, in the model's layout.
  std::vector<float> expanded() const;

  // For a checkpoint: NAME and NAME.scale of each matrix, NAME of all others.
  std::vector<SafeTensorSource> tensors() const;

 private:
  struct Slice {
    std::vector<float> numbers;  // of a matrix its scales, else all values
    std::vector<int8_t> rounded;
    const int8_t* values = nullptr;  // of a matrix; in `rounded` or in the file
  };

  const ParameterLayout& layout_;
  std::unique_ptr<SafeTensorsFile> file_;
  std::vector<Slice> slices_;
};

}  // namespace reigen
