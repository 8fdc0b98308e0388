// int8 parameters: any bytes of a file give matrices inside it that can be read to their ends, or a
// CheckpointError. The model has a matrix of [2, 3] and a vector of 3.
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "fuzz/memory_file.h"
#include "model/quantized_parameters.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reigen;
  static const ParameterLayout layout = [] {
    ParameterLayout small;
    small.add("w.weight", 2, 3, 1);
    small.add("w.bias", 1, 3);
    return small;
  }();
  try {
    const QuantizedParameters read(layout, memory_file(data, size));
    const Int8Matrix matrix = read.matrix(0);
    if (matrix.rows != 2 || matrix.cols != 3 || !read.matrix(1).empty()) std::abort();
    read.forget(0);
    const std::vector<float> expanded = read.expanded();
    if (expanded.size() != layout.elements()) std::abort();
    if (read.tensors().size() != 3) std::abort();
  } catch (const CheckpointError&) {
  }
  return 0;
}
