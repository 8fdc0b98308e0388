// PowerSGD (Vogels, Karimireddy and Jaggi 2019): a matrix travels as two thin factors.
//
// Each step is one step of subspace iteration on the sum of all gradients, begun where the step
// before ended. What the factors cannot carry is remembered and added to the next gradient. Vectors
// and matrices that would hardly shrink travel whole. Factors are rounded to bf16 on the wire; the
// memory takes care of that, too. All arithmetic that must give the same bits everywhere is plain
// loops in a fixed order, so machines may differ.
#pragma once

#include "dist/compress/compressor.h"

namespace reigen {

class PowerSgd : public Compressor {
 public:
  PowerSgd(Group& group, const Device& device, const ParameterLayout& layout, int64_t rank,
           uint64_t seed);

  void begin(std::span<float> gradient) override;
  void ready(size_t elements) override;
  CommStatus finish() override;
  ReduceTimes times() const override;
  double compute_seconds() const override { return compute_; }
  std::vector<KeptTensor> kept() override;
  std::span<float> unsent() override { return error_; }

  // What one rank puts in, before the all-reduce multiplies it.
  static StepTraffic payload(const ParameterLayout& layout, int64_t rank);

 private:
  struct Matrix {
    size_t rows, cols, offset;
    size_t left;   // its place in left_, rows x rank
    size_t right;  // in right_, rank x cols
  };
  struct Chunk {  // matrices whose factors travel together
    std::vector<Matrix> matrices;
    size_t end = 0;  // complete when so much of the gradient is
    ChunkRange left, right;
    Pending sent;
  };
  struct Whole {  // a slice that is not compressed
    size_t offset, size, at;
  };
  struct Parts {  // of a gradient
    std::vector<Chunk> chunks;
    std::vector<Whole> wholes;
    size_t left = 0, right = 0, whole = 0;  // elements
  };

  static Parts cut(const ParameterLayout& layout, size_t rank);
  void project(Chunk& chunk);
  void project_back(Chunk& chunk);
  void rebuild(Chunk& chunk);
  void reseed_empty_directions(const Chunk& chunk);
  void send_whole();
  void forget();
  void note(const Pending& done);

  Group& group_;
  const Device& device_;
  size_t rank_;
  uint64_t seed_;
  std::span<float> gradient_;
  std::vector<Chunk> chunks_;
  std::vector<Whole> wholes_;
  std::vector<float> error_;  // becomes gradient + error in a step, then what was not sent
  std::vector<float> left_;
  std::vector<float> right_;
  std::vector<float> whole_;
  Pending whole_sent_;
  size_t next_ = 0;  // the first chunk that is not under way
  CommClock::time_point computed_;
  std::vector<BucketTimes> sent_;
  double compute_ = 0;
};

}  // namespace reigen
