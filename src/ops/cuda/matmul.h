// Matrix products on CUDA through cuBLASLt, with an algorithm chosen per shape.
//
// For the first product of a kind of shape, the library's best candidates are timed on the real
// operands (the result goes to a temporary buffer); afterwards a product is one launch and
// allocates nothing. Shapes are of a kind when their sizes agree to four bits: token counts vary
// less than that from batch to batch, and timing 25 products for each exact shape would take longer
// than the best choice gains. Choices can be recorded and replayed, because two algorithms add in
// different orders: with the same record the same input gives the same bits. Split sums go through
// the workspace in fp32 and are added in order; algorithms that add in place are excluded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "ops/cuda/context.h"
#include "ops/matmul.h"
#include "tensor/tensor.h"

namespace reigen::cuda {

// c = alpha op(a) op(b) + beta add
struct Product {
  Tensor a;
  Transpose ta = Transpose::kNo;
  Tensor b;
  Transpose tb = Transpose::kNo;
  Tensor c;
  float alpha = 1;
  float beta = 0;
  const void* add = nullptr;  // in the form of c; null for c itself
  int64_t batch = 1;          // products of one shape, their matrices one after the other
  // Not timed: the library's own first choice, which is the same in every process on one kind of
  // GPU, and which no record changes.
  bool timed = true;
  // A stream beside the context's, with a workspace of kWorkspaceBytes; algorithms are still timed
  // on the context's stream.
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
};

class Matmul {
 public:
  static constexpr size_t kWorkspaceBytes = size_t{64} << 20;

  Matmul();
  ~Matmul();

  void run(const Context& context, const Product& product);

  // fp32 operands through TF32 tensor cores: about 8 times as fast, 10 bits of mantissa.
  void allow_tf32(bool allow) { tf32_ = allow; }

  // Off: every product as with Product::timed off.
  void time_algorithms(bool time) { timing_ = time; }

  // Every choice so far as text, and its reuse. For a record of a different version of the library,
  // replay() returns false and shapes are timed again.
  std::string record() const;
  bool replay(const std::string& record);

 private:
  struct Key;
  struct Plan;
  struct State;

  Plan& plan_for(const Context& context, const Product& product);
  void take_choice(const Context& context, const Product& product, const Key& key, Plan& plan);
  void choose(const Context& context, const Product& product, Plan& plan);

  std::unique_ptr<State> state_;
  DeviceMemory workspace_;
  bool tf32_ = false;
  bool timing_ = true;
};

void matmul(const Context& context, Tensor a, Transpose ta, Tensor b, Transpose tb, Tensor c,
            float alpha = 1, float beta = 0);

// The three products of a linear layer with weight [out, in].
void linear_forward(const Context& context, Tensor x, Tensor weight, Tensor y);
void linear_backward_input(const Context& context, Tensor dy, Tensor weight, Tensor dx,
                           bool accumulate);
void linear_backward_weight(const Context& context, Tensor dy, Tensor x, Tensor dweight);  // adds

}  // namespace reigen::cuda
