// A rank's residual: the rounding errors of a step, which error feedback adds to the next gradient.
//
// Where a step may be done again (elastic training), it reads the residual of the last committed
// step and writes its own to a second buffer; the commit swaps them. Elsewhere both are one buffer.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace reigen {

class Residual {
 public:
  Residual(size_t elements, bool repeatable)
      : last_(elements), next_(repeatable ? elements : 0), repeatable_(repeatable) {}

  std::span<float> last() { return last_; }
  // Each step writes every element.
  std::span<float> next() { return repeatable_ ? next_ : last_; }
  void commit() {
    if (repeatable_) last_.swap(next_);
  }

 private:
  std::vector<float> last_;
  std::vector<float> next_;  // empty unless repeatable_
  bool repeatable_;
};

}  // namespace reigen
