// Ranges of rows of a cache that sentences take and give back while others are in use.
//
// First fit from the start: ranges of one search have similar sizes, so that few gaps are lost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace reigen {

class RowPool {
 public:
  explicit RowPool(int64_t rows = 0);

  // The first of `count` adjacent free rows; nothing where there are none.
  std::optional<int64_t> take(int64_t count);
  void give_back(int64_t first, int64_t count);

  int64_t rows() const { return rows_; }
  int64_t free_rows() const { return free_rows_; }
  int64_t largest_gap() const;                  // adjacent free rows
  int64_t highest() const { return highest_; }  // no row from here on was ever taken

 private:
  int64_t rows_;
  int64_t free_rows_;
  int64_t highest_ = 0;
  std::map<int64_t, int64_t> free_;  // first row to count; neighbours are joined
};

}  // namespace reigen
