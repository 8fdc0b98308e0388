// The exit codes scripts rely on.
#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <string>
#include <vector>

namespace reigen {
namespace {

TEST(Error, EachKindHasItsDocumentedExitCodeAndItsMessage) {
  struct Case {
    std::function<void()> raise;
    int code;
  };
  const std::vector<Case> cases = {
      {[] { throw ConfigError("what to do"); }, 2},
      {[] { throw DataError("what to do"); }, 3},
      {[] { throw IoError("what to do"); }, 7},
      {[] { throw Interrupted("what to do"); }, 130},
  };
  for (const auto& c : cases) {
    try {
      c.raise();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& e) {
      EXPECT_EQ(static_cast<int>(e.code()), c.code);
      EXPECT_STREQ(e.what(), "what to do");
    }
  }
}

TEST(Error, NamesTheReasonOfAFailedCall) {
  EXPECT_EQ(errno_text(ENOSPC), "No space left on device");
  EXPECT_EQ(errno_text(ENOENT), "No such file or directory");
}

}  // namespace
}  // namespace reigen
