// Start here: how the gradients of all workers become one, exactly, rounded, or compressed.
// Methods: bucket_reducer.h (dense), power_sgd.h, top_k.h; outer_step.h averages weights instead.
//
// A step's flat local gradient goes in as backward completes it; the output is the sum over all
// ranks, or a lossy method's approximation, identical to the last bit on every rank. Tensors that a
// method carries from step to step (residual, factors) are its state: a run resumed with them
// continues exactly as without the interruption.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/compress_options.h"
#include "device/device.h"
#include "dist/compress/reduce_times.h"
#include "dist/compress/residual.h"
#include "dist/group/group.h"
#include "tensor/parameters.h"

namespace reigen {

// A tensor of a method's state, for checkpoints.
struct StateTensor {
  std::string name;
  std::span<float> values;
  bool per_rank = false;  // different on each rank
};

class Compressor {
 public:
  Compressor() = default;
  virtual ~Compressor() = default;
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  // A step begins: no element of the gradient is final. The memory stays in use until finish().
  virtual void begin(std::span<float> gradient) = 0;
  // The first `elements` of the gradient are final. Never fewer than before.
  virtual void ready(size_t elements) = 0;
  // The whole gradient is final. Blocks until it is reduced on all ranks, or returns the failure.
  virtual CommStatus finish() = 0;

  // Measurements of the last finished step.
  virtual ReduceTimes times() const = 0;
  virtual double compute_seconds() const { return 0; }  // in finish(), without waiting

  virtual std::vector<StateTensor> state() { return {}; }
  // The tensor of the state that is added to this rank's next gradient (error feedback); null if
  // the method loses nothing.
  virtual std::shared_ptr<Residual> residual() { return nullptr; }

  // The end of a step where it may be done again (CompressorPlan::repeatable), after finish():
  // commit() makes the new state the current one, restore() returns to the state before begin(),
  // also after a failure. Without effect elsewhere.
  virtual void commit() {}
  virtual void restore() {}
  // The next steps are reduced over `group`, with any number of ranks; the state stays.
  virtual void use(Group& group) = 0;
};

struct CompressorPlan {
  CompressSetting setting;  // not auto, not local
  size_t bucket = 0;        // elements of a bucket, where nothing is rounded
  uint64_t seed = 1;
  std::shared_ptr<Residual> residual = nullptr;  // of int8 and int4; null for their own
  bool repeatable = false;  // a step may be done again, which takes a copy of the state
};

// All arguments must outlive the compressor.
std::unique_ptr<Compressor> make_compressor(Group& group, const Device& device,
                                            const ParameterLayout& layout,
                                            const CompressorPlan& plan);

// Methods that leave out most of the gradient start after a warm-up: the first steps of a run, in
// which gradients are sent as int4.
inline constexpr CompressSetting kWarmupSetting = {.method = CompressMethod::kInt4};
bool has_warmup(const CompressSetting& setting);

// Whether the method works in host memory only; all other methods also run from GPU to GPU.
bool computed_on_host(const CompressSetting& setting);

// Bytes and messages that a rank sends in a step, on average, including the factor 2(n-1)/n of an
// all-reduce or n-1 of an all-gather. `late_*` are the ones that cannot leave before backward
// ends: buckets with elements that are final only then, and all that need the whole gradient.
struct StepTraffic {
  double bytes = 0;
  double messages = 0;  // in sequence, so that each costs one latency
  double late_bytes = 0;
  double late_messages = 0;
};
// `bucket` as in CompressorPlan.
StepTraffic traffic_per_step(const ParameterLayout& layout, const CompressSetting& setting,
                             int workers, size_t bucket);

}  // namespace reigen
