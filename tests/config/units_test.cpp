// Sizes and times with units, and errors for malformed ones.
#include "config/units.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace reigen {
namespace {

TEST(ParseBytes, CountsInThousandsUnlessTheUnitHasAnI) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("1000000"), 1'000'000u);
  EXPECT_EQ(parse_bytes("7B"), 7u);
  EXPECT_EQ(parse_bytes("512 MB"), 512'000'000u);
  EXPECT_EQ(parse_bytes("6GB"), 6'000'000'000u);
  EXPECT_EQ(parse_bytes("2k"), 2'000u);
  EXPECT_EQ(parse_bytes("1tb"), 1'000'000'000'000u);
  EXPECT_EQ(parse_bytes("4GiB"), uint64_t{4} << 30);
  EXPECT_EQ(parse_bytes(" 3 kib "), 3u << 10);
  EXPECT_EQ(parse_bytes("1.5GB"), 1'500'000'000u);
}

TEST(ParseBytes, RefusesTextThatIsNotASize) {
  for (const char* bad : {"", " ", "GB", "-1GB", "6XB", "6GBB", "6G B", "6GB 2", "0x10", "nan",
                          "inf", "1e400", "1e19", "9999999TB", "+5", "5,5GB"}) {
    EXPECT_THROW(parse_bytes(bad), ConfigError) << bad;
  }
}

TEST(ParseSeconds, AddsUpHoursMinutesAndSeconds) {
  EXPECT_EQ(parse_seconds("90"), 90);
  EXPECT_EQ(parse_seconds("90s"), 90);
  EXPECT_EQ(parse_seconds("45m"), 2700);
  EXPECT_EQ(parse_seconds("45 min"), 2700);
  EXPECT_EQ(parse_seconds("12h"), 43'200);
  EXPECT_EQ(parse_seconds("1d"), 86'400);
  EXPECT_EQ(parse_seconds("1h30m"), 5400);
  EXPECT_EQ(parse_seconds("1d 2h 3m 4.5s"), 93'784.5);
  EXPECT_EQ(parse_seconds("0.5h"), 1800);
}

TEST(ParseSeconds, RefusesTextThatIsNotATime) {
  for (const char* bad : {"", "h", "1w", "1h-5m", "-5", "1h,5m", "nan", "inf", "1e308d", "1e400"}) {
    EXPECT_THROW(parse_seconds(bad), ConfigError) << bad;
  }
}

TEST(UnitOptions, AreReadWithAUnitAndRecordedAsNumbers) {
  uint64_t memory = 0;
  double time = 0;
  Schema schema("try", "Tries.");
  schema.custom(bytes_option("memory", memory, "how much"));
  schema.custom(seconds_option("time", time, "how long"));
  schema.parse(std::vector<std::string>{"--memory", "6GB", "--time=1h30m"});
  EXPECT_EQ(one_line(schema.current()), R"({"memory":6000000000,"time":5400.0})");
  schema.parse_yaml("memory: 800MB\ntime: 90\n", "run.yaml");
  EXPECT_EQ(memory, 800'000'000u);
  EXPECT_EQ(time, 90);
}

TEST(UnitOptions, ShowADefaultTimeInTheUnitThatATimeMayBeGivenIn) {
  for (const char* text : {"0", "90s", "0.5s", "10m", "36h"}) {
    double seconds = parse_seconds(text);
    EXPECT_EQ(seconds_option("wait", seconds, "").default_text, text);
  }
}

TEST(UnitOptions, NameTheExpectedFormInErrors) {
  uint64_t memory = 0;
  Schema schema("try", "Tries.");
  schema.custom(bytes_option("memory", memory, "how much"));
  try {
    schema.parse(std::vector<std::string>{"--memory", "lots"});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ConfigError& e) {
    EXPECT_STREQ(e.what(),
                 "--memory: 'lots' cannot be used: expected a size such as 800MB, 6GB or 4GiB");
  }
}

}  // namespace
}  // namespace reigen
