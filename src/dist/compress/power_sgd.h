// PowerSGD (Vogels, Karimireddy and Jaggi 2019): a matrix is sent as two thin factors.
//
// Each step is one step of subspace iteration on the sum of all gradients, warm-started with the
// factors of the step before. The part of the gradient that the factors lack stays in the residual
// and is added to the next gradient. Vectors, and matrices that would hardly shrink, are sent
// whole. Factors are rounded to bf16; error feedback covers that, too. All arithmetic that must
// give the same bits on every rank is plain loops in a fixed order, so ranks may have different
// processors.
#pragma once

#include "dist/compress/compressor.h"

namespace reigen {

class PowerSgd : public Compressor {
 public:
  PowerSgd(Group& group, const Device& device, const ParameterLayout& layout,
           const CompressorPlan& plan);

  void begin(std::span<float> gradient) override;
  void ready(size_t elements) override;
  CommStatus finish() override;
  ReduceTimes times() const override;
  double compute_seconds() const override { return compute_; }
  std::vector<StateTensor> state() override;
  std::shared_ptr<Residual> residual() override { return residual_; }
  void commit() override { residual_->commit(); }
  void restore() override {
    if (repeatable_) right_ = right_before_;
  }
  void use(Group& group) override { group_ = &group; }

  // The payload of one rank, without the factor of an all-reduce.
  static StepTraffic payload(const ParameterLayout& layout, int64_t rank);

 private:
  struct Matrix {
    size_t rows, cols, offset;
    size_t left;   // offset in left_, rows x rank
    size_t right;  // offset in right_, rank x cols
  };
  struct Bucket {  // matrices whose factors are sent in one all-reduce
    std::vector<Matrix> matrices;
    size_t end = 0;  // final once this many elements of the gradient are
    ChunkRange left, right;
    Pending sent;
  };
  struct Whole {  // a slice that is not compressed
    size_t offset, size, at;
  };
  struct Split {  // of a gradient
    std::vector<Bucket> buckets;
    std::vector<Whole> wholes;
    size_t left = 0, right = 0, whole = 0;  // elements
  };

  static Split split(const ParameterLayout& layout, size_t rank);
  void project(Bucket& bucket);
  void project_back(Bucket& bucket);
  void rebuild(Bucket& bucket);
  void reseed_empty_directions(const Bucket& bucket);
  void send_whole();
  void reset();

  Group* group_;
  const Device& device_;
  size_t rank_;
  uint64_t seed_;
  std::span<float> gradient_;
  std::vector<Bucket> buckets_;
  std::vector<Whole> wholes_;
  std::shared_ptr<Residual> residual_;  // during a step, next() is gradient + residual
  bool repeatable_;
  std::vector<float> left_;
  std::vector<float> right_;
  std::vector<float> right_before_;  // the step under way; empty unless repeatable_
  std::vector<float> whole_;
  Pending whole_sent_;
  size_t next_ = 0;  // the first bucket that was not sent yet
  CommClock::time_point computed_;
  std::vector<OpTimes> sent_;
  double compute_ = 0;
};

}  // namespace reigen
