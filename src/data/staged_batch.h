// A micro-batch that the input thread has already copied to the device.
//
// Prefetching owns it without knowing the device: the device's index of a batch (ops/batch_index.h)
// derives from it.
#pragma once

namespace reigen {

struct StagedBatch {
  virtual ~StagedBatch() = default;
};

}  // namespace reigen
