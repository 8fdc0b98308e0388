// The entry of the operations in libreigen_cuda.so (device/cuda_entry.h).
#pragma once

#include <optional>

#include "device/device.h"

extern "C" void reigen_cuda_open(int index, std::optional<reigen::Device>* device);
