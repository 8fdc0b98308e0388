// One case of the operation tests: a device, a type and a tolerance. Each test runs for all of
// them; those of a GPU are skipped where there is none.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "device/buffer.h"
#include "device/gpu.h"
#include "ops/batch_index.h"
#include "ops/gpu_step.h"
#include "ops/reference.h"
#include "tensor/tensor.h"

namespace reigen {

struct OpCase {
  std::string name;
  DeviceKind kind = DeviceKind::kCpu;
  int threads = 1;
  DType type = DType::kF32;  // of matrices that operations read and write
  bool tf32 = false;
  float dropout = 0;
  double tolerance = 0;      // relative error of a result that is rounded once to `type`
  double in_products = 0;    // of a matrix product with a result of `type`
  double fp32_products = 0;  // of a matrix product with an fp32 result

  friend std::ostream& operator<<(std::ostream& out, const OpCase& c) { return out << c.name; }
};

std::vector<OpCase> op_cases();

void copy_in(const Device& device, void* to, const void* from, size_t bytes);
void copy_out(const Device& device, void* to, const void* from, size_t bytes);

// A matrix in the device's memory. It begins as NaN, in the gaps between rows too, so that elements
// that were not written, and gaps that were, show.
class Buffer {
 public:
  Buffer(const Device& device, int64_t rows, int64_t cols, DType type = DType::kF32,
         int64_t stride = 0);
  // Rounds `values` to the type, so that an operation and its reference start from the same
  // numbers.
  Buffer(const Device& device, reference::Matrix& values, DType type = DType::kF32,
         int64_t stride = 0);

  Tensor tensor() const { return {memory_.data(), type_, rows_, cols_, stride_}; }
  std::span<float> span() const { return {memory_.as<float>(), static_cast<size_t>(cols_)}; }
  void upload(reference::Matrix& values);
  reference::Matrix values() const;  // fails the test when a gap between rows was written

 private:
  Device device_;
  int64_t rows_;
  int64_t cols_;
  int64_t stride_;
  DType type_;
  DeviceBuffer memory_;
};

// An array in the device's memory.
template <class T>
class Array {
 public:
  Array(const Device& device, const std::vector<T>& values)
      : device_(device), memory_(device.kind(), values.size() * sizeof(T), "an array") {
    copy_in(device, memory_.data(), values.data(), memory_.size());
  }
  std::span<T> span() const { return {memory_.as<T>(), memory_.size() / sizeof(T)}; }
  std::vector<T> values() const {
    std::vector<T> out(memory_.size() / sizeof(T));
    copy_out(device_, out.data(), memory_.data(), memory_.size());
    return out;
  }

 private:
  Device device_;
  DeviceBuffer memory_;
};

// The same dropout for a device and for the reference.
struct Drop {
  Dropout on_device;
  Dropout reference;
};

class Ops : public ::testing::TestWithParam<OpCase> {
 protected:
  void SetUp() override;

  const Device& device() const { return *device_; }
  bool gpu() const { return device().kind() == DeviceKind::kGpu; }
  DType type() const { return GetParam().type; }
  double tolerance() const { return GetParam().tolerance; }
  // Multiples of 8 on a GPU, and odd sizes too on the CPU.
  std::vector<int64_t> widths(std::vector<int64_t> all, const std::vector<int64_t>& odd) const;
  int64_t stride(int64_t cols) const { return cols + (gpu() ? 8 : 3); }

  Buffer empty(int64_t rows, int64_t cols, int64_t stride = 0) const {
    return {device(), rows, cols, type(), stride};
  }
  Buffer typed(reference::Matrix& values, int64_t stride = 0) const {
    return {device(), values, type(), stride};
  }
  Buffer fp32(reference::Matrix& values, int64_t stride = 0) const {
    return {device(), values, DType::kF32, stride};
  }

  // Numbers of `rows` tokens, or those of a batch, and the case's dropout with them.
  Drop drop(int64_t rows, float rate);
  Drop drop(int64_t rows) { return drop(rows, GetParam().dropout); }
  Drop drop(const uint64_t* on_device, std::vector<uint64_t> numbers);

  static void expect_close(const Buffer& got, const reference::Matrix& wanted, double tolerance,
                           const std::string& what, double least = 1e-12);

 private:
  std::optional<Device> device_;
  std::vector<std::unique_ptr<std::vector<uint64_t>>> numbers_;
  std::vector<std::unique_ptr<Array<uint64_t>>> arrays_;
};

// GPU 0, opened once. Null where there is none.
const Device* test_gpu();

// Makes `step` the step of the GPU's operations.
void set_gpu_step(const Device& device, uint64_t step, double gradient_scale = 1);

// Sentences of these lengths as offsets, and places of their tokens.
std::vector<uint32_t> offsets_of(const std::vector<uint32_t>& lengths);
std::vector<uint32_t> places_of(const std::vector<uint32_t>& lengths);

// A batch of such sentences, its numbers for dropout neither contiguous nor small.
class TestBatch {
 public:
  TestBatch(const Device& device, std::vector<uint32_t> source_lengths,
            std::vector<uint32_t> target_lengths, const IndexShape& shape,
            std::vector<uint32_t> ids = {}, std::vector<uint32_t> targets = {});

  const BatchIndex& index() const { return *index_; }
  const std::vector<uint32_t>& offsets(int side) const { return offsets_[side]; }
  const std::vector<uint32_t>& places(int side) const { return places_[side]; }
  const std::vector<uint32_t>& ids() const { return ids_[0]; }
  std::vector<uint64_t> numbers(int side) const;  // as many as the index has rows

 private:
  std::vector<uint32_t> lengths_[2];
  std::vector<uint32_t> ids_[2];
  std::vector<uint32_t> offsets_[2];
  std::vector<uint32_t> places_[2];
  std::vector<uint64_t> first_[2];
  std::vector<uint32_t> targets_;
  std::unique_ptr<BatchIndex> index_;
};

}  // namespace reigen
