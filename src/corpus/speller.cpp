// One Language per side owns ICU's formatters: building them takes milliseconds, using them about a
// microsecond, so they are made once per speller.
#include "corpus/speller.h"

#include <unicode/currunit.h>
#include <unicode/datefmt.h>
#include <unicode/dtfmtsym.h>
#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/numberformatter.h>
#include <unicode/rbnf.h>
#include <unicode/timezone.h>

#include <array>
#include <chrono>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

using icu::UnicodeString;
using icu::number::LocalizedNumberFormatter;
using icu::number::NumberFormatter;

void check(UErrorCode status, std::string_view what) {
  if (U_SUCCESS(status)) return;
  throw DataError(format("ICU cannot {} ({}); is its locale data for English and German installed?",
                         what, u_errorName(status)));
}

// Times are UTC, in milliseconds since 1970 as ICU's date formats expect.
UDate milliseconds_of_date(uint32_t date) {
  const std::chrono::year_month_day day(std::chrono::year(static_cast<int>(date / 10000)),
                                        std::chrono::month(date / 100 % 100),
                                        std::chrono::day(date % 100));
  return 86400e3 * std::chrono::sys_days(day).time_since_epoch().count();
}

constexpr uint32_t kLeapYear = 2024;  // for days without a year: every day exists in it

// Appends ICU's text as clean UTF-8.
class Cleaner {
 public:
  Cleaner() {
    UErrorCode status = U_ZERO_ERROR;
    nfc_ = icu::Normalizer2::getNFCInstance(status);
    check(status, "normalise text");
  }

  void append(const UnicodeString& text, std::string& out) {
    clean_.remove();
    for (int32_t i = 0; i < text.length(); ++i) {
      const char16_t c = text.charAt(i);
      if (c == u'\u00AD') continue;
      clean_.append(c == u'\u00A0' || c == u'\u202F' ? u' ' : c);
    }
    UErrorCode status = U_ZERO_ERROR;
    if (!nfc_->isNormalized(clean_, status)) clean_ = nfc_->normalize(clean_, status);
    check(status, "normalise text");
    clean_.toUTF8String(out);
  }

 private:
  const icu::Normalizer2* nfc_ = nullptr;
  UnicodeString clean_;
};

// The formatters of one language, and the kinds of value that need no other rule.
class Language {
 public:
  Language(const icu::Locale& locale, const char16_t* clock);

  // Each appends to `out`. say() is for the kinds that both languages write by the same rule.
  void say(SlotKind kind, uint32_t value, std::string& out);
  void spell(uint32_t n, const char16_t* rule_set, std::string& out);

 private:
  void number(const LocalizedNumberFormatter& how, double value, std::string& out);
  void date(const std::unique_ptr<icu::DateFormat>& how, UDate when, std::string& out);
  void rank(uint32_t n, std::string& out);

  Cleaner clean_;
  std::unique_ptr<icu::RuleBasedNumberFormat> speller_;
  std::unique_ptr<icu::RuleBasedNumberFormat> ranks_;
  LocalizedNumberFormatter plain_;
  LocalizedNumberFormatter percent_;
  std::array<LocalizedNumberFormatter, kPriceCurrencies> prices_;
  std::unique_ptr<icu::DateFormat> day_, date_, weekday_date_, short_date_, time_;
  std::vector<UnicodeString> weekdays_;
  std::vector<UnicodeString> months_;
};

Language::Language(const icu::Locale& locale, const char16_t* clock) {
  UErrorCode status = U_ZERO_ERROR;
  speller_ = std::make_unique<icu::RuleBasedNumberFormat>(icu::URBNF_SPELLOUT, locale, status);
  ranks_ = std::make_unique<icu::RuleBasedNumberFormat>(icu::URBNF_ORDINAL, locale, status);
  check(status, "spell out numbers");

  plain_ = NumberFormatter::withLocale(locale);
  percent_ = plain_.unit(icu::MeasureUnit::getPercent());
  const std::array<const char16_t*, kPriceCurrencies> currencies = {u"EUR", u"USD", u"GBP"};
  for (size_t i = 0; i < currencies.size(); ++i) {
    prices_[i] = plain_.unit(icu::CurrencyUnit(currencies[i], status));
  }
  check(status, "format amounts");

  day_.reset(icu::DateFormat::createInstanceForSkeleton(u"MMMMd", locale, status));
  time_.reset(icu::DateFormat::createInstanceForSkeleton(clock, locale, status));
  date_.reset(icu::DateFormat::createDateInstance(icu::DateFormat::kLong, locale));
  weekday_date_.reset(icu::DateFormat::createDateInstance(icu::DateFormat::kFull, locale));
  short_date_.reset(icu::DateFormat::createDateInstance(icu::DateFormat::kMedium, locale));
  const icu::DateFormatSymbols symbols(locale, status);
  check(status, "format dates");
  for (auto* how : {&day_, &date_, &weekday_date_, &short_date_, &time_}) {
    if (*how == nullptr) check(U_MISSING_RESOURCE_ERROR, "format dates");
    (*how)->setTimeZone(*icu::TimeZone::getGMT());
  }

  int32_t count = 0;
  const UnicodeString* names = symbols.getWeekdays(count);
  weekdays_.assign(names + 1, names + count);  // ICU counts weekdays from one
  names = symbols.getMonths(count);
  months_.assign(names, names + count);
}

void Language::spell(uint32_t n, const char16_t* rule_set, std::string& out) {
  UErrorCode status = U_ZERO_ERROR;
  UnicodeString text;
  icu::FieldPosition anywhere;
  speller_->format(static_cast<int64_t>(n), UnicodeString(true, rule_set, -1), text, anywhere,
                   status);
  check(status, "spell out a number");
  clean_.append(text, out);
}

