#include "data/prepare/corpus_weights.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/format.h"
#include "base/terminal.h"

namespace reigen {
namespace {

constexpr double kMostWeight = 1000;  // that a manifest may have

std::string group_of(const CorpusFacts& corpus) {
  return corpus.to.empty() ? "corpus " + corpus.name : "language " + corpus.to;
}

}  // namespace

void even_out(std::vector<CorpusFacts>& corpora, double temperature) {
  if (temperature == 1) return;
  std::map<std::string, double> sizes;
  for (const CorpusFacts& corpus : corpora) {
    sizes[group_of(corpus)] += corpus.weight * static_cast<double>(corpus.lines_kept);
  }
  double largest = 0;
  for (const auto& [group, size] : sizes) largest = std::max(largest, size);
  for (CorpusFacts& corpus : corpora) {
    const double size = sizes[group_of(corpus)];
    if (size == 0) continue;
    const double weight = corpus.weight * std::pow(largest / size, 1 - 1 / temperature);
    if (weight > kMostWeight) {
      log_warning(format("corpus {}: its weight by --temperature, {:.0f}, is limited to {}",
                         corpus.name, weight, kMostWeight));
    }
    corpus.weight = std::min(weight, kMostWeight);
  }
}

}  // namespace reigen
