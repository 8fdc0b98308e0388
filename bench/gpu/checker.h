// What the checks share: one object that runs operations, compares, and keeps the worst results.
//
// Its parts are in *_checks.cpp, by concept. Everything random comes from one seed, and every input
// is fresh.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gpu_buffers.h"
#include "op_checks.h"
#include "ops/dropout.h"

namespace reigen::bench {

// Relative error of a result that is rounded once to the type.
double rounding(DType dtype);

class Checker {
 public:
  Checker(const cuda::Context& context, uint64_t seed, bool quick)
      : context_(context), random_(seed), quick_(quick) {}

  CheckResults results;

  void products();     // product_checks.cpp
  void norms();        // row_checks.cpp
  void activations();  // row_checks.cpp
  void attentions();   // attention_checks.cpp
  void embeddings();   // loss_checks.cpp
  void losses();       // loss_checks.cpp
  void optimizer();    // step_checks.cpp
  void step_control();
  void loss_scaling();
  void decoding();  // decode_checks.cpp

 private:
  void add(const std::string& op, const std::string& which, double error, double tolerance);
  void require(const std::string& op, const std::string& which, bool good) {
    add(op, which, good ? 0 : INFINITY, 1);
  }
  void compare(const std::string& op, const std::string& which, const GpuMatrix& got,
               const Matrix& wanted, double tolerance, double least = 1e-30) {
    add(op, which, relative_error(got.download(), wanted, least), tolerance);
  }
  Matrix normal(int64_t rows, int64_t cols, double deviation = 1) {
    return random_matrix(random_, rows, cols, deviation);
  }

  // The same dropout for the host and for the device.
  struct Drop {
    std::vector<uint64_t> numbers;
    GpuArray<uint64_t> on_device;
    Dropout host;
    Dropout device;
  };
  Drop make_drop(int64_t rows, float rate) {
    Drop d;
    for (int64_t r = 0; r < rows; ++r) {
      d.numbers.push_back((uint64_t{1} << 33) + static_cast<uint64_t>(r) * 7919);
    }
    d.on_device = GpuArray<uint64_t>(d.numbers);
    // Beyond 32 bits, as both halves of a step's number count. The device takes it from the
    // context.
    d.host = {rate, {.seed = random_(), .step = random_() >> 16, .site = 5}, nullptr};
    context_.set_step({.step = d.host.site.step});
    d.device = d.host;
    d.device.site.step = 0;
    d.device.tokens = d.on_device.get();
    return d;
  }
  // `numbers` may move with the struct, so the pointer is set where it stays.
  static Dropout on_host(const Drop& d) {
    Dropout out = d.host;
    out.tokens = d.numbers.data();
    return out;
  }
  void finish() const {
    context_.settle();
    context_.queue().wait();
  }

  void product(DType dtype);
  void epilogues(DType dtype);
  void choices_replay();
  void norm(DType dtype, DType residual, int64_t rows, int64_t width, float rate, bool branch);
  void attention(const std::string& name, DType dtype, const std::vector<uint32_t>& queries,
                 const std::vector<uint32_t>& keys, int heads, int64_t width, bool causal,
                 float rate);
  void loss(DType dtype, int64_t tokens, int64_t pieces, int64_t width, int64_t chunk,
            float smoothing);
  void cached(DType dtype, int64_t rows, int heads, int64_t width, uint32_t longest);
  void tops(DType dtype, int64_t rows, int64_t pieces, int64_t keep, bool coarse);

  const cuda::Context& context_;
  std::mt19937_64 random_;
  bool quick_;
};

}  // namespace reigen::bench
