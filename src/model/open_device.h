// The device a command computes on, from its options and what the machine has.
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

// Throws DeviceError when the GPU asked for is not there, ConfigError for a precision it does not
// have. `auto` without a GPU is the CPU with `threads`.
OpenedDevice open_device(const DeviceOptions& options, int threads);

// What a host computes beside the device: the device itself where that is the CPU.
Device host_device(const Device& device, int64_t threads);

// Computes in another precision from now on; false when the device does not have it.
bool use_precision(OpenedDevice& opened, Precision precision);

// Throws ConfigError when the model's sizes do not fit what the GPU's operations take.
void check_model_for(const Device& device, const ModelOptions& options);

// "NVIDIA H200, 139.8 GiB, CUDA 13.0 (driver 13.0), bf16" or "2 threads".
std::string describe(const OpenedDevice& opened);

}  // namespace reigen
