#include "gpu_buffers.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace reigen::bench {
namespace {

uint16_t bf16_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
float bf16_value(uint16_t half) {
  const uint32_t bits = uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

void encode(double value, DType dtype, char* to) {
  const auto single = static_cast<float>(value);
  if (dtype == DType::kF32) std::memcpy(to, &single, 4);
  if (dtype == DType::kBF16) {
    const uint16_t bits = bf16_bits(single);
    std::memcpy(to, &bits, 2);
  }
  if (dtype == DType::kF16) {
    const auto half = static_cast<_Float16>(single);
    std::memcpy(to, &half, 2);
  }
}

double decode(DType dtype, const char* from) {
  if (dtype == DType::kF32) {
    float single;
    std::memcpy(&single, from, 4);
    return single;
  }
  if (dtype == DType::kBF16) {
    uint16_t bits;
    std::memcpy(&bits, from, 2);
    return bf16_value(bits);
  }
  _Float16 half;
  std::memcpy(&half, from, 2);
  return static_cast<double>(half);
}

}  // namespace

double rounded(double value, DType dtype) {
  char bytes[4];
  encode(value, dtype, bytes);
  return decode(dtype, bytes);
}

GpuMatrix::GpuMatrix(int64_t rows, int64_t cols, DType dtype, int64_t stride)
    : rows_(rows),
      cols_(cols),
      stride_(std::max(stride, cols)),
      dtype_(dtype),
      memory_(static_cast<size_t>(rows * stride_) * size_of(dtype), "a matrix") {
  cuda::check(cudaMemset(memory_.get(), 0xFF, memory_.size()), "poison a matrix");
}

GpuMatrix::GpuMatrix(Matrix& values, DType dtype, int64_t stride)
    : GpuMatrix(values.rows, values.cols, dtype, stride) {
  upload(values);
}

void GpuMatrix::upload(Matrix& values) {
  const size_t size = size_of(dtype_);
  std::vector<char> bytes(memory_.size(), static_cast<char>(0xFF));
  for (int64_t r = 0; r < rows_; ++r) {
    for (int64_t c = 0; c < cols_; ++c) {
      char* at = bytes.data() + static_cast<size_t>(r * stride_ + c) * size;
      encode(values.at(r, c), dtype_, at);
      values.at(r, c) = decode(dtype_, at);
    }
  }
  cuda::check(cudaMemcpy(memory_.get(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
              "copy a matrix to the GPU");
}

Matrix GpuMatrix::download() const {
  const size_t size = size_of(dtype_);
  std::vector<char> bytes(memory_.size());
  cuda::check(cudaMemcpy(bytes.data(), memory_.get(), bytes.size(), cudaMemcpyDeviceToHost),
              "copy a matrix from the GPU");
  Matrix out(rows_, cols_);
  bool gaps_whole = true;
  for (int64_t r = 0; r < rows_; ++r) {
    for (int64_t c = 0; c < stride_; ++c) {
      const char* at = bytes.data() + static_cast<size_t>(r * stride_ + c) * size;
      if (c < cols_) {
        out.at(r, c) = decode(dtype_, at);
      } else {
        gaps_whole = gaps_whole && std::isnan(decode(dtype_, at));
      }
    }
  }
  if (!gaps_whole) out.values[0] = NAN;
  return out;
}

Matrix random_matrix(std::mt19937_64& random, int64_t rows, int64_t cols, double deviation) {
  std::normal_distribution<double> normal(0, deviation);
  Matrix m(rows, cols);
  for (double& x : m.values) x = normal(random);
  return m;
}

double relative_error(const Matrix& got, const Matrix& wanted, double least) {
  if (got.values.size() != wanted.values.size()) return INFINITY;
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < got.values.size(); ++i) {
    difference += std::pow(got.values[i] - wanted.values[i], 2);
    size += std::pow(wanted.values[i], 2);
  }
  return std::sqrt(difference) / std::max(std::sqrt(size), least);
}

}  // namespace reigen::bench
