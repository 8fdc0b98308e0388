// A GPU that times every operation: the real model runs on it unchanged, and the times show where
// its step's time is spent, by kind of operation.
//
// Events around each operation cost some microseconds of host time and nothing on the GPU while
// the host is ahead, so the sum of all operations against the step's own time shows the gaps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"

namespace reigen::bench {

struct OpTime {
  std::string group;  // products, attention, ...
  std::string name;
  double count = 0;  // per step
  double microseconds = 0;
  double flops = 0;
  double milliseconds() const { return count * microseconds / 1000; }
};

class TimedOps;

class TimedDevice {
 public:
  explicit TimedDevice(const Device& inner);
  ~TimedDevice();
  const Device& device() const { return device_; }

  // Times of the operations since the previous call, over so many steps.
  std::vector<OpTime> times(int steps);

 private:
  std::shared_ptr<TimedOps> ops_;
  Device device_;
};

}  // namespace reigen::bench
