// Columns of numbers over steps, in bounded memory for any length of run: a row combines some
// consecutive steps, and rows are merged in pairs whenever there are too many.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "observe/record/field_columns.h"

namespace reigen {

// Steps of a run; both ends included.
struct StepInterval {
  double first = 0;
  double last = std::numeric_limits<double>::infinity();
  double length() const { return last - first + 1; }
};

using Points = std::vector<std::pair<double, double>>;  // step and value

class RollupTable {
 public:
  // `columns` must outlive the table: columns_of<R>().
  RollupTable(std::span<const RollupColumn> columns, size_t max_rows);

  void add(uint64_t step, std::span<const double> values);  // one value per column

  uint64_t width() const { return width_; }  // steps per row
  // By number; row n holds steps n * width() to (n + 1) * width() - 1.
  const std::map<uint64_t, std::vector<double>>& rows() const { return rows_; }
  size_t column(std::string_view name) const;  // index; the column must exist
  // All rows combined; or those whose middle is in a range.
  double total(std::string_view name, const StepInterval& steps = {}) const;
  // For rows where `divisor` is above zero: the last step of the row and the quotient.
  Points ratio(std::string_view name, std::string_view divisor) const;
  double latest(std::string_view name, std::string_view divisor) const;  // of the last row
  Points values(std::string_view name) const;

  Json to_json() const;
  void load(const Json& json);  // throws DataError when the columns differ

 private:
  void combine(std::vector<double>& into, std::span<const double> values) const;
  void merge_pairs();
  double end_of(uint64_t row) const { return static_cast<double>((row + 1) * width_ - 1); }

  std::span<const RollupColumn> columns_;
  size_t max_rows_;
  uint64_t width_ = 1;
  std::map<uint64_t, std::vector<double>> rows_;
};

}  // namespace reigen
