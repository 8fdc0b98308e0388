// Matrix products on CUDA through cuBLASLt, with an algorithm chosen per shape.
//
// The first time a kind of shape is met the library's best candidates are timed on the real
// operands (the result goes to a buffer that is freed again); from then on a product is one launch
// and allocates nothing. Shapes are of a kind when their sizes agree to four bits: numbers of
// tokens vary from batch to batch by less, and timing 25 products for each of them anew would take
// longer than the best choice gains. Choices can be written down and replayed, because two
// algorithms add in different orders: with the same record the same input gives the same bits.
// Split sums go through the workspace in fp32 and are added in order; algorithms that add in place
// are not considered.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "ops/cuda/context.h"
#include "ops/matmul.h"
#include "tensor/tensor.h"

namespace reigen::cuda {

// What happens to a product as it is written; `extra` points to it.
enum class Epilogue : uint8_t {
  kNone,
  kBias,      // + bias, of c's type, one per column
  kReluBias,  // relu(+ bias)
  kGeluBias,  // gelu(+ bias), tanh form
  kReluMask,  // kept where a bit is set: [rows, cols / 8] bytes; cols a multiple of 128
  kSumA,      // also the sums of op(a)'s rows over the inner index, of c's type: with a = dy
              // transposed that is a bias gradient; overwritten, not added to
};

struct Product {
  Tensor a;
  Transpose ta = Transpose::kNo;
  Tensor b;
  Transpose tb = Transpose::kNo;
  Tensor c;
  float alpha = 1;
  float beta = 0;
  Epilogue epilogue = Epilogue::kNone;
  void* extra = nullptr;
};

class Matmul {
 public:
  static constexpr size_t kWorkspaceBytes = size_t{64} << 20;

  Matmul();
  ~Matmul();

  void run(const Context& context, const Product& product);

  // fp32 operands through TF32 tensor cores: about 8 times as fast, 10 bits of mantissa.
  void allow_tf32(bool allow) { tf32_ = allow; }

  // How many of the library's candidates are timed for a new shape; 1 takes its first.
  void set_candidates(int count) { candidates_ = count; }

  // Every choice so far as text, and the way back. A record of another version of the library is
  // not taken over: replay then returns false and shapes are measured again.
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
  int candidates_ = 32;
};

void matmul(const Context& context, Tensor a, Transpose ta, Tensor b, Transpose tb, Tensor c,
            float alpha = 1, float beta = 0);

// The three products of a linear layer with weight [out, in].
void linear_forward(const Context& context, Tensor x, Tensor weight, Tensor y);
void linear_backward_input(const Context& context, Tensor dy, Tensor weight, Tensor dx,
                           bool accumulate);
void linear_backward_weight(const Context& context, Tensor dy, Tensor x, Tensor dweight);  // adds

// dx = scale * (dy weight), kept where `mask` has a bit: the gradient through ReLU and dropout,
// with scale 1 / (1 - rate) and the mask of activation_forward.
void linear_backward_input_masked(const Context& context, Tensor dy, Tensor weight, float scale,
                                  const uint8_t* mask, Tensor dx);

}  // namespace reigen::cuda
