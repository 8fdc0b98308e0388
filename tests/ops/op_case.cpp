#include "ops/op_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/cuda_info.h"
#include "ops/gpu_backend.h"

namespace reigen {
namespace {

using reference::Matrix;

#if defined(__aarch64__)
using Half = __fp16;  // GCC 12 has the other name for x86 only
#else
using Half = _Float16;
#endif

void encode(double value, DType type, char* to) {
  const auto single = static_cast<float>(value);
  if (type == DType::kF32) std::memcpy(to, &single, 4);
  if (type == DType::kBF16) {
    uint32_t bits;
    std::memcpy(&bits, &single, 4);
    const auto half = static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    std::memcpy(to, &half, 2);
  }
  if (type == DType::kF16) {
    const auto half = static_cast<Half>(single);
    std::memcpy(to, &half, 2);
  }
}

double decode(DType type, const char* from) {
  if (type == DType::kF16) {
    Half half;
    std::memcpy(&half, from, 2);
    return static_cast<double>(half);
  }
  uint32_t bits = 0;
  if (type == DType::kF32) {
    std::memcpy(&bits, from, 4);
  } else {
    uint16_t half;
    std::memcpy(&half, from, 2);
    bits = uint32_t{half} << 16;
  }
  float value;
  std::memcpy(&value, &bits, 4);
  return static_cast<double>(value);
}

}  // namespace

std::vector<OpCase> op_cases() {
  constexpr double kFp32 = 3e-6;
  constexpr double kTf32 = 1e-3;  // inputs of a product have 10 bits of mantissa
  constexpr double kBf16 = 3e-3;
  constexpr double kFp16 = 5e-4;
  const DeviceKind c = DeviceKind::kCpu, g = DeviceKind::kGpu;
  std::vector<OpCase> cases = {
      {"cpu_1_thread", c, 1, DType::kF32, false, 0, kFp32, kFp32, kFp32},
      {"cpu_1_thread_dropout", c, 1, DType::kF32, false, 0.3F, kFp32, kFp32, kFp32},
      {"cpu_3_threads", c, 3, DType::kF32, false, 0, kFp32, kFp32, kFp32},
      {"cpu_3_threads_dropout", c, 3, DType::kF32, false, 0.1F, kFp32, kFp32, kFp32},
  };
  for (float rate : {0.0F, 0.1F}) {
    const std::string end = rate > 0 ? "_dropout" : "";
    cases.push_back({"cuda_fp32" + end, g, 1, DType::kF32, false, rate, kFp32, kFp32, kFp32});
    cases.push_back({"cuda_tf32" + end, g, 1, DType::kF32, true, rate, kFp32, kTf32, kTf32});
    cases.push_back({"cuda_bf16" + end, g, 1, DType::kBF16, false, rate, kBf16, kBf16, kFp32});
    cases.push_back({"cuda_fp16" + end, g, 1, DType::kF16, false, rate, kFp16, kFp16, kFp32});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Devices, Ops, ::testing::ValuesIn(op_cases()),
                         [](const auto& info) { return info.param.name; });

void copy_in(const Device& device, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  if (device.gpu() != nullptr) return device.gpu()->upload(to, from, bytes);
  std::memcpy(to, from, bytes);
}

void copy_out(const Device& device, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  if (device.gpu() != nullptr) return device.gpu()->download(to, from, bytes);
  std::memcpy(to, from, bytes);
}

Buffer::Buffer(const Device& device, int64_t rows, int64_t cols, DType type, int64_t stride)
    : device_(device),
      rows_(rows),
      cols_(cols),
      stride_(std::max(stride, cols)),
      type_(type),
      memory_(device.kind(), static_cast<size_t>(rows * stride_) * size_of(type), "a matrix") {
  const std::vector<char> bytes(memory_.size(), static_cast<char>(0xFF));
  copy_in(device, memory_.data(), bytes.data(), bytes.size());
}

Buffer::Buffer(const Device& device, Matrix& values, DType type, int64_t stride)
    : Buffer(device, values.rows, values.cols, type, stride) {
  upload(values);
}

void Buffer::upload(Matrix& values) {
  const size_t size = size_of(type_);
  std::vector<char> bytes(memory_.size(), static_cast<char>(0xFF));
  for (int64_t r = 0; r < rows_; ++r) {
    for (int64_t c = 0; c < cols_; ++c) {
      char* at = bytes.data() + static_cast<size_t>(r * stride_ + c) * size;
      encode(values.at(r, c), type_, at);
      values.at(r, c) = decode(type_, at);
    }
  }
  copy_in(device_, memory_.data(), bytes.data(), bytes.size());
}

Matrix Buffer::values() const {
  const size_t size = size_of(type_);
  std::vector<char> bytes(memory_.size());
  copy_out(device_, bytes.data(), memory_.data(), bytes.size());
  Matrix out(rows_, cols_);
  bool gaps_untouched = true;
  for (int64_t r = 0; r < rows_; ++r) {
    for (int64_t c = 0; c < stride_; ++c) {
      const double value =
          decode(type_, bytes.data() + static_cast<size_t>(r * stride_ + c) * size);
      if (c < cols_) {
        out.at(r, c) = value;
      } else {
        gaps_untouched = gaps_untouched && std::isnan(value);
      }
    }
  }
  EXPECT_TRUE(gaps_untouched) << "an operation wrote between the rows of its output";
  return out;
}

const Device* test_gpu() {
  static const Device* gpu = usable_gpus() > 0 ? new Device(open_gpu(0)) : nullptr;
  return gpu;  // never closed: CUDA may end before static objects do
}

void set_gpu_step(const Device& device, uint64_t step, double gradient_scale) {
  const auto queue = gpu_backend(device)->step_queue({});
  queue->begin({.step = step, .gradient_scale = gradient_scale});
  queue->finish();
  queue->take();
}

void Ops::SetUp() {
  const OpCase& c = GetParam();
  if (c.kind == DeviceKind::kCpu) {
    device_ = Device::cpu(c.threads);
    return;
  }
  if (test_gpu() == nullptr) GTEST_SKIP() << "no GPU";
  if (test_gpu()->gpu()->facts().capability < 80 && (c.tf32 || c.type == DType::kBF16)) {
    GTEST_SKIP() << "this GPU has no bf16 and TF32";
  }
  device_ = *test_gpu();
  gpu_backend(*device_)->allow_tf32(c.tf32);
}

std::vector<int64_t> Ops::widths(std::vector<int64_t> all, const std::vector<int64_t>& odd) const {
  if (!gpu()) all.insert(all.end(), odd.begin(), odd.end());
  return all;
}

Drop Ops::drop(const uint64_t* on_device, std::vector<uint64_t> numbers) {
  numbers_.push_back(std::make_unique<std::vector<uint64_t>>(std::move(numbers)));
  // A step beyond 32 bits, as both halves of its number count.
  const RandomSite site{.seed = 0x123456789ABC, .step = (uint64_t{3} << 32) + 17, .site = 5};
  if (gpu()) set_gpu_step(device(), site.step);
  const float rate = GetParam().dropout;
  return {{rate, site, on_device}, {rate, site, numbers_.back()->data()}};
}

Drop Ops::drop(int64_t rows, float rate) {
  std::vector<uint64_t> numbers;
  for (int64_t r = 0; r < rows; ++r) {
    numbers.push_back((uint64_t{1} << 33) + static_cast<uint64_t>(r) * 7919);
  }
  arrays_.push_back(std::make_unique<Array<uint64_t>>(device(), numbers));
  Drop out = drop(arrays_.back()->span().data(), std::move(numbers));
  out.on_device.rate = out.reference.rate = rate;
  return out;
}

void Ops::expect_close(const Buffer& got, const Matrix& wanted, double tolerance,
                       const std::string& what, double least) {
  EXPECT_LE(reference::relative_error(got.values(), wanted, least), tolerance) << what;
}

std::vector<uint32_t> offsets_of(const std::vector<uint32_t>& lengths) {
  std::vector<uint32_t> offsets = {0};
  for (uint32_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

std::vector<uint32_t> places_of(const std::vector<uint32_t>& lengths) {
  std::vector<uint32_t> places;
  for (uint32_t length : lengths) {
    for (uint32_t i = 0; i < length; ++i) places.push_back(i);
  }
  return places;
}

TestBatch::TestBatch(const Device& device, std::vector<uint32_t> source_lengths,
                     std::vector<uint32_t> target_lengths, const IndexShape& shape,
                     std::vector<uint32_t> ids, std::vector<uint32_t> targets)
    : lengths_{std::move(source_lengths), std::move(target_lengths)},
      ids_{std::move(ids), {}},
      targets_(std::move(targets)) {
  TokenLists lists[2];
  for (int side = 0; side < 2; ++side) {
    offsets_[side] = offsets_of(lengths_[side]);
    places_[side] = places_of(lengths_[side]);
    ids_[side].resize(offsets_[side].back());
    for (size_t s = 0; s < lengths_[side].size(); ++s) {
      first_[side].push_back((uint64_t{1} << 33) + s * 7919);
    }
    lists[side] = {ids_[side], offsets_[side], first_[side]};
  }
  targets_.resize(offsets_[1].back());
  index_ = index_batch(device, {lists[0], lists[1], targets_}, shape);
  use_batch(device, *index_);
}

std::vector<uint64_t> TestBatch::numbers(int side) const {
  std::vector<uint64_t> out;
  for (size_t s = 0; s < lengths_[side].size(); ++s) {
    for (uint32_t i = 0; i < lengths_[side][s]; ++i) out.push_back(first_[side][s] + i);
  }
  out.resize(static_cast<size_t>((side == 0 ? index_->source : index_->target).rows));
  return out;
}

}  // namespace reigen
