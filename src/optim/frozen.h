// Frozen parameters (--freeze): they have no gradient and no update, so they keep their bits.
//
// A part is `embeddings` (all embedding tables, learned positions and, where it is not tied, the
// projection), or the begin of parameter names: `encoder`, `decoder.0`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/muon.h"
#include "tensor/parameters.h"

namespace reigen {

class Frozen {
 public:
  // `parts` are separated by commas; empty: nothing is frozen. Throws ConfigError for a part
  // without parameters, and where none would be left to train.
  Frozen(const ParameterLayout& layout, const std::string& parts);

  bool empty() const { return ranges_.empty(); }
  const std::vector<ElementRange>& ranges() const { return ranges_; }  // by rising offset
  // Calls `each` with the frozen elements in [begin, end).
  void visit(size_t begin, size_t end, const std::function<void(ElementRange)>& each) const;
  // The plan without frozen matrices and elements.
  MuonPlan without_frozen(const MuonPlan& plan) const;

 private:
  std::vector<ElementRange> ranges_;
};

}  // namespace reigen
