// The device of a command on a machine without a GPU, and the error when a GPU was asked for.
#include "model/open_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/cuda_info.h"
#include "ops/backend.h"

namespace reigen {
namespace {

using ::testing::HasSubstr;

class OpenDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (usable_gpus() > 0) GTEST_SKIP() << "this machine has a GPU";
  }
  template <class E>
  std::string error_of(const DeviceOptions& options) {
    try {
      open_device(options, 1);
    } catch (const E& e) {
      return e.what();
    }
    return "no error";
  }
};

TEST_F(OpenDevice, AutoIsTheCpuInFp32) {
  const OpenedDevice opened = open_device({}, 2);
  EXPECT_EQ(opened.device.kind(), DeviceKind::kCpu);
  EXPECT_EQ(opened.device.gpu(), nullptr);
  EXPECT_EQ(opened.type, DType::kF32);
  EXPECT_EQ(opened.precision, Precision::kFp32);
  EXPECT_EQ(describe(opened), "2 CPU threads");
}

TEST_F(OpenDevice, AMissingGpuIsAnErrorAndNotTheCpu) {
  EXPECT_THAT(error_of<DeviceError>({.device = "cuda"}), HasSubstr("--device cpu"));
}

TEST_F(OpenDevice, TheCpuSupportsFp32AndBf16) {
  for (const Precision precision : {Precision::kFp16, Precision::kTf32}) {
    EXPECT_THAT(error_of<ConfigError>({.device = "cpu", .precision = precision}),
                HasSubstr("needs a GPU"));
  }
  EXPECT_EQ(error_of<ConfigError>({.device = "cpu", .precision = Precision::kFp32}), "no error");
  OpenedDevice opened = open_device({}, 1);
  EXPECT_FALSE(use_precision(opened, Precision::kFp16));
  EXPECT_EQ(opened.precision, Precision::kFp32);
  EXPECT_TRUE(use_precision(opened, Precision::kBf16));
  EXPECT_EQ(opened.precision, Precision::kBf16);
  EXPECT_EQ(opened.device.backend(), bf16_cpu_backend().get());
  EXPECT_THAT(describe(opened), HasSubstr("products in bf16"));
  EXPECT_EQ(describe(opened).ends_with("emulated"), !cpu_has_bf16());
  EXPECT_TRUE(use_precision(opened, Precision::kFp32));
  EXPECT_EQ(opened.device.backend(), nullptr);
}

}  // namespace
}  // namespace reigen
