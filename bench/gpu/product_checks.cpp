// Matrix products, what they do as they write, and that their choices can be replayed.
#include <cstdio>

#include "base/error.h"
#include "checker.h"
#include "ops/cuda/matmul.h"

namespace reigen::bench {

using host::column_sums;
using host::multiply;

void Checker::product(DType dtype) {
  const int64_t tokens = 333, in = 96, out = 72;
  Matrix x = normal(tokens, in), w = normal(out, in), dy = normal(tokens, out);
  GpuMatrix gx(x, dtype, in + 8), gw(w, dtype), gdy(dy, dtype, out + 16);
  const std::string type = name_of(dtype);
  GpuMatrix y(tokens, out, dtype, out + 8);
  cuda::linear_forward(context_, gx.tensor(), gw.tensor(), y.tensor());
  finish();
  compare("product", type + " forward", y, multiply(x, false, w, true), rounding(dtype));
  for (bool accumulate : {false, true}) {
    Matrix before = normal(tokens, in);
    GpuMatrix dx(before, dtype, in + 8);
    cuda::linear_backward_input(context_, gdy.tensor(), gw.tensor(), dx.tensor(), accumulate);
    finish();
    Matrix wanted = multiply(dy, false, w, false);
    for (size_t i = 0; accumulate && i < wanted.values.size(); ++i) {
      wanted.values[i] += before.values[i];
    }
    compare("product", type + " input gradient", dx, wanted, rounding(dtype));
  }
  Matrix before = normal(out, in);
  GpuMatrix dw(before, DType::kF32);
  cuda::linear_backward_weight(context_, gdy.tensor(), gx.tensor(), dw.tensor());
  finish();
  Matrix wanted = multiply(dy, true, x, false);
  for (size_t i = 0; i < wanted.values.size(); ++i) wanted.values[i] += before.values[i];
  compare("product", type + " weight gradient", dw, wanted, rounding(DType::kF32));
}

void Checker::epilogues(DType dtype) {
  const int64_t tokens = 200, in = 128, out = 256;
  Matrix x = normal(tokens, in), w = normal(out, in, 0.1), bias = normal(1, out);
  GpuMatrix gx(x, dtype), gw(w, dtype), gbias(bias, dtype);
  const std::string type = name_of(dtype);
  const Matrix plain = multiply(x, false, w, true);
  using cuda::Epilogue;
  for (auto [epilogue, name] : {std::pair{Epilogue::kBias, " bias"},
                                {Epilogue::kReluBias, " relu"},
                                {Epilogue::kGeluBias, " gelu"}}) {
    GpuMatrix y(tokens, out, dtype);
    context_.matmul().run(context_, {gx.tensor(), Transpose::kNo, gw.tensor(), Transpose::kYes,
                                     y.tensor(), 1, 0, epilogue, gbias.tensor().data});
    finish();
    Matrix wanted(tokens, out);
    for (int64_t r = 0; r < tokens; ++r) {
      for (int64_t c = 0; c < out; ++c) wanted.at(r, c) = plain.at(r, c) + bias.at(0, c);
    }
    if (epilogue == Epilogue::kReluBias) {
      wanted = host::activation(ActivationKind::kRelu, plain, bias, {});
    }
    if (epilogue == Epilogue::kGeluBias) {
      wanted = host::activation(ActivationKind::kGelu, plain, bias, {});
    }
    compare("product epilogue", type + name, y, wanted, rounding(dtype));
  }
  std::vector<uint8_t> mask(static_cast<size_t>(tokens * out / 8));
  for (auto& byte : mask) byte = static_cast<uint8_t>(random_());
  GpuArray<uint8_t> gmask(mask);
  GpuMatrix y(tokens, out, dtype);
  Matrix wt = normal(in, out, 0.1);
  GpuMatrix gwt(wt, dtype);
  try {
    cuda::linear_backward_input_masked(context_, gx.tensor(), gwt.tensor(), 1.25F, gmask.get(),
                                       y.tensor());
    finish();
    Matrix wanted = multiply(x, false, wt, false);
    for (int64_t i = 0; i < tokens * out; ++i) {
      const bool kept = mask[static_cast<size_t>(i / 8)] >> (i % 8) & 1;
      wanted.values[static_cast<size_t>(i)] *= kept ? 1.25 : 0;
    }
    compare("product epilogue", type + " mask", y, wanted, rounding(dtype));
  } catch (const DeviceError& e) {
    std::printf("not supported: %s\n", e.what());
  }
  try {
    Matrix dy = normal(tokens, out), before = normal(out, in);
    GpuMatrix gdy(dy, dtype), dw(before, DType::kF32), sums(1, out, DType::kF32);
    context_.matmul().run(context_, {gdy.tensor(), Transpose::kYes, gx.tensor(), Transpose::kNo,
                                     dw.tensor(), 1, 1, Epilogue::kSumA, sums.tensor().data});
    finish();
    compare("product epilogue", type + " sums", sums, column_sums(dy), rounding(DType::kF32));
    Matrix wanted = multiply(dy, true, x, false);
    for (size_t i = 0; i < wanted.values.size(); ++i) wanted.values[i] += before.values[i];
    compare("product epilogue", type + " sums' product", dw, wanted, rounding(DType::kF32));
  } catch (const DeviceError& e) {
    std::printf("not supported: %s\n", e.what());
  }
}

// Choices written down and taken up by another object give the same bits.
void Checker::choices_replay() {
  const int64_t tokens = 4096;
  Matrix x = normal(tokens, 512), dy = normal(tokens, 512), zero(512, 512);
  GpuMatrix gx(x, DType::kBF16), gdy(dy, DType::kBF16);
  GpuMatrix first(zero, DType::kF32), second(zero, DType::kF32);
  const cuda::Product product{
      gdy.tensor(), Transpose::kYes, gx.tensor(), Transpose::kNo, first.tensor(), 1, 1};
  context_.matmul().run(context_, product);
  cuda::Matmul other;
  const bool taken = other.replay(context_.matmul().record());
  cuda::Product again = product;
  again.c = second.tensor();
  other.run(context_, again);
  finish();
  const bool same = first.download().values == second.download().values;
  const bool text = other.record() == context_.matmul().record();
  add("product replay", "weight gradient", taken && same && text ? 0 : INFINITY, 1);
}

void Checker::products() {
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) product(dtype);
  for (DType dtype : {DType::kBF16, DType::kF16}) epilogues(dtype);
  choices_replay();
}

}  // namespace reigen::bench
