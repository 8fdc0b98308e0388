// Whole memberships in one process: rendezvous and group.
#include "dist/members/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;

void run_membership(int size, const std::function<void(Membership&)>& body) {
  Socket listener = listen_on("127.0.0.1", 0);
  const Endpoint at{"127.0.0.1", port_of(listener)};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      MembershipOptions options;
      options.rank = rank;
      options.size = size;
      options.rendezvous = {at};
      if (rank == 0) options.listener = std::move(listener);
      options.token = "token";
      options.host = format("vm{}", rank);
      options.silence = milliseconds(2000);
      options.start_within = milliseconds(5000);
      Membership membership(std::move(options));
      body(membership);
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(Membership, WorksWithOneWorker) {
  run_membership(1, [](Membership& membership) {
    std::vector<float> data = {1, 2};
    EXPECT_TRUE(membership.group().all_reduce(data).wait().ok());
    EXPECT_TRUE(membership.leave().ok());
  });
}

TEST(Membership, LeavingInOrderIsNoLoss) {
  run_membership(3, [](Membership& membership) {
    std::vector<float> data(1000, 1.0f);
    ASSERT_TRUE(membership.group().all_reduce(data).wait().ok());
    EXPECT_THAT(data, testing::Each(3.0f));
    EXPECT_TRUE(membership.leave().ok());
    EXPECT_FALSE(membership.control().loss());
  });
}

TEST(Membership, NamesTheLostWorker) {
  run_membership(3, [](Membership& membership) {
    membership.group().barrier().wait();
    if (membership.group().rank() == 0) return;  // it hosts the rendezvous, and never calls leave()
    std::vector<float> data(100'000, 1.0f);
    CommStatus status;
    while (status.ok()) status = membership.group().all_reduce(data).wait();
    status = membership.explain(status);
    EXPECT_EQ(status.state, CommState::kLostPeer);
    EXPECT_EQ(status.rank, 0) << describe(status);
    EXPECT_EQ(status.host, "vm0");
  });
}

}  // namespace
}  // namespace reigen
