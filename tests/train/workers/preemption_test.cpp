// Notices of three clouds, from a server on loopback that answers as they do.
#include "train/workers/preemption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <functional>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using testing::HasSubstr;

std::string ok(const std::string& body) {
  return format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
}
const char* const kMissing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
const char* const kUnauthorized = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";

// Answers one request per connection, until it ends.
class FakeServer {
 public:
  explicit FakeServer(std::function<std::string(const std::string& request)> answer)
      : answer_(std::move(answer)), listener_(listen_on("127.0.0.1", 0)) {
    thread_ = std::thread([this] { work(); });
  }
  ~FakeServer() {
    ended_ = true;
    thread_.join();
  }
  MetadataServer client() const {
    return MetadataServer(format("http://127.0.0.1:{}/", port_of(listener_)));
  }

 private:
  void work() {
    while (!ended_) {
      pollfd waiting{listener_.fd(), POLLIN, 0};
      if (poll(&waiting, 1, 20) <= 0) continue;
      const Socket socket = accept_from(listener_);
      std::string request;
      while (socket.open() && request.find("\r\n\r\n") == std::string::npos) {
        pollfd readable{socket.fd(), POLLIN, 0};
        poll(&readable, 1, 1000);
        if (!read_available(socket, request, 1 << 16)) break;
      }
      std::string text = answer_(request);
      while (!text.empty() && write_available(socket, text)) std::this_thread::yield();
    }
  }

  std::function<std::string(const std::string&)> answer_;
  Socket listener_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

TEST(PreemptionOfAws, AsksWithATokenAndRenewsIt) {
  std::atomic<int> tokens = 0;
  std::atomic<bool> taken = false;
  FakeServer server([&](const std::string& request) -> std::string {
    if (request.starts_with("PUT /latest/api/token HTTP/1.1\r\n")) {
      EXPECT_THAT(request, HasSubstr("X-aws-ec2-metadata-token-ttl-seconds: "));
      return ok(format("token{}", ++tokens));
    }
    EXPECT_TRUE(request.starts_with("GET /latest/meta-data/spot/instance-action HTTP/1.1\r\n"));
    if (request.find(format("X-aws-ec2-metadata-token: token{}\r\n", tokens.load())) ==
        std::string::npos) {
      return kUnauthorized;
    }
    return taken ? ok(R"({"action": "terminate", "time": "2026-01-02T03:04:05Z"})") : kMissing;
  });
  const auto aws = open_cloud(Preemption::kAws, server.client());
  EXPECT_FALSE(aws->notice());
  EXPECT_FALSE(aws->notice());
  EXPECT_EQ(tokens, 1);
  ++tokens;  // the first one expires
  EXPECT_THROW(aws->notice(), CommError);
  taken = true;
  EXPECT_EQ(aws->notice(), "AWS: terminate at 2026-01-02T03:04:05Z");
  EXPECT_EQ(tokens, 3);
}

// It is a line of the log, and part of the error of the launcher.
TEST(PreemptionOfAws, ANoticeIsShort) {
  FakeServer server([&](const std::string& request) {
    return ok(request.starts_with("PUT") ? "token"
                                         : R"({"time": ")" + std::string(60'000, 'x') + "\"}");
  });
  const std::string notice = open_cloud(Preemption::kAws, server.client())->notice().value_or("");
  EXPECT_THAT(notice, HasSubstr("xxx"));
  EXPECT_LT(notice.size(), 1000u);
}

TEST(PreemptionOfGcp, IsOneWord) {
  std::atomic<bool> taken = false;
  FakeServer server([&](const std::string& request) {
    EXPECT_TRUE(request.starts_with("GET /computeMetadata/v1/instance/preempted HTTP/1.1\r\n"));
    EXPECT_THAT(request, HasSubstr("\r\nMetadata-Flavor: Google\r\n"));
    return ok(taken ? "TRUE" : "FALSE");
  });
  const auto gcp = open_cloud(Preemption::kGcp, server.client());
  EXPECT_FALSE(gcp->notice());
  taken = true;
  EXPECT_THAT(gcp->notice().value_or(""), HasSubstr("GCP: preempted"));
}