void Language::rank(uint32_t n, std::string& out) {
  UnicodeString text;
  clean_.append(ranks_->format(static_cast<int64_t>(n), text), out);
}

void Language::number(const LocalizedNumberFormatter& how, double value, std::string& out) {
  UErrorCode status = U_ZERO_ERROR;
  const UnicodeString text = how.formatDouble(value, status).toString(status);
  check(status, "format a number");
  clean_.append(text, out);
}

void Language::date(const std::unique_ptr<icu::DateFormat>& how, UDate when, std::string& out) {
  UnicodeString text;
  clean_.append(how->format(when, text), out);
}

void Language::say(SlotKind kind, uint32_t value, std::string& out) {
  switch (kind) {
    case SlotKind::kWeekday:
      return clean_.append(weekdays_.at(value), out);
    case SlotKind::kMonth:
      return clean_.append(months_.at(value), out);
    case SlotKind::kYear:
    case SlotKind::kPlatform:
      out += std::to_string(value);
      return;
    case SlotKind::kSpelled:
      return spell(value, u"%spellout-numbering", out);
    case SlotKind::kRank:
      return rank(value, out);
    case SlotKind::kDigits:
      return number(plain_, value, out);
    case SlotKind::kPrice: {
      const auto cents = value / kPriceCurrencies;
      return number(prices_[value % kPriceCurrencies], static_cast<double>(cents) / 100, out);
    }
    case SlotKind::kDecimal:
      return number(plain_, value / 10.0, out);
    case SlotKind::kPercent:
      return number(percent_, value / 10.0, out);
    case SlotKind::kDay:
      return date(day_, milliseconds_of_date(kLeapYear * 10000 + value), out);
    case SlotKind::kDate:
      return date(date_, milliseconds_of_date(value), out);
    case SlotKind::kWeekdayDate:
      return date(weekday_date_, milliseconds_of_date(value), out);
    case SlotKind::kShortDate:
      return date(short_date_, milliseconds_of_date(value), out);
    case SlotKind::kTime:
      return date(time_, 60e3 * value, out);
    case SlotKind::kWord:
    case SlotKind::kClock:
    case SlotKind::kOrdinal:
      break;
  }
  throw std::logic_error("say() does not know this kind: each language has its own rule");
}

const char16_t* german_ordinal_rule(char form) {
  switch (form) {
    case 0:
      return u"%spellout-ordinal";
    case 'n':
      return u"%spellout-ordinal-n";
    case 'r':
      return u"%spellout-ordinal-r";
    case 's':
      return u"%spellout-ordinal-s";
    default:
      throw std::logic_error(format("no German ordinal ends in -{}", form));
  }
}

}  // namespace

struct ValueSpeller::Impl {
  Language english{icu::Locale("en", "US"), u"hm"};
  Language german{icu::Locale("de", "DE"), u"Hm"};

  void english_clock(uint32_t quarters, std::string& out);
  void german_clock(uint32_t quarters, std::string& out);
};

// Quarters 0 to 3 of an hour: three o'clock, quarter past three, half past three, quarter to four.
void ValueSpeller::Impl::english_clock(uint32_t quarters, std::string& out) {
  constexpr std::array<std::string_view, 4> kBefore = {"", "quarter past ", "half past ",
                                                       "quarter to "};
  const uint32_t quarter = quarters % 4;
  const uint32_t hour = (quarters / 4 + (quarter == 3 ? 1 : 0)) % 12 + 1;
  out += kBefore[quarter];
  english.say(SlotKind::kSpelled, hour, out);
  if (quarter == 0) out += " o'clock";
}

// German halves look ahead ("halb vier" is half past three), and "ein Uhr" is not "eins".
void ValueSpeller::Impl::german_clock(uint32_t quarters, std::string& out) {
  constexpr std::array<std::string_view, 4> kBefore = {"", "Viertel nach ", "halb ",
                                                       "Viertel vor "};
  const uint32_t quarter = quarters % 4;
  const uint32_t hour = (quarters / 4 + (quarter >= 2 ? 1 : 0)) % 12 + 1;
  out += kBefore[quarter];
  german.spell(hour, quarter == 0 ? u"%spellout-cardinal-neuter" : u"%spellout-numbering", out);
  if (quarter == 0) out += " Uhr";
}

ValueSpeller::ValueSpeller() : impl_(std::make_unique<Impl>()) {}
ValueSpeller::~ValueSpeller() = default;

void ValueSpeller::english(const FrameSlot& slot, uint32_t value, std::string& out) {
  switch (slot.kind) {
    case SlotKind::kWord:
      out += slot.words[value].english;
      return;
    case SlotKind::kClock:
      return impl_->english_clock(value, out);
    case SlotKind::kOrdinal:
      return impl_->english.spell(value, u"%spellout-ordinal", out);
    default:
      return impl_->english.say(slot.kind, value, out);
  }
}

void ValueSpeller::german(const FrameSlot& slot, uint32_t value, char form, std::string& out) {
  switch (slot.kind) {
    case SlotKind::kWord:
      out += slot.words[value].german;
      return;
    case SlotKind::kClock:
      return impl_->german_clock(value, out);
    case SlotKind::kOrdinal:
      return impl_->german.spell(value, german_ordinal_rule(form), out);
    case SlotKind::kTime:
      impl_->german.say(slot.kind, value, out);
      out += " Uhr";
      return;
    default:
      return impl_->german.say(slot.kind, value, out);
  }
}

}  // namespace reigen
