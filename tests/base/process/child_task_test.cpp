// Work in a child process: the parent gets results, progress, errors and crashes.
#include "base/process/child_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace reigen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ChildError error_of(const std::function<std::string()>& work) {
  try {
    run_in_child([&](const ReportProgress&) { return work(); }, [] { return [](uint64_t) {}; });
  } catch (const ChildError& e) {
    return e;
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(ChildTask, ReturnsItsResultAndReportsProgress) {
  std::vector<uint64_t> seen;
  std::string big(3'000'000, 'x');
  std::string got = run_in_child(
      [&](const ReportProgress& report) {
        report(1);
        report(7);
        return big + "end";
      },
      [&] { return [&](uint64_t n) { seen.push_back(n); }; });
  EXPECT_EQ(got, big + "end");
  EXPECT_THAT(seen, ElementsAre(1, 7));
}

TEST(ChildTask, RethrowsAnExceptionOfTheChildAsChildError) {
  ChildError e = error_of([]() -> std::string { throw std::runtime_error("too small"); });
  EXPECT_EQ(e.message, "too small");
  EXPECT_FALSE(e.died);
}

TEST(ChildTask, ReportsAChildThatAbortsOrExits) {
  ChildError e = error_of([]() -> std::string {
    raise(SIGKILL);
    return "";
  });
  EXPECT_TRUE(e.died);
  EXPECT_THAT(e.message, HasSubstr("signal 9"));
  e = error_of([]() -> std::string { _exit(3); });
  EXPECT_TRUE(e.died);
  EXPECT_THAT(e.message, HasSubstr("exit status 3"));
}

}  // namespace
}  // namespace reigen
