#include "config/suggest.h"

#include <algorithm>

namespace reigen {
namespace {

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t change = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, change});
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest(const std::string& typed,
                                   const std::vector<std::string>& known) {
  if (typed.size() > 200) return std::nullopt;
  std::optional<std::string> best;
  // A third of the letters may differ, but at least two: `--outptu`, `vocab_size`.
  size_t limit = std::max<size_t>(2, typed.size() / 3) + 1;
  for (const auto& name : known) {
    size_t distance = edit_distance(typed, name);
    if (distance < limit) {
      limit = distance;
      best = name;
    }
  }
  return best;
}

}  // namespace reigen
