// Top-k: of gradient and what was not sent before, only the largest elements travel.
//
// Every rank sends as many, as pairs of index and value; all add them up in the order of ranks.
// Plain top-k is known to wreck Transformers (Aji et al. 2019), and does here (docs/design/
// compression.md): it is offered for comparison, and `auto` never chooses it.
#pragma once

#include "dist/compress/compressor.h"

namespace reigen {

class TopK : public Compressor {
 public:
  TopK(Group& group, const Device& device, size_t elements, double fraction);

  void begin(std::span<float> gradient) override { gradient_ = gradient; }
  void ready(size_t) override {}  // which are the largest is known at the end
  CommStatus finish() override;
  ReduceTimes times() const override { return reduce_times(sent_, computed_); }
  double compute_seconds() const override { return compute_; }
  std::vector<KeptTensor> kept() override { return {{"error", error_, true}}; }
  std::span<float> unsent() override { return error_; }

  static size_t entries(size_t elements, double fraction);  // that each rank sends

 private:
  void select();
  void merge();

  Group& group_;
  std::span<float> gradient_;
  std::vector<float> error_;
  std::vector<float> pairs_;  // of all ranks: indices, then values
  size_t entries_;
  CommClock::time_point computed_;
  std::vector<BucketTimes> sent_;
  double compute_ = 0;
};

}  // namespace reigen
