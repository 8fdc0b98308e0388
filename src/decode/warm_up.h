// The first search on a GPU is slow: CUDA and cuBLASLt load each kernel when it is first used, 0.17
// s in all. A search with a small model of zeros does that while the real model is read.
#pragma once

#include <cstddef>

#include "config/decode_options.h"
#include "decode/beam_search.h"
#include "model/open_device.h"

namespace reigen {

// Nothing on the CPU. `model` and `pieces` are those of the model to come; throws ConfigError when
// the device does not support it. Another failure is a warning: the real search gives the error, if
// there still is one.
void warm_up(const OpenedDevice& opened, const ModelOptions& model, size_t pieces,
             SpecialIds special, const DecodeOptions& options);

}  // namespace reigen
