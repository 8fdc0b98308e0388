// A weight in the layout of oneDNN's fastest products, for any number of rows of the other factor.
//
// oneDNN converts a plain matrix in every call, which for 4 rows takes longer than the product and
// for 100 rows a fifth of it; here it is converted once. Such kernels exist for AVX-512.
#pragma once

#include <cstdint>
#include <memory>

namespace reigen::cpu {

enum class ProductType : uint8_t {
  kFloat,  // fp32 times fp32
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

// Instruction sets that ONEDNN_MAX_CPU_ISA leaves, by which a user limits oneDNN; it holds for our
// own products, too.
bool may_use_avx512_bf16();
bool may_use_amx();

// oneDNN 2.6 chooses AMX kernels where the processor has AMX, and they end in SIGILL. Call it
// before the first product.
void avoid_broken_instructions();

// Products that oneDNN itself stores, in case that they are made again, gain nothing here.
void keep_no_products();

}  // namespace reigen::cpu
