// The values of slots and their splits; generator_test.cpp tests the sentences.
#include "corpus/values.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <set>
#include <stdexcept>

namespace reigen {
namespace {

const FrameSlot& slot_tagged(std::string_view tag) {
  for (const FrameSlot& slot : frame_slots()) {
    if (slot.tag == tag) return slot;
  }
  throw std::logic_error("no such slot");
}

bool is_held_out(const SlotValues& values, uint32_t n) {
  return values.split_of(SlotKind::kDigits, n) != CorpusSplit::kTrain;
}

TEST(CorpusRandom, IsTheSameOnEveryMachine) {
  CorpusRandom random(42);
  EXPECT_EQ(random.next(), 0x28efe333b266f103ull);  // splitmix64 seeded with 42, second output
  EXPECT_EQ(random.next(), 0x47526757130f9f52ull);
}

TEST(CorpusRandom, ReachesBothEndsOfARangeAndNothingElse) {
  CorpusRandom random(1);
  std::set<uint32_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.between(3, 7));
  EXPECT_EQ(seen, (std::set<uint32_t>{3, 4, 5, 6, 7}));
}

TEST(SlotValues, AtomicValuesAreNeverHeldOut) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const SlotValues values(seed);
    for (uint32_t n = 0; n <= 20; ++n) {
      EXPECT_FALSE(is_held_out(values, n)) << n;
      EXPECT_FALSE(is_held_out(values, n * 1000)) << n;
    }
    for (uint32_t unit : {10, 100, 1000, 10000, 100000}) {
      for (uint32_t n = 1; n < 10; ++n) EXPECT_FALSE(is_held_out(values, n * unit)) << n * unit;
    }
    for (uint32_t minute = 0; minute < 1440; minute += 15) {
      EXPECT_EQ(values.split_of(SlotKind::kTime, minute), CorpusSplit::kTrain);
    }
  }
}

TEST(SlotValues, HoldsOutAboutATenthForTestAndATwentiethForValid) {
  std::array<double, 3> count = {};
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const SlotValues values(seed);
    for (uint32_t minute = 0; minute < 1440; ++minute) {
      if (minute % 15 == 0) continue;
      count[static_cast<size_t>(values.split_of(SlotKind::kTime, minute))] += 1.0 / (50 * 1344);
    }
  }
  EXPECT_NEAR(count[static_cast<size_t>(CorpusSplit::kTest)], 0.10, 0.01);
  EXPECT_NEAR(count[static_cast<size_t>(CorpusSplit::kValid)], 0.05, 0.01);
}

TEST(SlotValues, ANumberIsHeldOutInEveryNotation) {
  const SlotValues values(1);
  for (uint32_t n = 0; n < 5000; ++n) {
    const CorpusSplit split = values.split_of(SlotKind::kSpelled, n);
    for (const SlotKind kind : {SlotKind::kOrdinal, SlotKind::kRank, SlotKind::kDigits}) {
      EXPECT_EQ(values.split_of(kind, n), split) << n;
    }
    EXPECT_EQ(values.split_of(SlotKind::kDecimal, n * 10), split) << n << ".0";
    EXPECT_EQ(values.split_of(SlotKind::kPercent, n * 10), split) << n << "%";
    EXPECT_EQ(values.split_of(SlotKind::kPrice, n * 100 * kPriceCurrencies), split) << n << ".00";
  }
}

TEST(SlotValues, ALargeNumberWithAHeldOutPartIsHeldOut) {
  const SlotValues values(1);
  uint32_t checked = 0;
  for (uint32_t n = 101; n < 1000000; n += 7) {
    if (!is_held_out(values, n / 1000) && !is_held_out(values, n % 1000) &&
        !is_held_out(values, n % 100)) {
      continue;
    }
    EXPECT_TRUE(is_held_out(values, n)) << n;
    ++checked;
  }
  EXPECT_GT(checked, 10000u);
}

TEST(SlotValues, ADateOnAHeldOutDayIsHeldOut) {
  const SlotValues values(1);
  uint32_t checked = 0;
  for (uint32_t day = 1; day <= 28; ++day) {
    for (uint32_t month = 1; month <= 12; ++month) {
      const uint32_t value = month * 100 + day;
      if (values.split_of(SlotKind::kDay, value) == CorpusSplit::kTrain) continue;
      EXPECT_NE(values.split_of(SlotKind::kDate, 19870000 + value), CorpusSplit::kTrain);
      ++checked;
    }
  }
  EXPECT_GT(checked, 20u);
}

TEST(SlotValues, AnAmountIsHeldOutInEveryCurrency) {
  const SlotValues values(1);
  for (uint32_t cents = 150; cents < 5000; ++cents) {
    const CorpusSplit split = values.split_of(SlotKind::kPrice, cents * kPriceCurrencies);
    for (uint32_t currency = 1; currency < kPriceCurrencies; ++currency) {
      EXPECT_EQ(values.split_of(SlotKind::kPrice, cents * kPriceCurrencies + currency), split);
    }
  }
}

TEST(SlotValues, ADifferentSeedHoldsOutDifferentValues) {
  const SlotValues one(1);
  const SlotValues two(2);
  int differ = 0;
  for (uint32_t n = 101; n < 1000; ++n) differ += is_held_out(one, n) != is_held_out(two, n);
  EXPECT_GT(differ, 100);
}

TEST(SlotValues, EverySlotHasValuesForEverySplit) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const SlotValues values(seed);
    CorpusRandom random(seed);
    for (const FrameSlot& slot : frame_slots()) {
      for (const CorpusSplit split :
           {CorpusSplit::kTrain, CorpusSplit::kValid, CorpusSplit::kTest}) {
        EXPECT_NO_THROW(values.draw(slot, split, random)) << slot.tag;
      }
    }
  }
}

TEST(SlotValues, CountedNumbersAreAtLeastTwoAndNeverEndInOne) {
  const SlotValues values(1);
  CorpusRandom random(1);
  for (const std::string_view tag : {"count", "many"}) {
    for (int i = 0; i < 20000; ++i) {
      const uint32_t n = values.draw(slot_tagged(tag), CorpusSplit::kTrain, random);
      EXPECT_GE(n, 2u);
      EXPECT_NE(n % 100, 1u);
    }
  }
}

TEST(SlotValues, ADateExistsInTheCalendar) {
  const SlotValues values(1);
  CorpusRandom random(1);
  for (int i = 0; i < 20000; ++i) {
    const uint32_t date = values.draw(slot_tagged("past"), CorpusSplit::kTrain, random);
    const std::chrono::year_month_day day(std::chrono::year(static_cast<int>(date / 10000)),
                                          std::chrono::month(date / 100 % 100),
                                          std::chrono::day(date % 100));
    EXPECT_TRUE(day.ok()) << date;
  }
}

}  // namespace
}  // namespace reigen
