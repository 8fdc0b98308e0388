// Properties that all threads of a CPU device share.
#include "device/device.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

namespace reigen {
namespace {

TEST(Device, FlushesSubnormalNumbersInAllThreads) {
  std::thread([] {  // the other tests of this program compute with subnormal numbers
    const Device device = Device::cpu(3);
    std::vector<float> halves(3, 1);
    parallel_for(device, 3, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        volatile float least = std::numeric_limits<float>::min();
        halves[static_cast<size_t>(i)] = least * 0.5F;
      }
    });
    EXPECT_EQ(halves, std::vector<float>(3));
  })
      .join();
}

}  // namespace
}  // namespace reigen
