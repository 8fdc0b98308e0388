// A batch as operations read it: places, numbers for dropout, and lists that are not copied on the
// CPU.
#include "ops/batch_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reigen {
namespace {

using ::testing::ElementsAre;

TEST(BatchIndex, CountsPlacesFromEachSentenceAndNumbersFromItsFirst) {
  const std::vector<uint32_t> source = {7, 8, 9, 7};
  const std::vector<uint32_t> offsets = {0, 3, 4};
  const std::vector<uint64_t> first = {100, 50};
  const std::vector<uint32_t> target = {1, 2};
  const std::vector<uint32_t> target_offsets = {0, 1, 2};
  const std::vector<uint64_t> target_first = {9, 4};
  const std::vector<uint32_t> wanted = {2, 3};
  const auto index =
      index_batch(Device::cpu(1),
                  {{source, offsets, first}, {target, target_offsets, target_first}, wanted}, {});
  EXPECT_EQ(index->source.rows, 4);
  EXPECT_THAT(index->source.places, ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(std::span(index->source.numbers, 4), ElementsAre(100, 101, 102, 50));
  EXPECT_EQ(index->source.ids.data(), source.data());
  EXPECT_THAT(index->target.places, ElementsAre(0, 0));
  EXPECT_THAT(std::span(index->target.numbers, 2), ElementsAre(9, 4));
  EXPECT_EQ(index->targets.data(), wanted.data());
}

TEST(BatchIndex, NeedsNoTargetToEncode) {
  const std::vector<uint32_t> source = {7, 8};
  const std::vector<uint32_t> offsets = {0, 2};
  const auto index = index_batch(Device::cpu(1), {.source = {source, offsets, {}}}, {});
  EXPECT_THAT(index->source.places, ElementsAre(0, 1));
  EXPECT_EQ(index->target.rows, 0);
}

TEST(StagedLists, AreTheListsThemselvesOnTheCpu) {
  const std::vector<uint32_t> a = {1, 2};
  const std::vector<uint32_t> b;
  const StagedLists lists(Device::cpu(1), {a, b});
  EXPECT_EQ(lists[0].data(), a.data());
  EXPECT_EQ(lists[0].size(), 2u);
  EXPECT_TRUE(lists[1].empty());
}

}  // namespace
}  // namespace reigen
