#include "optim/frozen.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= list.size() && !list.empty();) {
    const size_t end = std::min(list.find(',', at), list.size());
    parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

bool belongs(const ParameterSlice& slice, const std::string& part) {
  if (part == "embeddings") {
    const bool layer = slice.name.starts_with("encoder.") || slice.name.starts_with("decoder.");
    return !layer;
  }
  return slice.name == part || slice.name.starts_with(part + ".");
}

}  // namespace

Frozen::Frozen(const ParameterLayout& layout, const std::string& list) {
  const std::vector<std::string> parts = parts_of(list);
  for (const std::string& part : parts) {
    if (std::any_of(layout.slices().begin(), layout.slices().end(),
                    [&](const ParameterSlice& slice) { return belongs(slice, part); })) {
      continue;
    }
    throw ConfigError(
        format("--freeze {}: the model has no parameters of \"{}\"; parts are embeddings, encoder, "
               "decoder, a layer such as encoder.0, or a parameter such as {}",
               list, part, layout.slices().front().name));
  }
  size_t trained = layout.slices().size();
  for (size_t s = 0; s < layout.slices().size(); ++s) {
    const ParameterSlice& slice = layout.slices()[s];
    if (std::none_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return belongs(slice, part); })) {
      continue;
    }
    --trained;
    const bool last = s + 1 == layout.slices().size();
    const size_t end = last ? layout.elements() : layout.slices()[s + 1].offset;  // with the gap
    if (!ranges_.empty() && ranges_.back().end == slice.offset) {
      ranges_.back().end = end;
    } else {
      ranges_.push_back({slice.offset, end});
    }
  }
  if (trained == 0) {
    throw ConfigError(format("--freeze {} leaves no parameter to train; freeze fewer parts", list));
  }
}

void Frozen::visit(size_t begin, size_t end, const std::function<void(ElementRange)>& each) const {
  for (const ElementRange& range : ranges_) {
    const ElementRange inside = {std::max(range.begin, begin), std::min(range.end, end)};
    if (inside.begin < inside.end) each(inside);
  }
}

MuonPlan Frozen::without_frozen(const MuonPlan& plan) const {
  MuonPlan left;
  for (const MatrixRange& matrix : plan.matrices) {
    bool frozen = false;
    visit(matrix.offset, matrix.end(), [&](ElementRange) { frozen = true; });
    if (!frozen) left.matrices.push_back(matrix);
  }
  for (const ElementRange& range : plan.rest) {
    size_t at = range.begin;
    visit(range.begin, range.end, [&](ElementRange frozen) {
      if (frozen.begin > at) left.rest.push_back({at, frozen.begin});
      at = frozen.end;
    });
    if (range.end > at) left.rest.push_back({at, range.end});
  }
  return left;
}

}  // namespace reigen
