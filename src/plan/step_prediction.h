// Predicts the time of a step from measured compute and link speeds.
//
// step = compute + compression + the communication that backward does not hide. Pure functions of
// a few numbers; `--compress auto`, preflight and `reigen doctor` all use them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dist/compress/compressor.h"
#include "plan/link_probe.h"
#include "report/verdict/machine/causes.h"

namespace reigen {

// Seconds of the slowest worker, for its share of a batch.
struct ComputeTimes {
  double forward = 0;
  double backward = 0;
  double optimizer = 0;
  double muon = 0;           // of the optimizer's: orthogonalising the matrices
  double last_backward = 0;  // of the last micro-batch: only this part can hide communication
  double all() const { return forward + backward + optimizer; }
};

// Seconds of compression for each element of the gradient. PowerSGD's cost also grows with its
// rank. Rounding to int8 or int4 runs on the group's thread, beside backward.
struct CompressCost {
  double powersgd_base = 0;
  double powersgd_per_rank = 0;
  double rounding = 0;
};
CompressCost measure_compress_cost(const Device& device);

// The measurements from which a step is predicted.
struct Measured {
  int workers = 1;
  ComputeTimes compute;
  CompressCost compress;
  LinkModel link;                   // between the workers' hosts
  std::optional<LinkModel> direct;  // between their GPUs
  bool only_direct = false;         // --transport nccl: gradients never pass through the hosts
  bool gathers_parameters = false;  // --shard-optimizer: parameters are all-gathered after updates
  bool no_spare_core = false;       // hidden communication takes cores from backward
  size_t bucket = 1 << 18;          // elements of a bucket, where gradients are not rounded

  const LinkModel& link_for(const CompressSetting& setting) const {
    return direct && !computed_on_host(setting) ? *direct : link;
  }
};

struct StepPrediction {
  CompressSetting setting;
  double seconds = 0;  // of a step, on average after the warm-up
  double compute = 0;
  double without_gradients = 0;  // step time if no gradient were exchanged (compute + the
                                 // parameter all-gather of --shard-optimizer)
  double compression = 0;
  double communication = 0;  // the network is busy
  double latency = 0;        // share of the communication that does not depend on bytes
  double exposed = 0;        // communication that adds to the step
  double bytes = 0;          // sent by each worker
};
StepPrediction predict_step(const Measured& measured, const ParameterLayout& layout,
                            const CompressSetting& setting);

// A step of the compression's warm-up. Its gradients always pass through the hosts.
StepPrediction predict_warmup_step(const Measured& measured, const ParameterLayout& layout);

// The most exact setting that is nearly as fast as compute alone; see docs/design/compression.md.
CompressSetting choose_setting(const Measured& measured, const ParameterLayout& layout);
// All settings that choose_setting() considers, the most exact first.
std::vector<CompressSetting> candidates();

// The same job with a different number of workers or a different link (0: as measured). The batch
// is shared by all workers, or each worker's share stays as it is (`same_share`).
Measured simulate(const Measured& measured, int workers, double bandwidth, double latency,
                  bool same_share);

struct StepVerdict {
  Cause cause = Cause::kCompute;  // compute, network or compression; doctor also: straggler
  bool latency_bound = false;     // of the network: latency, not bandwidth
  int rank = -1;                  // of a straggler
};
StepVerdict verdict(const StepPrediction& prediction);

// Seconds that a worker usually takes: the median, the lower one of two.
double usual_seconds(std::vector<double> seconds_by_rank);

}  // namespace reigen
