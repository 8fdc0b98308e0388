// A whole training step of the base model, made of the CUDA operations in the model's own order.
//
// It is what src/model would enqueue: packed sentences, every activation in memory of its own, the
// real flow of data, dropout on. So operations are timed where they will run, with the caches as
// they will find them, and the step's total shows the gaps between them too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/cuda/context.h"

namespace reigen::bench {

struct StepOptions {
  int64_t source_tokens = 20'772;
  int64_t target_tokens = 21'417;
  int64_t pieces = 32'768;
  int64_t round_to = 128;      // token counts are rounded up to a multiple of this
  int64_t chunk = 5'504;       // tokens of the projection at once
  bool mask_epilogue = true;   // ReLU's gradient inside the product
  bool sum_epilogue = true;    // and the bias gradient inside another
  bool fp32_residual = false;  // the residual stream
  bool beside = false;         // weight gradients on a stream of their own
  uint64_t seed = 1;
};

// One kind of operation in the step.
struct OpTime {
  std::string group;  // products, attention, ...
  std::string name;
  std::string check;  // the name of its checks
  int count = 0;      // per step
  double microseconds = 0;
  double bytes = 0;
  double flops = 0;
};

class BaseStep {
 public:
  BaseStep(const cuda::Context& context, const StepOptions& options);
  ~BaseStep();

  void reset();                      // parameters and moments as at the start
  void enqueue();                    // one step
  void capture();                    // a step as a CUDA graph
  void replay();                     // that graph, as the next step
  std::vector<double> sums() const;  // smoothed and nll since the last reset
  uint64_t fingerprint() const;      // of all parameters, bit by bit
  std::vector<OpTime> profile(int steps);
  double milliseconds(int steps, double* host_milliseconds);  // per step, one after the other
  double graph_milliseconds(int steps);                       // the same, replayed as a CUDA graph
  size_t device_bytes() const;  // activations, parameters and scratch of this step
  int sentences() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reigen::bench
