// Each slot's range is wide enough for hundreds of values in valid and in test, and narrow enough
// for natural sentences.
#include "corpus/values.h"

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

// A slot has hundreds of composite values or more, so that only one seed in twenty million
// (0.95^333) leaves a split without any; the limit makes that an error instead of a hang.
constexpr int kMaxDraws = 100000;

// The domain of the hash: 347 in words, in digits and as an ordinal is one value.
enum Domain : uint32_t { kNumber = 1, kMoney, kTenths, kDayOfYear, kFullDate, kTimeOfDay };

// The probability grows with the square of a number's length: most sentences then contain a
// composite number, and the small ones, of which every number is made, stay frequent.
uint32_t draw_number(uint32_t low, uint32_t high, CorpusRandom& random) {
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

// A counted number in words must not end in "one": "einhunderteins Bücher" is not German.
uint32_t draw_countable(uint32_t low, uint32_t high, CorpusRandom& random) {
  for (;;) {
    const uint32_t n = draw_number(low, high, random);
    if (n % 100 != 1) return n;
  }
}

uint32_t draw_day(uint32_t year, CorpusRandom& random) {
  const uint32_t month = random.between(1, 12);
  const auto last =
      std::chrono::year_month_day_last(std::chrono::year(static_cast<int>(year)),
                                       std::chrono::month_day_last(std::chrono::month(month)));
  return month * 100 + random.between(1, static_cast<unsigned>(last.day()));
}

uint32_t draw_date(const FrameSlot& slot, CorpusRandom& random) {
  const uint32_t year = random.between(slot.low, slot.high);
  return year * 10000 + draw_day(year, random);
}

// Two thirds end in 0 or 5, as most prices do.
uint32_t draw_price(const FrameSlot& slot, CorpusRandom& random) {
  uint32_t cents = draw_number(slot.low, slot.high, random);
  const uint32_t style = random.below(3);
  if (style == 0) cents -= cents % 10;
  if (style == 1) cents -= cents % 5;
  return cents * kPriceCurrencies + random.below(kPriceCurrencies);
}

uint32_t draw_any(const FrameSlot& slot, CorpusRandom& random) {
  switch (slot.kind) {
    case SlotKind::kWord:
      return random.below(static_cast<uint32_t>(slot.words.size()));
    case SlotKind::kWeekday:
    case SlotKind::kMonth:
    case SlotKind::kYear:
    case SlotKind::kPlatform:
    case SlotKind::kClock:
    case SlotKind::kTime:
      return random.between(slot.low, slot.high);
    case SlotKind::kSpelled:
      return draw_countable(slot.low, slot.high, random);
    case SlotKind::kOrdinal:
    case SlotKind::kRank:
    case SlotKind::kDigits:
    case SlotKind::kDecimal:
    case SlotKind::kPercent:
      return draw_number(slot.low, slot.high, random);
    case SlotKind::kPrice:
      return draw_price(slot, random);
    case SlotKind::kDay:
      return draw_day(slot.low, random);
    case SlotKind::kDate:
    case SlotKind::kWeekdayDate:
    case SlotKind::kShortDate:
      return draw_date(slot, random);
  }
  throw std::logic_error("a slot of unknown kind");
}

// Closed lists, to be memorised; they occur in all splits.
bool occurs_in_all_splits(SlotKind kind) {
  switch (kind) {
    case SlotKind::kWord:
    case SlotKind::kWeekday:
    case SlotKind::kMonth:
    case SlotKind::kYear:
    case SlotKind::kPlatform:
    case SlotKind::kClock:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::span<const FrameSlot> frame_slots() {
  static const FrameSlot kSlots[] = {
      {"name", SlotKind::kWord, 0, 0, name_words()},
      {"name2", SlotKind::kWord, 0, 0, name_words()},
      {"city", SlotKind::kWord, 0, 0, city_words()},
      {"city2", SlotKind::kWord, 0, 0, city_words()},
      {"things", SlotKind::kWord, 0, 0, thing_words()},
      {"people", SlotKind::kWord, 0, 0, people_words()},
      {"item", SlotKind::kWord, 0, 0, item_words()},
      {"currency", SlotKind::kWord, 0, 0, currency_words()},
      {"weekday", SlotKind::kWeekday, 0, 6},
      {"month", SlotKind::kMonth, 0, 11},
      {"year", SlotKind::kYear, 1900, 2024},
      {"platform", SlotKind::kPlatform, 1, 20},
      {"clock", SlotKind::kClock, 0, 47},
      {"count", SlotKind::kSpelled, 2, 999},
      {"many", SlotKind::kSpelled, 1000, 999999},
      {"seats", SlotKind::kSpelled, 1000, 99999},
      {"ordinal", SlotKind::kOrdinal, 1, 999},
      {"rank", SlotKind::kRank, 1, 999},
      {"room", SlotKind::kDigits, 101, 999},
      {"sum", SlotKind::kDigits, 100, 99999},
      {"figure", SlotKind::kDigits, 10000, 999999},
      {"price", SlotKind::kPrice, 150, 99999},
      {"fare", SlotKind::kPrice, 150, 9999},
      {"cost", SlotKind::kPrice, 2000, 99999},
      {"decimal", SlotKind::kDecimal, 20, 999},
      {"degrees", SlotKind::kDecimal, 20, 389},
      {"percent", SlotKind::kPercent, 11, 399},
      {"day", SlotKind::kDay, 2024},  // a leap year, so that February 29 exists
      {"past", SlotKind::kDate, 1900, 2024},
      {"since", SlotKind::kDate, 1960, 2024},
      {"future", SlotKind::kDate, 2026, 2059},
      {"weekday_date", SlotKind::kWeekdayDate, 2026, 2049},
      {"short_date", SlotKind::kShortDate, 1990, 2029},
      {"time", SlotKind::kTime, 0, 24 * 60 - 1},
      {"daytime", SlotKind::kTime, 7 * 60, 22 * 60 + 59},
      {"daytime2", SlotKind::kTime, 7 * 60, 22 * 60 + 59},
  };
  return kSlots;
}

uint64_t CorpusRandom::next() {
  state_ += 0x9E3779B97F4A7C15ull;  // splitmix64's step: the golden ratio in 64 bits
  return mix64(state_);
}

uint32_t CorpusRandom::below(uint32_t n) {
  return static_cast<uint32_t>(((next() >> 32) * n) >> 32);
}

uint32_t CorpusRandom::between(uint32_t low, uint32_t high) { return low + below(high - low + 1); }

uint32_t SlotValues::draw(const FrameSlot& slot, CorpusSplit split, CorpusRandom& random) const {
  for (int i = 0; i < kMaxDraws; ++i) {
    const uint32_t value = draw_any(slot, random);
    if (occurs_in_all_splits(slot.kind) || split_of(slot.kind, value) == split) return value;
  }
  throw DataError(
      format("seed {} leaves no value of slot '{}' for one of the splits; choose a different seed",
             seed_, slot.tag));
}

CorpusSplit SlotValues::split_of(SlotKind kind, uint32_t value) const {
  switch (kind) {
    case SlotKind::kSpelled:
    case SlotKind::kOrdinal:
    case SlotKind::kRank:
    case SlotKind::kDigits:
      return number_split(value);
    case SlotKind::kPrice: {
      const uint32_t cents = value / kPriceCurrencies;
      return cents % 100 == 0 ? number_split(cents / 100) : hashed_split(kMoney, cents);
    }
    case SlotKind::kDecimal:
    case SlotKind::kPercent:
      return value % 10 == 0 ? number_split(value / 10) : hashed_split(kTenths, value);
    case SlotKind::kDay:
      return hashed_split(kDayOfYear, value);
    case SlotKind::kDate:
    case SlotKind::kWeekdayDate:
    case SlotKind::kShortDate:
      return date_split(value);
    case SlotKind::kTime:
      return value % 15 == 0 ? CorpusSplit::kTrain : hashed_split(kTimeOfDay, value);
    default:
      return CorpusSplit::kTrain;
  }
}

CorpusSplit SlotValues::number_split(uint32_t n) const {
  if (n <= 20) return CorpusSplit::kTrain;
  const uint32_t unit = n < 100 ? 10 : n < 1000 ? 100 : 1000;
  // kTest is the larger: a number with a valid part and a test part belongs to test.
  const CorpusSplit parts = std::max(number_split(n / unit), number_split(n % unit));
  if (parts != CorpusSplit::kTrain || n % unit == 0) return parts;
  return hashed_split(kNumber, n);
}

CorpusSplit SlotValues::date_split(uint32_t date) const {
  const CorpusSplit day = hashed_split(kDayOfYear, date % 10000);
  return day != CorpusSplit::kTrain ? day : hashed_split(kFullDate, date);
}

CorpusSplit SlotValues::hashed_split(uint32_t domain, uint32_t value) const {
  const uint64_t key = mix64(seed_) ^ (static_cast<uint64_t>(domain) << 32 | value);
  const uint64_t percent = mix64(key) % 100;
  if (percent < kTestPercent) return CorpusSplit::kTest;
  return percent < kTestPercent + kValidPercent ? CorpusSplit::kValid : CorpusSplit::kTrain;
}

}  // namespace reigen
