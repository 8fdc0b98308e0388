#include "tensor/parameters.h"

#include <stdexcept>

namespace reigen {

size_t ParameterLayout::add(std::string name, int64_t rows, int64_t cols) {
  slices_.push_back({std::move(name), rows, cols, elements_});
  size_t end = elements_ + slices_.back().size();
  elements_ = (end + kSliceAlignment - 1) / kSliceAlignment * kSliceAlignment;
  return slices_.size() - 1;
}

const ParameterSlice& ParameterLayout::find(const std::string& name) const {
  for (const auto& slice : slices_) {
    if (slice.name == name) return slice;
  }
  throw std::out_of_range("no parameter is called " + name);
}

size_t ParameterLayout::parameters() const {
  size_t sum = 0;
  for (const auto& slice : slices_) sum += slice.size();
  return sum;
}

void ParameterLayout::set_completion(double first, size_t last) {
  first_complete_ = first;
  last_complete_ = last;
}

size_t ParameterLayout::last_complete() const {
  return last_complete_.value_or(slices_.empty() ? 0 : slices_.back().offset);
}

Tensor slice_of(const ParameterLayout& layout, size_t index, float* buffer) {
  const ParameterSlice& slice = layout.slices()[index];
  return f32_matrix(buffer + slice.offset, slice.rows, slice.cols);
}

}  // namespace reigen
