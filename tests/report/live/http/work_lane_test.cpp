#include "report/live/http/work_lane.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

namespace reigen {
namespace {

TEST(WorkLane, TasksRunInOrder) {
  WorkLane lane;
  std::vector<int> ran;
  std::promise<void> done;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(lane.add([&ran, i] { ran.push_back(i); }));
  EXPECT_TRUE(lane.add([&done] { done.set_value(); }));
  done.get_future().wait();
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(WorkLane, WaitingTasksAreBoundedAndDroppedAtTheEnd) {
  std::promise<void> release;
  int ran = 0;
  {
    WorkLane lane;
    std::promise<void> begun;
    lane.add([&] {
      begun.set_value();
      release.get_future().wait();
    });
    begun.get_future().wait();
    int accepted = 0;
    while (accepted < 1000 && lane.add([&ran] { ++ran; })) ++accepted;
    EXPECT_EQ(accepted, 64);
    std::thread ending([&release] { release.set_value(); });
    ending.join();
  }
  EXPECT_LE(ran, 64);
}

}  // namespace
}  // namespace reigen
