// The values demo sentences speak about: which exist, and which split each may be used in.
//
// Atomic values (0 to 20, tens, round hundreds, quarter hours, names, years) stay in train, so that
// a model can learn the parts. Composite values belong to exactly one split, by a hash of (seed,
// kind, value). A number inherits the split of a held-out part (47 in 347), and a date that of its
// day, so what is held out is not seen in train inside a larger value either.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "corpus/demo_corpus.h"
#include "corpus/demo_frames.h"

namespace reigen {

// Prices come in three currencies, but an amount is held out whatever its currency.
inline constexpr uint32_t kDemoCurrencies = 3;

// What a slot holds. The comment gives the encoding of its value.
enum class DemoKind : uint8_t {
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
  kPrice,        // kDemoCurrencies * cents + currency
  kDecimal,      // tenths
  kPercent,      // tenths
  kDay,          // month * 100 + day
  kDate,         // year * 10000 + month * 100 + day
  kWeekdayDate,  // likewise
  kShortDate,    // likewise
  kTime,         // minutes past midnight
};

struct DemoSlot {
  std::string_view tag;
  DemoKind kind;
  uint32_t low = 0;  // range of the number, or of the year in a date
  uint32_t high = 0;
  std::span<const DemoWord> words = {};
};

std::span<const DemoSlot> demo_slots();

// Counter-based: our own, because the distributions of the standard library differ between
// implementations and a corpus must not.
class DemoRandom {
 public:
  explicit DemoRandom(uint64_t key) : state_(key) {}
  uint64_t next();
  uint32_t below(uint32_t n);                     // 0 .. n-1
  uint32_t between(uint32_t low, uint32_t high);  // low .. high

 private:
  uint64_t state_;
};

class DemoValues {
 public:
  explicit DemoValues(uint64_t seed) : seed_(seed) {}

  // A value of the slot that may stand in this split.
  uint32_t draw(const DemoSlot& slot, DemoSplit split, DemoRandom& random) const;

  // The only split a value of this kind may stand in; atomic values answer kTrain.
  DemoSplit split_of(DemoKind kind, uint32_t value) const;

 private:
  DemoSplit number_split(uint32_t n) const;
  DemoSplit date_split(uint32_t date) const;
  DemoSplit hashed_split(uint32_t domain, uint32_t value) const;

  uint64_t seed_;
};

}  // namespace reigen