TEST(PreemptionOfAzure, IsAnEventOfThisMachine) {
  const std::string of_another =
      R"({"DocumentIncarnation": 1, "Events": [{"EventType": "Preempt", "Resources": ["vm-7"]},
          {"EventType": "Freeze", "Resources": ["vm-3"]}, {"EventType": 5}, "x"]})";
  const std::string of_this =
      R"({"Events": [{"EventType": "Preempt", "Resources": ["vm-7", "vm-3"],
          "NotBefore": "Mon, 19 Sep 2022 18:29:47 GMT"}]})";
  std::atomic<bool> taken = false;
  FakeServer server([&](const std::string& request) {
    EXPECT_THAT(request, HasSubstr("\r\nMetadata: true\r\n"));
    if (request.starts_with("GET /metadata/instance/compute/name?")) return ok("vm-3");
    EXPECT_TRUE(request.starts_with("GET /metadata/scheduledevents?api-version="));
    return ok(taken ? of_this : of_another);
  });
  const auto azure = open_cloud(Preemption::kAzure, server.client());
  EXPECT_FALSE(azure->notice());
  taken = true;
  EXPECT_EQ(azure->notice(), "Azure: Preempt after Mon, 19 Sep 2022 18:29:47 GMT");
}

TEST(Preemption, OfAServerThatFailsIsAnErrorOfItsOwn) {
  FakeServer broken([](const std::string&) { return "HTTP/1.1 500 x\r\n\r\n"; });
  for (Preemption which : {Preemption::kAws, Preemption::kGcp, Preemption::kAzure}) {
    EXPECT_THROW(open_cloud(which, broken.client())->notice(), CommError);
  }
  FakeServer junk([](const std::string&) { return "junk"; });
  EXPECT_THROW(junk.client().ask("GET", "/", {}), CommError);
  FakeServer no_json([](const std::string&) { return ok("[]"); });
  EXPECT_THROW(open_cloud(Preemption::kAws, no_json.client())->notice(), CommError);
}

TEST(Preemption, IsAskedForWhereTheFirmwareNamesACloud) {
  const TempDir dir;
  EXPECT_EQ(cloud_of_firmware(dir.path("none")), Preemption::kOff);
  write_text(dir.path("sys_vendor"), "Microsoft Corporation\n");  // also Hyper-V elsewhere
  EXPECT_EQ(cloud_of_firmware(dir.path()), Preemption::kOff);
  write_text(dir.path("chassis_asset_tag"), "7783-7084-3265-9085-8269-3286-77\n");
  EXPECT_EQ(cloud_of_firmware(dir.path()), Preemption::kAzure);
  write_text(dir.path("product_name"), "Google Compute Engine\n");
  EXPECT_EQ(cloud_of_firmware(dir.path()), Preemption::kGcp);
  write_text(dir.path("sys_vendor"), "Amazon EC2\n");
  EXPECT_EQ(cloud_of_firmware(dir.path()), Preemption::kAws);
}

TEST(MetadataServer, ReadsCompleteAnswersOnly) {
  EXPECT_EQ(parse_http_answer("HTTP/1.0 200 OK\r\n\r\nto the end")->body, "to the end");
  EXPECT_EQ(parse_http_answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc")->body, "ab");
  const std::string chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n";
  EXPECT_EQ(parse_http_answer(chunked + "3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n")->body,
            "abc0123456789");
  EXPECT_EQ(parse_http_answer("HTTP/1.1 404 Not Found\r\n\r\n")->status, 404);
  for (const std::string& text :
       {std::string(""), std::string("HTTP/1.1 200"), std::string("HTTP/1.1 2x0 OK\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nabc"),
        chunked + "5\r\nabc\r\n0\r\n\r\n", chunked + "3\r\nabcd\r\n0\r\n\r\n",
        chunked + "fffffffffffffffff\r\n", chunked + "3\r\nabc", chunked}) {
    EXPECT_FALSE(parse_http_answer(text)) << text;
  }
  for (const char* url : {"127.0.0.1", "https://127.0.0.1", "http://", "http://127.0.0.1/path"}) {
    EXPECT_THROW(MetadataServer{url}, ConfigError) << url;
  }
}

}  // namespace
}  // namespace reigen
