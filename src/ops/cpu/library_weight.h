// A weight in the layout of oneDNN's fastest products, for any number of rows of the other factor.
//
// oneDNN converts a plain matrix in every call, which for 4 rows takes longer than the product and
// for 100 rows a fifth of it; here it is converted once. Such kernels exist for AVX-512.
#pragma once

#include <cstdint>
#include <memory>

#include "ops/matmul.h"

namespace reigen::cpu {

enum class ProductType : uint8_t {
  kFloat,  // fp32 times fp32
  kBf16,   // bf16 times bf16, summed in fp32
  kInt8,   // u8 times s8, summed in s32; only where VNNI sums without saturation
};

class LibraryWeight {
 public:
  // Null where oneDNN has no such kernel for this processor. `values` is [out, in], in the type of
  // the product.
  static std::unique_ptr<LibraryWeight> pack(ProductType type, const void* values, int64_t out,
                                             int64_t in);
  virtual ~LibraryWeight() = default;

  // y [rows, out] = x [rows, in] weight', both without gaps between rows.
  virtual void multiply(const void* x, int64_t rows, void* y) const = 0;
};

// Whether products in bf16 are made of the processor's own instructions.
bool has_bf16_products();

// c [rows, cols] = alpha op(a) op(b) + beta c; factors without gaps between rows.
//
// Not by the primitive `matmul`: it is compiled for one shape, and the number of tokens varies from
// batch to batch (measured: 70 MB more after 20 steps, and not faster).
struct Bf16Product {
  const uint16_t* a = nullptr;
  Transpose ta = Transpose::kNo;
  const uint16_t* b = nullptr;
  Transpose tb = Transpose::kNo;
  float* c = nullptr;
  int64_t c_stride = 0;
  int64_t rows = 0;
  int64_t inner = 0;
  int64_t cols = 0;
  float alpha = 1;
  float beta = 0;
};
void multiply_bf16(const Bf16Product& product);

// oneDNN 2.6 chooses AMX kernels where the processor has AMX, and they end in SIGILL. Call it
// before the first product.
void avoid_broken_instructions();

// Products that oneDNN itself keeps, in case that they are made again, count for nothing here.
void keep_no_products();

}  // namespace reigen::cpu
