#include "dist/members/interface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace reigen {
namespace {

TEST(NetworkInterface, LoopbackReachesLoopback) {
  const NetworkInterface found = interface_towards("127.0.0.1");
  EXPECT_EQ(found.name, "lo");
  EXPECT_EQ(found.address, "127.0.0.1");
  EXPECT_EQ(describe(found), "lo (127.0.0.1)");
}

TEST(NetworkInterface, TheRouteToAnOwnAddressUsesThatAddress) {
  for (const NetworkInterface& own : network_interfaces()) {
    if (own.address.find('%') != std::string::npos) continue;  // link-local, needs its scope
    EXPECT_EQ(interface_towards(own.address).address, own.address);
  }
}

TEST(NetworkInterface, AnUnknownNameIsAnErrorWithAListOfInterfaces) {
  EXPECT_EQ(interface_named("lo", "10.0.0.1").address, "127.0.0.1");
  try {
    interface_named("eth77", "10.0.0.1");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("'eth77' does not exist"));
    EXPECT_THAT(e.what(), testing::HasSubstr("choose one of: lo (127.0.0.1)"));
  }
}

TEST(NetworkInterface, TheDescriptionHasTheSpeedIfKnown) {
  EXPECT_EQ(describe(NetworkInterface{"eth0", "10.0.0.1", 10'000}),
            "eth0 (10.0.0.1, 10,000 Mbit/s)");
}

}  // namespace
}  // namespace reigen
