// Measures how fast a worker computes: the passes of one batch, and large matrix products.
#pragma once

#include <span>

#include "config/train_options.h"
#include "data/prefetch.h"
#include "dist/members/job.h"
#include "model/open_device.h"
#include "model/transformer.h"
#include "plan/step_prediction.h"

namespace reigen {

// Times forward and backward of a batch's first micro-batches for at most `budget` seconds, scaled
// to this worker's whole share. Parameters are not changed.
ComputeTimes measure_compute(const OpenedDevice& opened, Transformer& model,
                             const TrainOptions& options, std::span<float> parameters,
                             const ReadyBatch& ready, double budget);

// FLOP/s of all workers together in large matrix products, measured by all at the same time, for so
// long that workers which share a core take turns within a measurement: the highest and the lowest
// of some measurements.
struct Capacity {
  double high = 0;
  double low = 0;
};
Capacity measure_capacity(Job& job, const OpenedDevice& opened);

}  // namespace reigen
