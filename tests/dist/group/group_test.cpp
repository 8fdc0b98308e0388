// The contract of a group: the same bits on all ranks, and an end for every wait.
#include "dist/group/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <numeric>
#include <ostream>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "dist/group/group_fixture.h"
#include "dist/group/queued_group.h"
#include "dist/group/wire_format.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;

std::vector<float> values_of(int rank, size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<double> exact_sum(int size, size_t count) {
  std::vector<double> sum(count);
  for (int rank = 0; rank < size; ++rank) {
    const auto values = values_of(rank, count);
    for (size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

double unit_of(Wire wire) {
  return wire == Wire::kFp32 ? 0x1p-24 : wire == Wire::kBf16 ? 0x1p-9 : 0x1p-12;
}

// A subclass constructor that throws must not end the process.
class FailsToConnect : public QueuedGroup {
 public:
  FailsToConnect() : QueuedGroup(0, 1, 0) { throw CommError("no connection"); }
  void close(CommStatus) override {}
  CommStatus leave() override { return {}; }

 protected:
  void carry_out(const Operation&, CommCounter&) override {}
};

TEST(QueuedGroup, AFailedConstructorThrows) { EXPECT_THROW(FailsToConnect(), CommError); }

struct Shape {
  int size;
  Wire wire;
};

void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.size << " ranks"; }

// An empty chunk for some ranks, less than a cache line, several segments.
constexpr size_t kCounts[] = {1, 17, 1003, 300'007};

class Collectives : public testing::TestWithParam<Shape> {};

TEST_P(Collectives, AllReduceGivesEveryRankTheSameBitsAndTheSum) {
  const auto [size, wire] = GetParam();
  std::vector<std::vector<std::vector<float>>> results(static_cast<size_t>(size));
  with_group(size, [&, wire = wire](Group& group) {
    for (size_t count : kCounts) {
      auto data = values_of(group.rank(), count);
      ASSERT_TRUE(group.all_reduce(data, wire).wait().ok());
      results[static_cast<size_t>(group.rank())].push_back(data);
    }
    EXPECT_TRUE(group.leave().ok());
  });
  for (size_t c = 0; c < std::size(kCounts); ++c) {
    const auto sum = exact_sum(size, kCounts[c]);
    for (size_t i = 0; i < kCounts[c]; ++i) {
      // Two roundings to the wire (addend and sum) of values up to about 5 each.
      ASSERT_NEAR(results[0][c][i], sum[i], 5 * (size + 2) * unit_of(wire)) << i;
    }
    for (const auto& result : results) {
      ASSERT_EQ(std::memcmp(result[c].data(), results[0][c].data(), kCounts[c] * sizeof(float)), 0);
    }
  }
}

TEST_P(Collectives, AllGatherGivesEveryRankAllChunks) {
  const auto [size, wire] = GetParam();
  with_group(size, [size = size, wire = wire](Group& group) {
    for (size_t count : kCounts) {
      std::vector<float> data(count, -1.0F);
      const ChunkRange own = chunk_of(count, group.rank(), size);
      std::fill(data.begin() + static_cast<ptrdiff_t>(own.begin),
                data.begin() + static_cast<ptrdiff_t>(own.end), static_cast<float>(group.rank()));
      ASSERT_TRUE(group.all_gather(data, wire).wait().ok());
      for (int rank = 0; rank < size; ++rank) {
        const ChunkRange chunk = chunk_of(count, rank, size);
        for (size_t i = chunk.begin; i < chunk.end; ++i) ASSERT_EQ(data[i], rank) << i;
      }
    }
    EXPECT_TRUE(group.leave().ok());
  });
}

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (int size = 1; size <= 4; ++size) {
    for (Wire wire : {Wire::kFp32, Wire::kBf16, Wire::kFp16}) all.push_back({size, wire});
  }
  return all;
}

std::string shape_name(const testing::TestParamInfo<Shape>& info) {
  const auto wire = static_cast<size_t>(info.param.wire);
  return format("{}_ranks_{}", info.param.size,
                std::vector<std::string>{"fp32", "bf16", "fp16"}[wire]);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Collectives, testing::ValuesIn(shapes()), shape_name);

TEST(Group, BroadcastReachesAllFromAnyRoot) {
  for (int size = 1; size <= 4; ++size) {
    with_group(size, [](Group& group) {
      for (size_t count : kCounts) {
        for (int root = 0; root < group.size(); ++root) {
          auto data = values_of(group.rank(), count);
          ASSERT_TRUE(group.broadcast(std::as_writable_bytes(std::span(data)), root).wait().ok());
          ASSERT_EQ(data, values_of(root, count));
        }
      }
      EXPECT_TRUE(group.leave().ok());
    });
  }
}

TEST(Group, QueuedOperationsRunInOrder) {
  with_group(3, [](Group& group) {
    std::vector<std::vector<float>> buffers;
    for (size_t i = 0; i < 20; ++i) buffers.emplace_back(1000 * i + 1, 1.0f);
    std::vector<Pending> pending;
    for (auto& buffer : buffers) pending.push_back(group.all_reduce(buffer));
    for (size_t i = 0; i < pending.size(); ++i) {
      ASSERT_TRUE(pending[i].wait().ok());
      EXPECT_THAT(buffers[i], testing::Each(3.0f));
      if (i > 0) {
        EXPECT_GE(pending[i].times().begin, pending[i - 1].times().end);
      }
    }
    EXPECT_TRUE(group.leave().ok());
  });
}

TEST(Group, DoublesAreSummedInTheOrderOfRanks) {
  with_group(4, [](Group& group) {
    // A different order would round differently.
    std::vector<double> values = {group.rank() == 0 ? 1e16 : 1.0, 1.0};
    ASSERT_TRUE(group.sum(values).wait().ok());
    EXPECT_EQ(values[0], ((1e16 + 1) + 1) + 1);
    EXPECT_EQ(values[1], 4);
    EXPECT_TRUE(group.leave().ok());
  });
}

TEST(Group, SendAndReceiveInvolveNoThirdRank) {
  with_group(3, [](Group& group) {
    std::vector<float> data(100'000, static_cast<float>(group.rank()));
    const auto bytes = std::as_writable_bytes(std::span(data));
    if (group.rank() == 0) {
      ASSERT_TRUE(group.send(bytes, 2).wait().ok());
    }
    if (group.rank() == 2) {
      ASSERT_TRUE(group.receive(bytes, 0).wait().ok());
      EXPECT_THAT(data, testing::Each(0.0f));
    }
    ASSERT_TRUE(group.barrier().wait().ok());
    EXPECT_TRUE(group.leave().ok());
  });
}

TEST(Group, ReducedPrecisionHalvesTheBytes) {
  constexpr size_t kCount = 1 << 20;
  for (Wire wire : {Wire::kFp32, Wire::kBf16, Wire::kFp16}) {
    with_group(2, [wire](Group& group) {
      std::vector<float> data(kCount, 1.0f);
      ASSERT_TRUE(group.all_reduce(data, wire).wait().ok());
      const CommCounter counter = group.counters()[static_cast<size_t>(OpKind::kAllReduce)];
      EXPECT_EQ(counter.operations, 1u);
      EXPECT_EQ(counter.bytes_sent, kCount * wire_bytes(wire, 1));
      EXPECT_EQ(counter.bytes_received, kCount * wire_bytes(wire, 1));
      EXPECT_GT(counter.seconds, 0);
      EXPECT_TRUE(group.leave().ok());
    });
  }
}

TEST(Group, RanksOfAMachineSumBeforeInterNodeTraffic) {
  constexpr size_t kCount = 700'001;  // two slices
  for (const auto& [size, on_each] : {std::pair(4, 2), std::pair(6, 2), std::pair(6, 3)}) {
    for (Wire wire : {Wire::kFp32, Wire::kBf16}) {
      std::vector<std::vector<float>> results(static_cast<size_t>(size));
      uint64_t crossed = 0;
      std::mutex mutex;
      const auto body = [&, wire](Group& group) {
        auto data = values_of(group.rank(), kCount);
        ASSERT_TRUE(group.all_reduce(data, wire).wait().ok());
        const CommCounter counter = group.counters()[static_cast<size_t>(OpKind::kAllReduce)];
        {
          std::lock_guard lock(mutex);
          results[static_cast<size_t>(group.rank())] = data;
          crossed += counter.inter_node_bytes;
        }
        EXPECT_TRUE(group.leave().ok());
      };
      with_group(size, body, 1, milliseconds(0), on_each);
      const auto sum = exact_sum(size, kCount);
      double error = 0;
      for (size_t i = 0; i < kCount; ++i) {
        error = std::max(error, std::abs(static_cast<double>(results[0][i] - sum[i])));
      }
      EXPECT_LT(error, 5 * (size + 2) * unit_of(wire));
      for (const auto& result : results) ASSERT_TRUE(result == results[0]);
      // Each machine sends 2 (n - 1) / n of the data for n machines.
      const auto machines = static_cast<uint64_t>(size / on_each);
      EXPECT_EQ(crossed, 2 * (machines - 1) * kCount * wire_bytes(wire, 1));
    }
  }
}

TEST(Group, Bf16AddendsAreSummedInFp32) {
  // Each addend is a bf16 value, but above 256 bf16 values are 2 apart: 0.75 would be rounded away.
  with_group(4, [](Group& group) {
    std::vector<float> data(64, group.rank() == 0 ? 256.0f : 0.75f);
    ASSERT_TRUE(group.all_reduce(data, Wire::kBf16).wait().ok());
    EXPECT_THAT(data, testing::Each(258.0f));  // 258.25; 256 if rounded after each addition
    EXPECT_TRUE(group.leave().ok());
  });
}

TEST(Group, CloseFromAnotherThreadEndsAWait) {
  with_group(2, [](Group& group) {
    if (group.rank() == 1) {
      // Starts no operation; sees the close of rank 0 as the loss of a peer.
      while (group.status().ok()) std::this_thread::sleep_for(milliseconds(1));
      EXPECT_EQ(group.status().state, CommState::kLostPeer);
      EXPECT_EQ(group.status().rank, 0);
      EXPECT_EQ(group.status().host, "host0");
      return;
    }
    std::vector<float> data(1'000'000);
    Pending pending = group.all_reduce(data);
    Pending queued = group.barrier();
    std::thread closer([&] {
      std::this_thread::sleep_for(milliseconds(30));
      group.close(CommStatus::closed("enough"));
      group.close(CommStatus::closed("twice"));
    });
    const CommStatus status = pending.wait();
    EXPECT_EQ(status.state, CommState::kClosed);
    EXPECT_EQ(status.detail, "enough");
    EXPECT_EQ(queued.wait().detail, "enough");
    closer.join();
    EXPECT_EQ(group.barrier().wait().state, CommState::kClosed);
    EXPECT_EQ(group.leave().state, CommState::kClosed);
  });
}

TEST(Group, ALostPeerEndsTheOperationsOfAllOthers) {
  with_group(4, [](Group& group) {
    std::vector<float> data(2'000'000, 1.0f);
    CommStatus status = group.barrier().wait();
    if (group.rank() == 2) return;  // without leave(), perhaps before others are past the barrier
    while (status.ok()) status = group.all_reduce(data).wait();
    EXPECT_EQ(status.state, CommState::kLostPeer) << describe(status);
    EXPECT_EQ(group.barrier().wait().state, CommState::kLostPeer);
  });
}

TEST(Group, AnUnresponsivePeerIsATimeout) {
  with_group(
      2,
      [](Group& group) {
        if (group.rank() == 1) {
          while (group.status().ok()) std::this_thread::sleep_for(milliseconds(1));
          return;
        }
        const CommStatus status = group.barrier().wait();
        EXPECT_EQ(status.state, CommState::kTimeout) << describe(status);
        EXPECT_EQ(status.rank, 1);
      },
      1, milliseconds(50));
}

TEST(Group, SurvivorsFormTheGroupOfTheNextEpoch) {
  with_group(
      3,
      [](Group& group) {
        group.barrier().wait();
        group.close();
      },
      1);
  with_group(
      2,
      [](Group& group) {
        EXPECT_EQ(group.epoch(), 2);
        std::vector<float> data(5, 1.0f);
        ASSERT_TRUE(group.all_reduce(data).wait().ok());
        EXPECT_THAT(data, testing::Each(2.0f));
        EXPECT_TRUE(group.leave().ok());
      },
      2);
}

TEST(Group, ChunksPartitionTheData) {
  for (size_t count : {0, 1, 15, 16, 17, 100, 1003}) {
    for (int size : {1, 2, 3, 4, 7}) {
      size_t at = 0;
      for (int rank = 0; rank < size; ++rank) {
        const ChunkRange range = chunk_of(count, rank, size);
        EXPECT_EQ(range.begin, at);
        at = range.end;
      }
      EXPECT_EQ(at, count);
    }
  }
}

}  // namespace
}  // namespace reigen
