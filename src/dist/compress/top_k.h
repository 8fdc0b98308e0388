// Top-k with error feedback: only the largest elements of gradient + residual are sent.
//
// Every rank sends the same number of (index, value) pairs; all ranks add them in the order of
// ranks. Plain top-k is known to harm Transformers (Aji et al. 2019), and does here
// (docs/design/compression.md): it is offered for comparison, and `auto` never chooses it.
#pragma once

#include "dist/compress/compressor.h"

namespace reigen {

class TopK : public Compressor {
 public:
  TopK(Group& group, size_t elements, const CompressorPlan& plan);

  void begin(std::span<float> gradient) override { gradient_ = gradient; }
  void ready(size_t) override {}  // the largest elements are known only at the end
  CommStatus finish() override;
  ReduceTimes times() const override { return reduce_times(sent_, computed_); }
  double compute_seconds() const override { return compute_; }
  std::vector<StateTensor> state() override {
    return {{.name = "error", .values = residual_->last(), .per_rank = true}};
  }
  std::shared_ptr<Residual> residual() override { return residual_; }
  void commit() override { residual_->commit(); }
  void use(Group& group) override;

  static size_t entries(size_t elements, double fraction);  // pairs that each rank sends

 private:
  void select();
  void merge();

  Group* group_ = nullptr;
  std::span<float> gradient_;
  std::shared_ptr<Residual> residual_;
  std::vector<float> pairs_;  // by rank: its indices, then its values
  size_t entries_;
  CommClock::time_point computed_;
  std::vector<OpTimes> sent_;
  double compute_ = 0;
};

}  // namespace reigen
