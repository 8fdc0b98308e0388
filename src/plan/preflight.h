// A few seconds of measurement before the first step of several workers: compute speed of each
// worker, link speed, and the predicted time of a step. A slow link is reported at once and not
// after hours of training.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/train_options.h"
#include "data/prefetch.h"
#include "dist/members/job.h"
#include "model/open_device.h"
#include "model/transformer.h"
#include "observe/record/records.h"
#include "optim/state.h"
#include "plan/compute_probe.h"
#include "plan/step_prediction.h"

namespace reigen {

struct Preflight {
  Measured measured;
  std::vector<CurvePoint> curve;         // all-reduce between hosts
  std::vector<CurvePoint> direct_curve;  // all-reduce between GPUs, where they exchange directly
  std::vector<PairLink> links;           // between hosts, where they were measured
  std::vector<double> compute_by_rank;   // seconds for its share of a step
};

// Called by all workers at once; the result is the same on all ranks. `direct` is the group between
// their GPUs, or null.
Preflight measure_job(Job& job, Group* direct, const OpenedDevice& opened, Transformer& model,
                      const TrainOptions& options, std::span<float> parameters,
                      const ReadyBatch& ready, double budget);

// Warm-up steps of a new run, for compression methods that have a warm-up.
uint64_t warmup_steps(const TrainOptions& options);
// The compression setting as given, or as recorded by the run; kAuto where it has to be chosen.
// `step` is the step that the run resumes from.
CompressSetting known_compression(const TrainOptions& options, uint64_t step,
                                  const Choices& choices);
// Stores the setting in `choices`, chosen from the measurement where it is kAuto, and the number of
// warm-up steps.
void choose_compression(const TrainOptions& options, const Preflight& preflight,
                        const ParameterLayout& layout, uint64_t step, Choices& choices);

struct SlowRank {
  int rank = 0;
  double seconds = 0;  // compute time of its share
  double usual = 0;    // of the median worker
};
// The slowest worker, if it is above kSlowRankInProbe.
std::optional<SlowRank> slow_rank(const std::vector<double>& compute_by_rank);

// Measures the links between the workers' hosts, each direction by itself: an all-reduce shows only
// the slower one. No links where all workers share a host.
void measure_host_links(Job& job, double seconds, Preflight& preflight);

// Conclusions from a preflight for the run that begins.
struct PreflightFindings {
  StepPrediction step;
  LinkModel link;                           // that carries its gradients
  bool automatic = false;                   // --compress auto
  bool chosen_before = false;               // by an earlier attempt at the run
  uint64_t warmup_steps = 0;                // still to come
  StepPrediction warmup;                    // one of those steps
  std::optional<SlowRank> slow;             // the worker that all others wait for
  std::optional<StepPrediction> auto_step;  // with the choice of auto, if `step` waits too long
  bool slow_warmup() const;                 // its steps wait too long
};
PreflightFindings findings_of(const Preflight& preflight, const ParameterLayout& layout,
                              const TrainOptions& options, uint64_t step, const Choices& choices);

// The findings as rank 0 records and logs them. Warnings are empty where there is none.
struct PreflightReport {
  PredictionRecord prediction;
  std::string line;
  std::string warning;
  std::string slow_worker;
  std::string slow_warmup;
};
PreflightReport report_of(const Preflight& preflight, const ParameterLayout& layout,
                          const TrainOptions& options, uint64_t step, const Choices& choices);

}  // namespace reigen
