// Values in words and figures, compared with correct German and American English.
#include "corpus/speller.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace reigen {
namespace {

struct Case {
  std::string_view tag;
  uint32_t value;
  char form;
  std::string_view english;
  std::string_view german;
};

const FrameSlot& slot(std::string_view tag) {
  for (const FrameSlot& slot : frame_slots()) {
    if (slot.tag == tag) return slot;
  }
  throw std::logic_error("no such slot");
}

class ValueSpellerTest : public testing::TestWithParam<Case> {};

TEST_P(ValueSpellerTest, WritesTheValueInBothLanguages) {
  ValueSpeller speller;
  const Case& c = GetParam();
  std::string english;
  std::string german;
  speller.english(slot(c.tag), c.value, english);
  speller.german(slot(c.tag), c.value, c.form, german);
  EXPECT_EQ(english, c.english);
  EXPECT_EQ(german, c.german);
}

INSTANTIATE_TEST_SUITE_P(
    Numbers, ValueSpellerTest,
    testing::Values(
        Case{"count", 16, 0, "sixteen", "sechzehn"},
        Case{"count", 347, 0, "three hundred forty-seven", "dreihundertsiebenundvierzig"},
        Case{"many", 21030, 0, "twenty-one thousand thirty", "einundzwanzigtausenddreißig"},
        Case{"many", 101000, 0, "one hundred one thousand", "einhunderteintausend"},
        Case{"ordinal", 1, 0, "first", "erste"}, Case{"ordinal", 3, 'n', "third", "dritten"},
        Case{"ordinal", 7, 'r', "seventh", "siebter"},
        Case{"ordinal", 121, 's', "one hundred twenty-first", "einhunderteinundzwanzigstes"},
        Case{"ordinal", 20, 0, "twentieth", "zwanzigste"}, Case{"rank", 3, 0, "3rd", "3."},
        Case{"rank", 112, 0, "112th", "112."}, Case{"room", 347, 0, "347", "347"},
        Case{"figure", 504377, 0, "504,377", "504.377"}, Case{"sum", 1250, 0, "1,250", "1.250"},
        Case{"decimal", 125, 0, "12.5", "12,5"}, Case{"decimal", 120, 0, "12", "12"},
        Case{"percent", 144, 0, "14.4%", "14,4 %"}));

INSTANTIATE_TEST_SUITE_P(Money, ValueSpellerTest,
                         testing::Values(Case{"price", 57290 * 3, 0, "€572.90", "572,90 €"},
                                         Case{"price", 911 * 3 + 1, 0, "$9.11", "9,11 $"},
                                         Case{"price", 1200 * 3 + 2, 0, "£12.00", "12,00 £"}));

INSTANTIATE_TEST_SUITE_P(
    DatesAndTimes, ValueSpellerTest,
    testing::Values(Case{"weekday", 0, 0, "Sunday", "Sonntag"},
                    Case{"weekday", 6, 0, "Saturday", "Samstag"},
                    Case{"month", 2, 0, "March", "März"}, Case{"year", 1987, 0, "1987", "1987"},
                    Case{"day", 229, 0, "February 29", "29. Februar"},
                    Case{"past", 19000101, 0, "January 1, 1900", "1. Januar 1900"},
                    Case{"weekday_date", 20340831, 0, "Thursday, August 31, 2034",
                         "Donnerstag, 31. August 2034"},
                    Case{"short_date", 20250321, 0, "Mar 21, 2025", "21.03.2025"},
                    Case{"time", 0, 0, "12:00 AM", "00:00 Uhr"},
                    Case{"time", 12 * 60 + 5, 0, "12:05 PM", "12:05 Uhr"},
                    Case{"time", 15 * 60 + 47, 0, "3:47 PM", "15:47 Uhr"},
                    Case{"clock", 0, 0, "one o'clock", "ein Uhr"},
                    Case{"clock", 1, 0, "quarter past one", "Viertel nach eins"},
                    Case{"clock", 10, 0, "half past three", "halb vier"},
                    Case{"clock", 46, 0, "half past twelve", "halb eins"},
                    Case{"clock", 47, 0, "quarter to one", "Viertel vor eins"}));

TEST(ValueSpeller, RejectsAnEndingThatNoGermanOrdinalHas) {
  ValueSpeller speller;
  std::string out;
  EXPECT_THROW(speller.german(slot("ordinal"), 3, 'x', out), std::logic_error);
}

}  // namespace
}  // namespace reigen
