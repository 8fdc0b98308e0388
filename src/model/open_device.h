// The device a command computes on, from its options and the machine's GPUs.
#pragma once

#include <string>

#include "config/device_options.h"
#include "config/model_options.h"
#include "device/device.h"
#include "tensor/tensor.h"

namespace reigen {

struct OpenedDevice {
  Device device;
  Precision precision = Precision::kFp32;  // never kAuto
  DType type = DType::kF32;                // of activations
};

// Throws DeviceError when the GPU asked for is not there, ConfigError for an unsupported
// precision. `auto` without a GPU is the CPU with `threads`.
OpenedDevice open_device(const DeviceOptions& options, int threads);

// The device for work on the host: the CPU, which is `device` itself where that is the CPU.
Device host_device(const Device& device, int64_t threads);

// Switches to `precision`; returns false when the device does not support it.
bool use_precision(OpenedDevice& opened, Precision precision);

// Throws ConfigError when the GPU operations do not support the model's sizes.
void check_model_for(const Device& device, const ModelOptions& options);

// "NVIDIA H200, 139.8 GiB, CUDA 13.0 (driver 13.0), bf16" or "2 threads".
std::string describe(const OpenedDevice& opened);

}  // namespace reigen
