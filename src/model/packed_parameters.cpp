#include "model/packed_parameters.h"

#include "model/quantized_parameters.h"
#include "model/transformer.h"

namespace reigen {

PackedParameters::PackedParameters(const Device& device, const Transformer& model,
                                   const Weights& weights) {
  const ParameterLayout& layout = model.layout();
  for (size_t s = 0; s < layout.slices().size(); ++s) {
    if (!model.is_factor(s)) {
      slices_.push_back(nullptr);
    } else if (weights.quantized != nullptr) {
      slices_.push_back(pack_int8(device, weights.quantized->matrix(s)));
      if (slices_.back()->is_copy()) weights.quantized->forget(s);
    } else {
      slices_.push_back(pack_weight(device, matrix_of(layout, s, weights)));
    }
  }
}

}  // namespace reigen
