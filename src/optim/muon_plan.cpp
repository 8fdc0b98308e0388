#include "optim/muon_plan.h"

namespace reigen {

MuonPlan muon_plan(const ParameterLayout& layout, bool split) {
  MuonPlan plan;
  size_t done = 0;
  for (const ParameterSlice& slice : layout.slices()) {
    if (slice.matrices == 0) continue;
    if (slice.offset > done) plan.rest.push_back({done, slice.offset});
    const int64_t parts = split ? slice.matrices : 1;
    for (int64_t part = 0; part < parts; ++part) {
      const size_t size = slice.size() / static_cast<size_t>(parts);
      plan.matrices.push_back(
          {slice.offset + static_cast<size_t>(part) * size, slice.rows / parts, slice.cols});
    }
    done = slice.offset + slice.size();
  }
  if (layout.elements() > done) plan.rest.push_back({done, layout.elements()});
  return plan;
}

MuonPlan muon_plan(const ParameterLayout& layout, const OptimizerOptions& options) {
  if (options.kind == OptimizerKind::kMuon) return muon_plan(layout, options.muon_split);
  return {.rest = {{0, layout.elements()}}};
}

}  // namespace reigen
