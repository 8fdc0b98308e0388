// The arena: aligned and reusable; it stops allocating after the first step.
#include "tensor/arena.h"

#include <gtest/gtest.h>

namespace reigen {
namespace {

TEST(Arena, ReturnsAlignedMemoryThatDoesNotOverlap) {
  Arena arena;
  Tensor a = arena.matrix(3, 5);
  Tensor b = arena.matrix(7, 11);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data) % 64, 0u);
  EXPECT_GE(static_cast<char*>(b.data) - static_cast<char*>(a.data), 3 * 5 * 4);
}

TEST(Arena, StopsAllocatingOnceTheLargestStepIsKnown) {
  Arena arena;
  auto step = [&](int64_t rows) {
    arena.reset();
    for (int i = 0; i < 20; ++i) arena.matrix(rows, 1000);
  };
  step(1000);
  step(1500);
  step(1500);
  uint64_t after = arena.allocations();
  size_t capacity = arena.capacity();
  for (int64_t rows : {10, 1500, 700, 1499, 1500}) step(rows);
  EXPECT_EQ(arena.allocations(), after);
  EXPECT_EQ(arena.capacity(), capacity);
}

TEST(Arena, FreesMemoryAllocatedAfterAMark) {
  Arena arena;
  arena.matrix(1, 16);
  Arena::Mark mark = arena.mark();
  void* first = arena.bytes(100);
  arena.release(mark);
  EXPECT_EQ(arena.bytes(100), first);
  EXPECT_GE(arena.peak(), 64u + 128u);
}

TEST(Tensor, ViewsOfColumnsAndRowsShareMemory) {
  std::vector<float> data(12);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  Tensor whole = f32_matrix(data.data(), 3, 4);
  Tensor part = whole.columns(1, 2).rows_from(1, 2);
  EXPECT_EQ(part.row(0)[0], 5);
  EXPECT_EQ(part.row(1)[1], 10);
  EXPECT_EQ(part.stride, 4);
}

}  // namespace
}  // namespace reigen
