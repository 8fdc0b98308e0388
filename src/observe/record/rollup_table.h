// Columns of numbers over steps, kept small however long the run: a row is the sum (or the largest)
// of what happened in some steps, and rows are joined in pairs whenever there are too many.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace reigen {

class RollupTable {
 public:
  // A column whose name ends with '^' keeps the largest value, the others the sum. The names must
  // outlive the table.
  RollupTable(std::span<const std::string_view> columns, size_t most_rows);

  void add(uint64_t step, std::span<const double> values);

  uint64_t width() const { return width_; }  // steps in a row
  // By number; row n holds steps n * width() to (n + 1) * width() - 1.
  const std::map<uint64_t, std::vector<double>>& rows() const { return rows_; }
  size_t column(std::string_view name) const;  // without '^'; must exist
  double total(std::string_view name) const;   // over all rows
  // For rows where `divisor` is above zero: the end of the row in steps and the quotient.
  std::vector<std::pair<double, double>> ratio(std::string_view name,
                                               std::string_view divisor) const;
  double latest(std::string_view name, std::string_view divisor) const;  // of the last row
  std::vector<std::pair<double, double>> values(std::string_view name) const;

  Json to_json() const;
  void load(const Json& json);  // throws DataError when it is of another shape

 private:
  void combine(std::vector<double>& into, std::span<const double> values) const;
  void join_pairs();
  double end_of(uint64_t row) const { return static_cast<double>((row + 1) * width_ - 1); }

  std::span<const std::string_view> columns_;
  size_t most_rows_;
  uint64_t width_ = 1;
  std::map<uint64_t, std::vector<double>> rows_;
};

}  // namespace reigen
