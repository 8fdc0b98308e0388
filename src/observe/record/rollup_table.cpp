#include "observe/record/rollup_table.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

bool keeps_largest(std::string_view column) { return column.ends_with('^'); }

}  // namespace

RollupTable::RollupTable(std::span<const std::string_view> columns, size_t most_rows)
    : columns_(columns), most_rows_(most_rows) {}

void RollupTable::combine(std::vector<double>& into, std::span<const double> values) const {
  for (size_t i = 0; i < into.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    into[i] = keeps_largest(columns_[i]) ? std::max(into[i], values[i]) : into[i] + values[i];
  }
}

void RollupTable::add(uint64_t step, std::span<const double> values) {
  auto [row, is_new] = rows_.try_emplace(step / width_, columns_.size(), 0.0);
  combine(row->second, values);
  while (is_new && rows_.size() > most_rows_) join_pairs();
}

void RollupTable::join_pairs() {
  std::map<uint64_t, std::vector<double>> joined;
  for (auto& [number, row] : rows_) {
    auto [into, is_new] = joined.try_emplace(number / 2, columns_.size(), 0.0);
    combine(into->second, row);
  }
  rows_ = std::move(joined);
  width_ *= 2;
}

size_t RollupTable::column(std::string_view name) const {
  for (size_t i = 0; i < columns_.size(); ++i) {
    std::string_view column = columns_[i];
    if (keeps_largest(column)) column.remove_suffix(1);
    if (column == name) return i;
  }
  throw Error(ExitCode::kInternal, format("no column {} in a table", name));
}

double RollupTable::total(std::string_view name) const {
  const size_t at = column(name);
  double sum = 0;
  for (const auto& [number, row] : rows_) {
    sum = keeps_largest(columns_[at]) ? std::max(sum, row[at]) : sum + row[at];
  }
  return sum;
}

std::vector<std::pair<double, double>> RollupTable::ratio(std::string_view name,
                                                          std::string_view divisor) const {
  const size_t above = column(name);
  const size_t below = column(divisor);
  std::vector<std::pair<double, double>> points;
  for (const auto& [number, row] : rows_) {
    if (row[below] > 0) points.emplace_back(end_of(number), row[above] / row[below]);
  }
  return points;
}

double RollupTable::latest(std::string_view name, std::string_view divisor) const {
  const auto points = ratio(name, divisor);
  return points.empty() ? 0 : points.back().second;
}

std::vector<std::pair<double, double>> RollupTable::values(std::string_view name) const {
  const size_t at = column(name);
  std::vector<std::pair<double, double>> points;
  for (const auto& [number, row] : rows_) points.emplace_back(end_of(number), row[at]);
  return points;
}

Json RollupTable::to_json() const {
  Json rows = Json::array();
  for (const auto& [number, row] : rows_) {
    Json line = {number};
    for (double value : row) {
      const bool is_whole = value == std::floor(value) && std::abs(value) < 1e15;
      line.push_back(is_whole ? Json(static_cast<int64_t>(value)) : Json(value));
    }
    rows.push_back(std::move(line));
  }
  return {{"width", width_}, {"rows", std::move(rows)}};
}

void RollupTable::load(const Json& json) {
  try {
    width_ = json.at("width").get<uint64_t>();
    rows_.clear();
    for (const Json& line : json.at("rows")) {
      if (line.size() != columns_.size() + 1) throw DataError("rolled up by another version");
      std::vector<double> row;
      for (size_t i = 1; i < line.size(); ++i) row.push_back(line[i].get<double>());
      rows_.emplace(line[0].get<uint64_t>(), std::move(row));
    }
  } catch (const Json::exception&) {
    throw DataError("not a rolled-up table");
  }
  if (width_ == 0) throw DataError("not a rolled-up table");
}

}  // namespace reigen
