#include "eval/corpus.h"

#include "base/error.h"
#include "base/format.h"

namespace reigen {

void for_each_sentence(
    const Lines& hypotheses, const std::vector<Lines>& references,
    const std::function<void(std::string_view, std::span<const std::string_view>)>& visit) {
  if (hypotheses.empty()) throw DataError("no hypotheses to score");
  if (references.empty()) throw DataError("no references to score against");
  for (const Lines& set : references) {
    if (set.size() != hypotheses.size()) {
      throw DataError(format("{} hypotheses but {} references; they must match line by line",
                             hypotheses.size(), set.size()));
    }
  }
  std::vector<std::string_view> of_one(references.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    for (size_t r = 0; r < references.size(); ++r) of_one[r] = references[r][i];
    visit(hypotheses[i], of_one);
  }
}

}  // namespace reigen
