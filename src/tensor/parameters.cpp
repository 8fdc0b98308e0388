#include "tensor/parameters.h"

#include <stdexcept>

namespace reigen {

size_t ParameterLayout::add(std::string name, int64_t rows, int64_t cols, int64_t matrices) {
  slices_.push_back({std::move(name), rows, cols, elements_, matrices});
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

void ParameterLayout::set_gradient_timing(double first, size_t last) {
  first_final_at_ = first;
  last_final_from_ = last;
}

size_t ParameterLayout::last_final_from() const {
  return last_final_from_.value_or(slices_.empty() ? 0 : slices_.back().offset);
}

Tensor slice_of(const ParameterLayout& layout, size_t index, float* buffer) {
  const ParameterSlice& slice = layout.slices()[index];
  return f32_matrix(buffer + slice.offset, slice.rows, slice.cols);
}

}  // namespace reigen
