// A few seconds of measuring before the first step of several workers: how fast each computes, what
// the link carries, what a step will take. Nobody should find out after fourteen hours.
#pragma once

#include "config/train_options.h"
#include "data/prefetch.h"
#include "dist/members/job.h"
#include "model/open_device.h"
#include "model/transformer.h"
#include "observe/record/records.h"
#include "optim/state.h"
#include "plan/forecast.h"

namespace reigen {

// Forward and backward of a batch's first parts, for `budget` seconds at most, scaled to the whole
// share; nothing is changed.
ComputeTimes measure_compute(const OpenedDevice& opened, Transformer& model,
                             const TrainOptions& options, std::span<const float> parameters,
                             const ReadyBatch& ready, double budget);

struct Preflight {
  Measured measured;
  std::vector<CurvePoint> curve;         // between hosts
  std::vector<CurvePoint> direct_curve;  // between GPUs, where they exchange directly
  std::vector<double> compute_by_rank;   // seconds of a share
};

// All workers at once; the result is the same for all. `direct` joins their GPUs, or is null.
Preflight measure_job(Job& job, Group* direct, const OpenedDevice& opened, Transformer& model,
                      const TrainOptions& options, std::span<const float> parameters,
                      const ReadyBatch& ready, double budget);

// Floating-point operations that all workers together do in a second when each has a large product
// to compute, measured at the same time by all.
double measure_capacity(Job& job, const OpenedDevice& opened);

// Steps of a new run before a method that has a warm-up begins.
uint64_t warmup_steps(const TrainOptions& options);
// How gradients travel: as given, or as recorded; auto when it has to be chosen.
CompressSetting known_compression(const TrainOptions& options, const Counters& counters);
// The same, chosen where it has to be, and from which step on.
void choose_compression(const TrainOptions& options, const Preflight& preflight,
                        const ParameterLayout& layout, Counters& counters);

// What the first worker tells of it: a line for the log, and warnings or nothing.
struct PreflightReport {
  ForecastRecord forecast;
  std::string line;
  std::string warning;
  std::string slow_worker;
  std::string slow_warmup;
};
PreflightReport report_of(const Preflight& preflight, const ParameterLayout& layout,
                          const TrainOptions& options, const Counters& counters);

}  // namespace reigen
