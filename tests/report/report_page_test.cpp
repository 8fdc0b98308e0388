#include "report/report_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reigen {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string page_with_advice(const std::string& advice) {
  Report report;
  VerdictText verdict;
  verdict.about = "bottleneck";
  verdict.verdict = "network";
  verdict.advice = advice;
  report.verdicts.push_back(verdict);
  return report_page({report});
}

TEST(ReportPage, ShowsWhatStandsBetweenBackticksAsCode) {
  const std::string page = page_with_advice("end it (`top` names it), or `reigen train <a>`");
  EXPECT_THAT(page,
              HasSubstr("(<code>top</code> names it), or <code>reigen train &lt;a&gt;</code>"));
  EXPECT_THAT(page, Not(HasSubstr("`")));
}

TEST(ReportPage, EscapesTextBehindASingleBacktick) {
  EXPECT_THAT(page_with_advice("use `<b>"), HasSubstr("use &lt;b&gt;"));
}

}  // namespace
}  // namespace reigen
