// Each slot's range is wide enough to keep hundreds of values for valid and for test, and narrow
// enough to sound like something people would write.
#include "corpus/demo_values.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"

namespace reigen {
namespace {

constexpr uint32_t kTestPercent = 10;
constexpr uint32_t kValidPercent = 5;

// A slot has hundreds of composite values or more, so a split without any is a matter of one seed
// in twenty million (0.95^333); the limit turns that seed into an error instead of a hang.
constexpr int kMaxDraws = 100000;

// What the hash is taken over, so that 347 in words, in digits and as an ordinal is one value.
enum Domain : uint32_t { kNumber = 1, kMoney, kTenths, kDayOfYear, kFullDate, kTimeOfDay };

// Longer numbers are likelier, in proportion to the square of their length: most sentences then
// hold a number worth learning, and the small ones that every number is made of stay frequent.
uint32_t draw_number(uint32_t low, uint32_t high, DemoRandom& random) {
  struct Span {
    uint32_t low, high, weight;
  };
  std::array<Span, 7> spans = {};
  uint32_t count = 0;
  uint32_t total = 0;
  for (uint32_t length = 1, first = 1; length <= 7; ++length, first *= 10) {
    const uint32_t from = std::max(low, first);
    const uint32_t to = std::min(high, first * 10 - 1);
    if (from > to) continue;
    spans[count++] = {from, to, length * length};
    total += length * length;
  }
  uint32_t ticket = random.below(total);
  uint32_t i = 0;
  while (ticket >= spans[i].weight) ticket -= spans[i++].weight;
  return random.between(spans[i].low, spans[i].high);
}

// A counted number in words must not end in "one": "einhunderteins Bücher" is no German.
uint32_t draw_countable(uint32_t low, uint32_t high, DemoRandom& random) {
  for (;;) {
    const uint32_t n = draw_number(low, high, random);
    if (n % 100 != 1) return n;
  }
}

uint32_t draw_day(uint32_t year, DemoRandom& random) {
  const uint32_t month = random.between(1, 12);
  const auto last =
      std::chrono::year_month_day_last(std::chrono::year(static_cast<int>(year)),
                                       std::chrono::month_day_last(std::chrono::month(month)));
  return month * 100 + random.between(1, static_cast<unsigned>(last.day()));
}

uint32_t draw_date(const DemoSlot& slot, DemoRandom& random) {
  const uint32_t year = random.between(slot.low, slot.high);
  return year * 10000 + draw_day(year, random);
}

// Two thirds end in 0 or 5, as prices like to.
uint32_t draw_price(const DemoSlot& slot, DemoRandom& random) {
  uint32_t cents = draw_number(slot.low, slot.high, random);
  const uint32_t style = random.below(3);
  if (style == 0) cents -= cents % 10;
  if (style == 1) cents -= cents % 5;
  return cents * kDemoCurrencies + random.below(kDemoCurrencies);
}

uint32_t draw_any(const DemoSlot& slot, DemoRandom& random) {
  switch (slot.kind) {
    case DemoKind::kWord:
      return random.below(static_cast<uint32_t>(slot.words.size()));
    case DemoKind::kWeekday:
    case DemoKind::kMonth:
    case DemoKind::kYear:
    case DemoKind::kPlatform:
    case DemoKind::kClock:
    case DemoKind::kTime:
      return random.between(slot.low, slot.high);
    case DemoKind::kSpelled:
      return draw_countable(slot.low, slot.high, random);
    case DemoKind::kOrdinal:
    case DemoKind::kRank:
    case DemoKind::kDigits:
    case DemoKind::kDecimal:
    case DemoKind::kPercent:
      return draw_number(slot.low, slot.high, random);
    case DemoKind::kPrice:
      return draw_price(slot, random);
    case DemoKind::kDay:
      return draw_day(slot.low, random);
    case DemoKind::kDate:
    case DemoKind::kWeekdayDate:
    case DemoKind::kShortDate:
      return draw_date(slot, random);
  }
  throw std::logic_error("a demo slot of no known kind");
}

// Closed lists that are learned by heart; they may stand anywhere.
bool may_stand_anywhere(DemoKind kind) {
  switch (kind) {
    case DemoKind::kWord:
    case DemoKind::kWeekday:
    case DemoKind::kMonth:
    case DemoKind::kYear:
    case DemoKind::kPlatform:
    case DemoKind::kClock:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::span<const DemoSlot> demo_slots() {
  static const DemoSlot kSlots[] = {
      {"name", DemoKind::kWord, 0, 0, demo_names()},
      {"name2", DemoKind::kWord, 0, 0, demo_names()},
      {"city", DemoKind::kWord, 0, 0, demo_cities()},
      {"city2", DemoKind::kWord, 0, 0, demo_cities()},
      {"things", DemoKind::kWord, 0, 0, demo_things()},
      {"people", DemoKind::kWord, 0, 0, demo_people()},
      {"item", DemoKind::kWord, 0, 0, demo_items()},
      {"currency", DemoKind::kWord, 0, 0, demo_currencies()},
      {"weekday", DemoKind::kWeekday, 0, 6},
      {"month", DemoKind::kMonth, 0, 11},
      {"year", DemoKind::kYear, 1900, 2024},
      {"platform", DemoKind::kPlatform, 1, 20},
      {"clock", DemoKind::kClock, 0, 47},
      {"count", DemoKind::kSpelled, 2, 999},
      {"many", DemoKind::kSpelled, 1000, 999999},
      {"seats", DemoKind::kSpelled, 1000, 99999},
      {"ordinal", DemoKind::kOrdinal, 1, 999},
      {"rank", DemoKind::kRank, 1, 999},
      {"room", DemoKind::kDigits, 101, 999},
      {"sum", DemoKind::kDigits, 100, 99999},
      {"figure", DemoKind::kDigits, 10000, 999999},
      {"price", DemoKind::kPrice, 150, 99999},
      {"fare", DemoKind::kPrice, 150, 9999},
      {"cost", DemoKind::kPrice, 2000, 99999},
      {"decimal", DemoKind::kDecimal, 20, 999},
      {"degrees", DemoKind::kDecimal, 20, 389},
      {"percent", DemoKind::kPercent, 11, 399},
      {"day", DemoKind::kDay, 2024},  // a leap year, so that February 29 exists
      {"past", DemoKind::kDate, 1900, 2024},
      {"since", DemoKind::kDate, 1960, 2024},
      {"future", DemoKind::kDate, 2026, 2059},
      {"weekday_date", DemoKind::kWeekdayDate, 2026, 2049},
      {"short_date", DemoKind::kShortDate, 1990, 2029},
      {"time", DemoKind::kTime, 0, 24 * 60 - 1},
      {"daytime", DemoKind::kTime, 7 * 60, 22 * 60 + 59},
      {"daytime2", DemoKind::kTime, 7 * 60, 22 * 60 + 59},
  };
  return kSlots;
}

uint64_t DemoRandom::next() {
  state_ += 0x9E3779B97F4A7C15ull;  // splitmix64's step: the golden ratio in 64 bits
  return mix64(state_);
}

uint32_t DemoRandom::below(uint32_t n) { return static_cast<uint32_t>(((next() >> 32) * n) >> 32); }

uint32_t DemoRandom::between(uint32_t low, uint32_t high) { return low + below(high - low + 1); }

uint32_t DemoValues::draw(const DemoSlot& slot, DemoSplit split, DemoRandom& random) const {
  for (int i = 0; i < kMaxDraws; ++i) {
    const uint32_t value = draw_any(slot, random);
    if (may_stand_anywhere(slot.kind) || split_of(slot.kind, value) == split) return value;
  }
  throw DataError(
      format("with seed {} no value of the demo corpus's slot '{}' falls in one of its "
             "splits; choose another seed",
             seed_, slot.tag));
}

DemoSplit DemoValues::split_of(DemoKind kind, uint32_t value) const {
  switch (kind) {
    case DemoKind::kSpelled:
    case DemoKind::kOrdinal:
    case DemoKind::kRank:
    case DemoKind::kDigits:
      return number_split(value);
    case DemoKind::kPrice: {
      const uint32_t cents = value / kDemoCurrencies;
      return cents % 100 == 0 ? number_split(cents / 100) : hashed_split(kMoney, cents);
    }
    case DemoKind::kDecimal:
    case DemoKind::kPercent:
      return value % 10 == 0 ? number_split(value / 10) : hashed_split(kTenths, value);
    case DemoKind::kDay:
      return hashed_split(kDayOfYear, value);
    case DemoKind::kDate:
    case DemoKind::kWeekdayDate:
    case DemoKind::kShortDate:
      return date_split(value);
    case DemoKind::kTime:
      return value % 15 == 0 ? DemoSplit::kTrain : hashed_split(kTimeOfDay, value);
    default:
      return DemoSplit::kTrain;
  }
}

DemoSplit DemoValues::number_split(uint32_t n) const {
  if (n <= 20) return DemoSplit::kTrain;
  const uint32_t unit = n < 100 ? 10 : n < 1000 ? 100 : 1000;
  // kTest is the larger: a number with a valid part and a test part belongs to test.
  const DemoSplit parts = std::max(number_split(n / unit), number_split(n % unit));
  if (parts != DemoSplit::kTrain || n % unit == 0) return parts;
  return hashed_split(kNumber, n);
}

DemoSplit DemoValues::date_split(uint32_t date) const {
  const DemoSplit day = hashed_split(kDayOfYear, date % 10000);
  return day != DemoSplit::kTrain ? day : hashed_split(kFullDate, date);
}

DemoSplit DemoValues::hashed_split(uint32_t domain, uint32_t value) const {
  const uint64_t key = mix64(seed_) ^ (static_cast<uint64_t>(domain) << 32 | value);
  const uint64_t percent = mix64(key) % 100;
  if (percent < kTestPercent) return DemoSplit::kTest;
  return percent < kTestPercent + kValidPercent ? DemoSplit::kValid : DemoSplit::kTrain;
}

}  // namespace reigen
