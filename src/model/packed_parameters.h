// The matrices of a model in the backend's own forms (ops/packed_weight.h), by number of their
// slice.
#pragma once

#include <memory>
#include <vector>

#include "model/weights.h"
#include "ops/packed_weight.h"

namespace reigen {

class PackedParameters {
 public:
  // The memory behind the weights must outlive this object.
  PackedParameters(const Device& device, const Transformer& model, const Weights& weights);

  // Null where the matrix itself is the best form.
  const PackedWeight* find(size_t slice) const { return slices_[slice].get(); }

 private:
  std::vector<std::unique_ptr<PackedWeight>> slices_;
};

}  // namespace reigen
