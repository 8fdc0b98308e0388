// The values of a frame's slots: their ranges, and the split in which each value may occur.
//
// Atomic values (0 to 20, tens, round hundreds, quarter hours, names, years) occur in train, so
// that a model can learn the parts. Composite values belong to exactly one split, by a hash of
// (seed, kind, value). A number inherits the split of a held-out part (47 in 347), and a date that
// of its day, so that a held-out value does not occur in train inside a larger value either.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "corpus/frames.h"
#include "corpus/generator.h"

namespace reigen {

// Prices have three currencies; an amount is held out in all of them.
inline constexpr uint32_t kPriceCurrencies = 3;

// The kind of a slot's values. The comment gives their encoding.
enum class SlotKind : uint8_t {
  kWord,         // index into the slot's word list
  kWeekday,      // 0 is Sunday
  kMonth,        // 0 is January
  kYear,         // 1987
  kPlatform,     // 1 to 20
  kClock,        // quarters past one o'clock, 0 to 47
  kSpelled,      // the number
  kOrdinal,      // the number, as a word
  kRank,         // the number, as digits
  kDigits,       // the number
  kPrice,        // kPriceCurrencies * cents + currency
  kDecimal,      // tenths
  kPercent,      // tenths
  kDay,          // month * 100 + day
  kDate,         // year * 10000 + month * 100 + day
  kWeekdayDate,  // as kDate
  kShortDate,    // as kDate
  kTime,         // minutes past midnight
};

struct FrameSlot {
  std::string_view tag;
  SlotKind kind;
  uint32_t low = 0;  // range of the number, or of the year in a date
  uint32_t high = 0;
  std::span<const WordPair> words = {};
};

std::span<const FrameSlot> frame_slots();

// A counter-based generator. The distributions of the standard library differ between
// implementations, and a corpus must not.
class CorpusRandom {
 public:
  explicit CorpusRandom(uint64_t key) : state_(key) {}
  uint64_t next();
  uint32_t below(uint32_t n);                     // 0 .. n-1
  uint32_t between(uint32_t low, uint32_t high);  // low .. high

 private:
  uint64_t state_;
};

class SlotValues {
 public:
  explicit SlotValues(uint64_t seed) : seed_(seed) {}

  // A random value of the slot that may occur in this split.
  uint32_t draw(const FrameSlot& slot, CorpusSplit split, CorpusRandom& random) const;

  // The only split in which this value may occur; kTrain for atomic values.
  CorpusSplit split_of(SlotKind kind, uint32_t value) const;

 private:
  CorpusSplit number_split(uint32_t n) const;
  CorpusSplit date_split(uint32_t date) const;
  CorpusSplit hashed_split(uint32_t domain, uint32_t value) const;

  uint64_t seed_;
};

}  // namespace reigen
