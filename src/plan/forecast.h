// What a step will take, from what was measured of computing and of the network.
//
// step = computing + compressing + what of the communication backward does not hide. Pure functions
// of a few numbers; `auto`, the warning at the start of a run and `reigen doctor` all ask here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dist/compress/compressor.h"
#include "plan/link_probe.h"

namespace reigen {

// Seconds of the slowest worker, for its share of a batch.
struct ComputeTimes {
  double forward = 0;
  double backward = 0;
  double optimizer = 0;
  double last_backward = 0;  // of the last micro-batch: what gradients can hide behind
  double all() const { return forward + backward + optimizer; }
};

// Seconds: of PowerSGD for each element, and for each element and rank; of integers for each
// element, which is spent beside backward, where gradients leave.
struct CompressCost {
  double element = 0;
  double element_rank = 0;
  double element_blocks = 0;
};
CompressCost measure_compress_cost(const Device& device);

struct Measured {
  int workers = 1;
  ComputeTimes compute;
  CompressCost compress;
  LinkModel link;                   // between the workers' hosts
  std::optional<LinkModel> direct;  // between their GPUs
  bool only_direct = false;         // nothing goes through the hosts, as asked
  bool shared_moments = false;      // parameters travel after each update
  bool no_spare_core = false;       // what backward hides takes time from it
  size_t bucket = 1 << 18;          // elements that leave at once, where nothing is rounded

  const LinkModel& link_for(const CompressSetting& setting) const {
    return direct && !computed_on_host(setting) ? *direct : link;
  }
};

struct StepForecast {
  CompressSetting setting;
  double seconds = 0;  // of a step, on average after the warm-up
  double compute = 0;
  double least = 0;  // with what travels whatever becomes of gradients
  double compression = 0;
  double communication = 0;  // the network is busy
  double latency = 0;        // of that, on the way whatever is sent
  double exposed = 0;        // and nobody computes
  double bytes = 0;          // that a worker sends
};
StepForecast forecast(const Measured& measured, const ParameterLayout& layout,
                      const CompressSetting& setting);

// A step of the warm-up, on the way of what follows.
StepForecast forecast_warmup(const Measured& measured, const ParameterLayout& layout);

// What loses least among what is nearly as fast as computing alone; see docs/design/compression.md.
CompressSetting choose(const Measured& measured, const ParameterLayout& layout);
// All it chooses from, the most faithful first.
std::vector<CompressSetting> candidates();

// The same job on other machines: so many workers, another link, the batch shared out over all.
Measured simulate(const Measured& measured, int workers, double bandwidth, double latency,
                  bool same_share);

// Of a step: from here on it is the network's, also for the warning at the start of a run. The
// report has the same limit where computing took most of the time.
constexpr double kMuchWaiting = 0.3;

// "network", "compute" or "compression" (doctor also: "straggler"), and a sentence that says why.
struct StepVerdict {
  std::string bottleneck;
  std::string sentence;
};
StepVerdict verdict(const StepForecast& forecast, const LinkModel& link);

}  // namespace reigen
