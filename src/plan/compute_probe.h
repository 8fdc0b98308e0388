// Measures how fast a worker computes: the passes of one batch, and large matrix products.
#pragma once

#include <optional>
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

// Narrower models gain little, and their passes are too short to be timed beside other load.
constexpr int64_t kLeastWidthOfBf16 = 256;

// Whether `--precision auto` leaves the choice to a measurement: for models that gain by it, in a
// job of CPUs. A collective operation.
bool may_choose_precision(Job& job, const OpenedDevice& opened, const Transformer& model,
                          const TrainOptions& options);

// Then switches to bf16 where it is faster on every worker, in passes over the first tokens of its
// batch that all workers time in both precisions, in alternation. Returns how many times faster it
// is on this worker, or nothing where the precision stays as it is. Parameters are not changed. A
// collective operation.
std::optional<double> choose_precision(Job& job, OpenedDevice& opened, Transformer& model,
                                       const TrainOptions& options, std::span<float> parameters,
                                       const ReadyBatch& ready);

// FLOP/s of all workers together in large matrix products, measured by all at the same time, for so
// long that workers which share a core take turns within a measurement: the highest and the lowest
// of some measurements.
struct Capacity {
  double high = 0;
  double low = 0;
};
Capacity measure_capacity(Job& job, const OpenedDevice& opened);

}  // namespace reigen
