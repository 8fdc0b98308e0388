// How the gradients of all workers become one: exactly, rounded, or as something much smaller.
//
// A step's flat local gradient goes in as backward completes it; what comes out is the sum over all
// ranks, or what a lossy method makes of it, and is the same to the last bit on every rank. What a
// method remembers from step to step (what it did not send yet, what it sends with) is its state: a
// run that stops and goes on with it takes the course it would have taken.
//
// With local steps nothing is summed in a step; the weights are, every so often (outer_step.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/compress_options.h"
#include "device/device.h"
#include "dist/compress/bucket_reducer.h"
#include "dist/group/group.h"
#include "tensor/parameters.h"

namespace reigen {

// A buffer that a run has to remember.
struct KeptTensor {
  std::string name;
  std::span<float> values;
  bool own = false;  // each rank has another
};

class Compressor {
 public:
  virtual ~Compressor() = default;

  // A step begins: nothing of the gradient, which stays where it is until finish(), is complete.
  virtual void begin(std::span<float> gradient) = 0;
  // From now on the first `elements` do not change any more. Never less than before.
  virtual void ready(size_t elements) = 0;
  // All of it is complete. Returns when it is everybody's, or why that cannot be.
  virtual CommStatus finish() = 0;

  // Of the last step that was finished.
  virtual ReduceTimes times() const = 0;
  virtual double compute_seconds() const { return 0; }  // in finish(), not waiting for anybody

  virtual std::vector<KeptTensor> kept() { return {}; }
  // Of these, what is added to this rank's next gradient; empty where nothing is left out.
  virtual std::span<float> unsent() { return {}; }
};

struct CompressorPlan {
  CompressSetting setting;  // not auto, not local
  size_t bucket = 0;        // elements that leave at once, where nothing is left out
  uint64_t seed = 1;
  std::span<float> unsent = {};  // takes what rounding to integers loses; empty for its own
};

// All that is given must outlive it.
std::unique_ptr<Compressor> make_compressor(Group& group, const Device& device,
                                            const ParameterLayout& layout,
                                            const CompressorPlan& plan);

// What a rank hands to the network in a step, on average; the factor 2(n-1)/n of an all-reduce or
// n-1 of an all-gather is part of it. Late are the buckets that reach into what is complete only
// when backward has ended, and whatever needs the whole gradient.
struct StepTraffic {
  double bytes = 0;
  double messages = 0;  // one at a time, so that each pays the latency
  double late_bytes = 0;
  double late_messages = 0;
};
// `bucket` as in CompressorPlan.
StepTraffic traffic_per_step(const ParameterLayout& layout, const CompressSetting& setting,
                             int workers, size_t bucket);

}  // namespace reigen
