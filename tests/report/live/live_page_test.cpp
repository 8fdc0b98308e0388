// The paths of the page: each checks the token first, and has one answer.
#include "report/live/live_page.h"

#include <gtest/gtest.h>

#include "base/json/json.h"
#include "observe/record/measurement_log.h"
#include "observe/record/sample_records.h"
#include "report/report.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

constexpr const char* kPaths[] = {"/",          "/live.css", "/live.js",    "/chart.js",
                                  "/live.json", "/report",   "/report.json"};

class LivePageTest : public testing::Test {
 protected:
  LivePageTest() : log_(run_.path(), 0, 0) {
    log_.append(sample_start(0, 1));
    log_.append(sample_step(1));
  }

  HttpResponse ask(const std::string& path, const std::string& query = "token=a%20b") {
    HttpServer::Reply reply = page_.answer({.path = path, .query = query, .host = "localhost"});
    return reply.work ? reply.work() : reply.response;
  }

  TempDir run_;
  MeasurementLog log_;
  LivePage page_{run_.path(), {.token = "a b"}, false};
};

TEST_F(LivePageTest, NoPathIsAnsweredWithoutTheToken) {
  for (const char* path : kPaths) {
    EXPECT_EQ(ask(path).status, 200) << path;
    EXPECT_EQ(ask(path, "").status, 403) << path;
    EXPECT_EQ(ask(path, "token=a").status, 403) << path;
  }
  EXPECT_EQ(ask("/none", "").status, 403);
  EXPECT_EQ(ask("/none").status, 404);
  EXPECT_EQ(ask("/../log.txt").status, 404);
}

TEST_F(LivePageTest, TheLinksToItsFilesHaveTheToken) {
  const std::string html = ask("/").body;
  for (const char* file : {"live.css", "live.js", "chart.js", "report"}) {
    EXPECT_NE(html.find("\"" + std::string(file) + "?token=a%20b\""), std::string::npos) << file;
  }
  EXPECT_EQ(html.find("?token=\""), std::string::npos);
}

TEST_F(LivePageTest, NoPolicyAllowsInlineScripts) {
  for (const char* path : kPaths) {
    const std::string policy = ask(path).policy;
    EXPECT_EQ(policy.find("default-src 'none'"), 0u) << path;
    EXPECT_NE(policy.find("frame-ancestors 'none'"), std::string::npos) << path;
    EXPECT_EQ(policy.find("script-src 'unsafe-inline'"), std::string::npos) << path;
  }
  EXPECT_EQ(ask("/report").policy.find("script-src"), std::string::npos);
  const std::string report = ask("/report").body;
  EXPECT_EQ(report.find("<script"), std::string::npos);
  EXPECT_NE(report.find("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "),
            std::string::npos);  // in the file, too
}

TEST_F(LivePageTest, TheReportIsThatOfTheRun) {
  EXPECT_EQ(Json::parse(ask("/report.json").body).at("version"), kReportVersion);
}

}  // namespace
}  // namespace reigen
