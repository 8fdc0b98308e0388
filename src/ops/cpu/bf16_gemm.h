// Products of fp32 matrices with factors rounded to bf16 and sums in fp32, by the kernels of
// bf16_kernels.h.
//
// The smaller factor is packed whole, for all threads (sums longer than 4,096 steps in parts); the
// larger one block by block by the thread that multiplies it, so that it is read from memory once
// and rounded on the way. An element's sum is taken in the same order whatever the number of
// threads.
#pragma once

#include <cstdint>
#include <memory>

#include "device/device.h"
#include "ops/cpu/bf16_kernels.h"
#include "ops/cpu/packed_weight.h"
#include "ops/matmul.h"
#include "tensor/tensor.h"

namespace reigen::cpu {

// c = alpha op(a) op(b) + beta c
struct Bf16Product {
  Tensor a;
  Transpose ta = Transpose::kNo;
  Tensor b;
  Transpose tb = Transpose::kNo;
  Tensor c;
  float alpha = 1;
  float beta = 0;
};
void multiply_bf16(const Device& device, const Bf16Kernels& kernels, const Bf16Product& product);

// c = x x', or x' x if `t`, by its upper triangle.
void gram_bf16(const Device& device, const Bf16Kernels& kernels, Tensor x, Transpose t, Tensor c);

// A weight [out, in], packed once.
class Bf16Weight : public CpuWeight {
 public:
  Bf16Weight(const Device& device, const Bf16Kernels& kernels, Tensor weight);
  void multiply(const Device& device, Tensor x, Tensor y) const override;

 private:
  struct Freed {
    void operator()(uint16_t* memory) const;
  };
  const Bf16Kernels& kernels_;
  int64_t out_;
  int64_t in_;
  std::unique_ptr<uint16_t, Freed> panels_;
};

// The fastest kernels of this processor; null where it has no instructions for bf16.
const Bf16Kernels* fastest_bf16_kernels();

}  // namespace reigen::cpu
