#include "report/live/page_access.h"

#include <gtest/gtest.h>

#include "base/machine.h"

namespace reigen {
namespace {

Admission asked(const std::string& host, const std::string& query, bool only_loopback = true) {
  return admission({.path = "/", .query = query, .host = host},
                   {.token = "a/b", .only_loopback = only_loopback});
}

TEST(PageAccess, OnLoopbackTheHostMustBeLoopback) {
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:6810", "localhost:6810", "[::1]:6810", "[::1]", "127.1.2.3:80"}) {
    EXPECT_EQ(asked(host, "token=a%2Fb"), Admission::kAdmitted) << host;
  }
  for (const char* host :
       {"", ":", ":6810", "evil.example", "127.evil.example:6810", "127.0.0.1.evil.example",
        "[::1].evil.com", "[::1]:6810.evil.com", "[::1", "::1", "localhost.evil.com",
        "localhost:6810:evil", "127.0.0.1@evil.com", "evil.com#127.0.0.1", "127.0.0.1 evil.com",
        "0.0.0.0:6810", "[::ffff:127.0.0.1%evil]", "localhost:", "localhost:123456"}) {
    EXPECT_EQ(asked(host, "token=a%2Fb"), Admission::kWrongHost) << host;
  }
}

TEST(PageAccess, OnOtherAddressesAnyWellFormedHostWillDo) {
  EXPECT_EQ(asked("node-1.cluster:6810", "token=a/b", false), Admission::kAdmitted);
  EXPECT_EQ(asked("", "token=a/b", false), Admission::kWrongHost);
  EXPECT_EQ(asked("a b", "token=a/b", false), Admission::kWrongHost);
}

TEST(PageAccess, TheTokenIsAlwaysRequired) {
  for (const char* query : {"", "token=", "token=a", "token=a/b/", "Token=a/b",
                            "token=a/b&token=a/b", "x=a/b", "token"}) {
    EXPECT_EQ(asked("127.0.0.1", query), Admission::kWrongToken) << query;
  }
  EXPECT_EQ(asked("127.0.0.1", "x=1&token=a/b"), Admission::kAdmitted);
  EXPECT_EQ(admission({.query = "token=", .host = "localhost"}, {.token = ""}),
            Admission::kWrongToken);
}

TEST(PageAccess, ALinkHasTheTokenAndANameThatCanBeOpened) {
  EXPECT_EQ(page_url("127.0.0.1", 6810, "a/b"), "http://127.0.0.1:6810/?token=a%2Fb");
  EXPECT_EQ(page_url("::1", 80, ""), "http://[::1]:80/");
  EXPECT_EQ(page_url("0.0.0.0", 80, ""), "http://" + host_name() + ":80/");
}

}  // namespace
}  // namespace reigen
