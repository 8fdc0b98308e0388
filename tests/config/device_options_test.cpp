// Names of devices and precisions, and errors for unknown names.
#include "config/device_options.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace reigen {
namespace {

TEST(DeviceOptions, NamesTheCpuOrOneOfTheGpus) {
  EXPECT_TRUE(parse_device("auto").automatic);
  EXPECT_FALSE(parse_device("auto").gpu);
  EXPECT_FALSE(parse_device("cpu").automatic);
  EXPECT_FALSE(parse_device("cpu").gpu);
  EXPECT_EQ(parse_device("cuda").gpu, 0);
  EXPECT_EQ(parse_device("cuda:0").gpu, 0);
  EXPECT_EQ(parse_device("cuda:12").gpu, 12);
}

TEST(DeviceOptions, RefusesUnknownNames) {
  for (const char* text :
       {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1234", "CPU", "cuda:1 "}) {
    try {
      parse_device(text);
      FAIL() << text;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find("auto, cpu, cuda or cuda:NUMBER"), std::string::npos);
    }
  }
}

TEST(DeviceOptions, PrecisionsRoundTripThroughTheirNames) {
  for (Precision p :
       {Precision::kAuto, Precision::kFp32, Precision::kTf32, Precision::kBf16, Precision::kFp16}) {
    EXPECT_EQ(precision_of(name_of(p)), p);
  }
  EXPECT_THROW(precision_of("fp8"), ConfigError);
}

}  // namespace
}  // namespace reigen
