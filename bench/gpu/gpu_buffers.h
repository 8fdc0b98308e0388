// Matrices and arrays on the GPU for checks and timings: upload, download, poison.
//
// Uploading rounds the host's numbers to the type first, so that an operation and its reference
// start from the same values. Outputs begin as NaN, in the gaps between rows too, so that what was
// not written, or was written outside, shows.
#pragma once

#include <random>
#include <vector>

#include "device/cuda/runtime.h"
#include "host_reference.h"
#include "tensor/tensor.h"

namespace reigen::bench {

using host::Matrix;

double rounded(double value, DType dtype);

class GpuMatrix {
 public:
  GpuMatrix(int64_t rows, int64_t cols, DType dtype, int64_t stride = 0);  // NaN everywhere
  GpuMatrix(Matrix& values, DType dtype, int64_t stride = 0);              // rounds `values`

  Tensor tensor() const { return {memory_.get(), dtype_, rows_, cols_, stride_}; }
  void upload(Matrix& values);
  Matrix download() const;  // NaN in the first element when a gap between rows was written

 private:
  int64_t rows_;
  int64_t cols_;
  int64_t stride_;
  DType dtype_;
  cuda::DeviceMemory memory_;
};

template <class T>
class GpuArray {
 public:
  GpuArray() = default;
  explicit GpuArray(const std::vector<T>& values)
      : memory_(values.size() * sizeof(T), "an array"), size_(values.size()) {
    cuda::check(cudaMemcpy(memory_.get(), values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
                "copy an array to the GPU");
  }
  T* get() const { return memory_.template as<T>(); }
  size_t size() const { return size_; }
  std::vector<T> download() const {
    std::vector<T> out(size_);
    cuda::check(cudaMemcpy(out.data(), memory_.get(), size_ * sizeof(T), cudaMemcpyDeviceToHost),
                "copy an array from the GPU");
    return out;
  }

 private:
  cuda::DeviceMemory memory_;
  size_t size_ = 0;
};

// Normal numbers with this deviation.
Matrix random_matrix(std::mt19937_64& random, int64_t rows, int64_t cols, double deviation = 1);

// ||got - wanted|| / ||wanted|| (or `least`, if that is larger); NaN when anything is NaN.
double relative_error(const Matrix& got, const Matrix& wanted, double least = 1e-30);

}  // namespace reigen::bench
