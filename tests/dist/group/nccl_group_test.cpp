// A group over NCCL, as far as one GPU can test it: every operation with one rank, and an end for
// every wait for a rank that never joins. Skipped without a GPU or without NCCL.
#include "dist/group/nccl_group.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "device/buffer.h"
#include "device/cuda_info.h"
#include "ops/gpu_backend.h"

namespace reigen {
namespace {

class NcclGroup : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (usable_gpus() == 0) GTEST_SKIP() << "no GPU";
    if (nccl_version(&why).empty()) GTEST_SKIP() << why;
    gpu_.emplace(open_gpu(0));
  }

  std::span<float> on_gpu(const std::vector<float>& values) {
    buffers_.emplace_back(DeviceKind::kGpu, values.size() * sizeof(float), "a test");
    gpu_->gpu()->upload(buffers_.back().data(), values.data(), values.size() * sizeof(float));
    return {buffers_.back().as<float>(), values.size()};
  }
  std::vector<float> on_host(std::span<const float> values) {
    std::vector<float> out(values.size());
    gpu_->gpu()->download(out.data(), values.data(), values.size_bytes());
    return out;
  }

  std::optional<Device> gpu_;
  std::vector<DeviceBuffer> buffers_;
};

std::vector<float> some_values(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<float>(i)) * 3;
  return values;
}

TEST_F(NcclGroup, EveryOperationWorksWithOneRank) {
  auto group = make_nccl_group({.id = new_nccl_id()}, 3);
  EXPECT_EQ(group->epoch(), 3);
  for (const size_t count : {1, 17, 300'007}) {
    const std::vector<float> values = some_values(count);
    for (const auto& [wire, unit] : {std::pair(Wire::kFp32, 0.0), std::pair(Wire::kBf16, 0x1p-8),
                                     std::pair(Wire::kFp16, 0x1p-11)}) {
      auto near = [&, unit = unit](std::span<const float> data) {
        const std::vector<float> got = on_host(data);
        for (size_t i = 0; i < count; ++i) ASSERT_NEAR(got[i], values[i], 3 * unit) << i;
      };
      std::span<float> data = on_gpu(values);
      ASSERT_TRUE(group->all_reduce(data, wire).wait().ok());
      near(data);
      data = on_gpu(values);
      ASSERT_TRUE(group->all_gather(data, wire).wait().ok());
      near(data);
    }
    const std::span<float> data = on_gpu(values);
    ASSERT_TRUE(group->broadcast(std::as_writable_bytes(data), 0).wait().ok());
    EXPECT_EQ(on_host(data), values);
  }
  double sums[] = {1.5, -2};
  ASSERT_TRUE(group->sum(sums).wait().ok());
  EXPECT_EQ(sums[0], 1.5);
  EXPECT_EQ(sums[1], -2);
  ASSERT_TRUE(group->barrier().wait().ok());
  EXPECT_TRUE(group->leave().ok());
  EXPECT_FALSE(group->barrier().wait().ok());
}

TEST_F(NcclGroup, CanBeFormedAgain) {
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    auto group = make_nccl_group({.id = new_nccl_id()}, epoch);
    std::span<float> data = on_gpu({2});
    ASSERT_TRUE(group->all_reduce(data).wait().ok());
    if (epoch == 1) group->close(CommStatus::closed("a test"));
    EXPECT_EQ(group->leave().ok(), epoch != 1);
  }
}

TEST_F(NcclGroup, AMissingRankIsAnErrorWithinTheTimeLimit) {
  Stopwatch watch;
  const NcclOptions alone = {
      .size = 2, .id = new_nccl_id(), .start_within = std::chrono::seconds(2)};
  EXPECT_THROW(make_nccl_group(alone, 0), CommError);
  EXPECT_LT(watch.seconds(), 20);
}

TEST_F(NcclGroup, ALossReportedFromOutsideEndsTheWait) {
  NcclOptions alone = {.size = 2, .id = new_nccl_id()};
  Stopwatch watch;
  alone.outside = [&] {
    return watch.seconds() > 1 ? CommStatus::lost(1, "vm2", "no heartbeat") : CommStatus{};
  };
  try {
    make_nccl_group(alone, 0);
    FAIL() << "formed a group of two with one rank";
  } catch (const CommError& e) {
    EXPECT_NE(std::string(e.what()).find("rank 1 (vm2)"), std::string::npos) << e.what();
  }
  EXPECT_LT(watch.seconds(), 20);
}

}  // namespace
}  // namespace reigen
