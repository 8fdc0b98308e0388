#include "observe/record/rollup_table.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "base/json/json_view.h"

namespace reigen {
namespace {

constexpr uint64_t kMostWidth = uint64_t{1} << 48;  // steps

}  // namespace

RollupTable::RollupTable(std::span<const RollupColumn> columns, size_t max_rows)
    : columns_(columns), max_rows_(max_rows) {}

void RollupTable::combine(std::vector<double>& into, std::span<const double> values) const {
  for (size_t i = 0; i < into.size(); ++i) {
    if (std::isfinite(values[i])) combine_value(into[i], values[i], columns_[i].combine);
  }
}

void RollupTable::add(uint64_t step, std::span<const double> values) {
  auto [row, is_new] = rows_.try_emplace(step / width_, columns_.size(), 0.0);
  combine(row->second, values);
  while (is_new && rows_.size() > max_rows_) merge_pairs();
}

void RollupTable::merge_pairs() {
  std::map<uint64_t, std::vector<double>> merged;
  for (auto& [number, row] : rows_) {
    auto [into, is_new] = merged.try_emplace(number / 2, columns_.size(), 0.0);
    combine(into->second, row);
  }
  rows_ = std::move(merged);
  width_ *= 2;
}

size_t RollupTable::column(std::string_view name) const {
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].name == name) return i;
  }
  throw Error(ExitCode::kInternal, format("no column {} in a rollup table", name));
}

double RollupTable::total(std::string_view name, const StepInterval& steps) const {
  const size_t at = column(name);
  double total = 0;
  for (const auto& [number, row] : rows_) {
    const double middle = end_of(number) - static_cast<double>(width_ - 1) / 2;
    if (middle < steps.first || middle > steps.last) continue;
    combine_value(total, row[at], columns_[at].combine);
  }
  return total;
}

Points RollupTable::ratio(std::string_view name, std::string_view divisor) const {
  const size_t above = column(name);
  const size_t below = column(divisor);
  Points points;
  for (const auto& [number, row] : rows_) {
    if (row[below] > 0) points.emplace_back(end_of(number), row[above] / row[below]);
  }
  return points;
}

double RollupTable::latest(std::string_view name, std::string_view divisor) const {
  const auto points = ratio(name, divisor);
  return points.empty() ? 0 : points.back().second;
}

Points RollupTable::values(std::string_view name) const {
  const size_t at = column(name);
  Points points;
  for (const auto& [number, row] : rows_) points.emplace_back(end_of(number), row[at]);
  return points;
}

Json RollupTable::to_json() const {
  Json names = Json::array();
  for (const RollupColumn& column : columns_) names.push_back(column.name);
  Json rows = Json::array();
  for (const auto& [number, row] : rows_) {
    Json line = {number};
    for (double value : row) {
      const bool is_whole = value == std::floor(value) && std::abs(value) < 1e15;
      line.push_back(is_whole ? Json(static_cast<int64_t>(value)) : Json(value));
    }
    rows.push_back(std::move(line));
  }
  return {{"width", width_}, {"columns", std::move(names)}, {"rows", std::move(rows)}};
}

void RollupTable::load(const Json& json) {
  try {
    const Json& names = json.at("columns");
    const bool same = std::equal(
        names.begin(), names.end(), columns_.begin(), columns_.end(),
        [](const Json& name, const RollupColumn& column) { return name == column.name; });
    if (!same) throw DataError("rollup table of a different version");
    width_ = JsonView(json).at("width");
    rows_.clear();
    for (const Json& line : json.at("rows")) {
      if (line.size() != columns_.size() + 1) throw DataError("damaged rollup table");
      std::vector<double> row;
      for (size_t i = 1; i < line.size(); ++i) row.push_back(line[i].get<double>());
      rows_.emplace(JsonView(line).at(0), std::move(row));
    }
  } catch (const Json::exception&) {
    throw DataError("damaged rollup table");
  }
  // merge_pairs doubles the width, which must not become 0.
  if (!std::has_single_bit(width_) || width_ > kMostWidth || rows_.size() > max_rows_) {
    throw DataError("damaged rollup table");
  }
}

}  // namespace reigen
