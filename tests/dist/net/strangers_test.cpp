#include "dist/net/strangers.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace reigen {
namespace {

struct Connection {
  std::string from;
  bool broken = false;
};

bool always(const Connection&) { return true; }

TEST(Strangers, TheOldestOfTheNetworkWithMostGivesWay) {
  std::list<Connection> connections = {{"member"}};
  for (size_t i = 0; i < kMostStrangers - 1; ++i) connections.push_back({"flood"});
  evict_stranger(connections, always);
  for (const Connection& c : connections) EXPECT_FALSE(c.broken);
  connections.push_back({"flood"});
  evict_stranger(connections, always);
  EXPECT_FALSE(connections.front().broken);
  EXPECT_TRUE(std::next(connections.begin())->broken);
}

TEST(Strangers, AmongManyNetworksTheOldestGivesWayWhateverItsName) {
  std::list<Connection> connections;
  for (size_t i = 0; i < kMostStrangers; ++i) connections.push_back({"z" + std::to_string(i)});
  connections.push_back({"a member"});
  evict_stranger(connections, always);
  EXPECT_TRUE(connections.front().broken);
  EXPECT_FALSE(connections.back().broken);
}

TEST(AcceptPause, LetsAListenerRestWithoutDescriptorsAndOnlyThen) {
  for (const int none : {EAGAIN, EINTR, ECONNABORTED}) {
    AcceptPause pause;
    EXPECT_TRUE(pause.over());
    pause.failed(none);
    EXPECT_TRUE(pause.over()) << none;
  }
  for (const int lacking : {EMFILE, ENFILE, ENOMEM, ENOBUFS}) {
    AcceptPause pause;
    pause.failed(lacking);
    EXPECT_FALSE(pause.over()) << lacking;
    while (!pause.over()) {
    }
  }
}

TEST(Strangers, AnIpv6PrefixIsOneNetwork) {
  EXPECT_EQ(network_of("fd00::1"), network_of("fd00::ffff:1"));
  EXPECT_NE(network_of("fd00::1"), network_of("fd00:0:0:1::1"));
  EXPECT_NE(network_of("10.0.0.1"), network_of("10.0.0.2"));
}

}  // namespace
}  // namespace reigen
