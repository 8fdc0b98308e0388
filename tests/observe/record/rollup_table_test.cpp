// Rollup tables: rows that merge, columns that combine in different ways, saving and loading.
#include "observe/record/rollup_table.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/error.h"

namespace reigen {
namespace {

constexpr std::array kColumns = {
    RollupColumn{"sum", Combine::kSum}, RollupColumn{"max", Combine::kMax},
    RollupColumn{"last", Combine::kLast}, RollupColumn{"count", Combine::kSum}};

RollupTable filled(uint64_t steps) {
  RollupTable table(kColumns, 4);
  for (uint64_t step = 0; step < steps; ++step) {
    const double x = static_cast<double>(step);
    table.add(step, std::array{x, 100 - x, x, 1.0});
  }
  return table;
}

using Points = std::vector<std::pair<double, double>>;

TEST(RollupTable, MergesRowsInPairsWhenThereAreTooMany) {
  const RollupTable few = filled(4);
  EXPECT_EQ(few.width(), 1u);
  EXPECT_EQ(few.rows().size(), 4u);
  const RollupTable many = filled(16);
  EXPECT_EQ(many.width(), 4u);
  EXPECT_EQ(many.rows().size(), 4u);
  EXPECT_EQ(many.values("sum"), (Points{{3, 6}, {7, 22}, {11, 38}, {15, 54}}));
  EXPECT_EQ(many.values("max"), (Points{{3, 100}, {7, 96}, {11, 92}, {15, 88}}));
  EXPECT_EQ(many.values("last"), (Points{{3, 3}, {7, 7}, {11, 11}, {15, 15}}));
}

TEST(RollupTable, TotalsDoNotDependOnMerging) {
  for (uint64_t steps : {1, 4, 5, 16, 100}) {
    const RollupTable table = filled(steps);
    const double n = static_cast<double>(steps);
    EXPECT_EQ(table.total("sum"), n * (n - 1) / 2) << steps;
    EXPECT_EQ(table.total("max"), 100) << steps;
    EXPECT_EQ(table.total("last"), n - 1) << steps;
    EXPECT_EQ(table.total("count"), n) << steps;
  }
}

TEST(RollupTable, DividesColumns) {
  EXPECT_EQ(filled(16).ratio("sum", "count"), (Points{{3, 1.5}, {7, 5.5}, {11, 9.5}, {15, 13.5}}));
  EXPECT_EQ(filled(16).latest("sum", "count"), 13.5);
  EXPECT_EQ(filled(0).latest("sum", "count"), 0);
}

TEST(RollupTable, LeavesOutNumbersThatAreNotFinite) {
  RollupTable table = filled(2);
  table.add(1, std::array<double, 4>{NAN, INFINITY, NAN, 1});
  EXPECT_EQ(table.total("sum"), 1);
  EXPECT_EQ(table.total("max"), 100);
  EXPECT_EQ(table.total("last"), 1);
  EXPECT_EQ(table.total("count"), 3);
}

TEST(RollupTable, LoadsOnlyTheColumnsItHas) {
  const Json saved = filled(16).to_json();
  RollupTable loaded(kColumns, 4);
  loaded.load(saved);
  EXPECT_EQ(loaded.to_json(), saved);
  for (const char* name : {"width", "columns", "rows"}) {
    Json damaged = saved;
    damaged.erase(name);
    EXPECT_THROW(RollupTable(kColumns, 4).load(damaged), DataError) << name;
  }
  Json other = saved;
  other["columns"][1] = "mean";
  EXPECT_THROW(RollupTable(kColumns, 4).load(other), DataError);
  other = saved;
  other["rows"][0].push_back(1);
  EXPECT_THROW(RollupTable(kColumns, 4).load(other), DataError);
}

// Steps are divided by the width, which doubles when rows are merged: it must never become 0.
TEST(RollupTable, RefusesAWidthThatWouldOverflowAndMoreRowsThanItHas) {
  for (const Json& width : std::vector<Json>{0, 3, -1, 1e300, uint64_t{1} << 63, "4", nullptr}) {
    Json damaged = filled(16).to_json();
    damaged["width"] = width;
    EXPECT_THROW(RollupTable(kColumns, 4).load(damaged), DataError) << width;
  }
  EXPECT_THROW(RollupTable(kColumns, 3).load(filled(16).to_json()), DataError);
}

}  // namespace
}  // namespace reigen
