// Ranges of rows: never taken twice, and joined again when their neighbours are free.
#include "model/row_pool.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/hash.h"

namespace reigen {
namespace {

TEST(RowPool, TakesTheFirstGapThatIsLargeEnough) {
  RowPool pool(10);
  EXPECT_EQ(pool.take(4), 0);
  EXPECT_EQ(pool.take(4), 4);
  EXPECT_EQ(pool.take(3), std::nullopt);
  EXPECT_EQ(pool.take(2), 8);
  EXPECT_EQ(pool.free_rows(), 0);
  EXPECT_EQ(pool.largest_gap(), 0);
  pool.give_back(4, 4);
  EXPECT_EQ(pool.take(5), std::nullopt);
  EXPECT_EQ(pool.take(3), 4);
}

TEST(RowPool, KnowsTheHighestRowItEverGave) {
  RowPool pool(10);
  EXPECT_EQ(pool.highest(), 0);
  pool.take(2);
  pool.take(3);
  EXPECT_EQ(pool.highest(), 5);
  pool.give_back(0, 5);
  pool.take(4);
  EXPECT_EQ(pool.highest(), 5);
}

TEST(RowPool, JoinsNeighbours) {
  RowPool pool(9);
  for (int64_t first : {0, 3, 6}) EXPECT_EQ(pool.take(3), first);
  pool.give_back(0, 3);
  pool.give_back(6, 3);
  EXPECT_EQ(pool.take(9), std::nullopt);
  EXPECT_EQ(pool.free_rows(), 6);
  EXPECT_EQ(pool.largest_gap(), 3);
  pool.give_back(3, 3);
  EXPECT_EQ(pool.largest_gap(), 9);
  EXPECT_EQ(pool.take(9), 0);
}

TEST(RowPool, NeverGivesARowTwice) {
  RowPool pool(500);
  std::vector<int> used(500);
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (uint64_t i = 0; i < 5000; ++i) {
    const auto count = static_cast<int64_t>(1 + mix64(i) % 40);
    if (const auto first = pool.take(count)) {
      for (int64_t r = *first; r < *first + count; ++r) {
        ASSERT_EQ(used[static_cast<size_t>(r)]++, 0);
      }
      taken.emplace_back(*first, count);
      continue;
    }
    const size_t at = mix64(i * 7) % taken.size();
    const auto [first, size] = taken[at];
    for (int64_t r = first; r < first + size; ++r) --used[static_cast<size_t>(r)];
    pool.give_back(first, size);
    taken.erase(taken.begin() + static_cast<ptrdiff_t>(at));
  }
  for (const auto& [first, count] : taken) pool.give_back(first, count);
  EXPECT_EQ(pool.take(500), 0);
}

}  // namespace
}  // namespace reigen
