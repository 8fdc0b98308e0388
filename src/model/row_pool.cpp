#include "model/row_pool.h"

#include <algorithm>
#include <iterator>

namespace reigen {

RowPool::RowPool(int64_t rows) : rows_(rows), free_rows_(rows) {
  if (rows > 0) free_[0] = rows;
}

std::optional<int64_t> RowPool::take(int64_t count) {
  if (count > free_rows_) return std::nullopt;
  const auto found =
      std::find_if(free_.begin(), free_.end(), [&](const auto& f) { return f.second >= count; });
  if (found == free_.end()) return std::nullopt;
  const auto [first, room] = *found;
  free_.erase(found);
  if (room > count) free_[first + count] = room - count;
  free_rows_ -= count;
  highest_ = std::max(highest_, first + count);
  return first;
}

int64_t RowPool::largest_gap() const {
  int64_t largest = 0;
  for (const auto& [first, count] : free_) largest = std::max(largest, count);
  return largest;
}

void RowPool::give_back(int64_t first, int64_t count) {
  free_rows_ += count;
  auto after = free_.lower_bound(first);
  if (after != free_.end() && after->first == first + count) {
    count += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == first) {
      before->second += count;
      return;
    }
  }
  free_[first] = count;
}

}  // namespace reigen
