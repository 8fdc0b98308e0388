// The server against idle, slow and malformed clients, and against many at once.
#include "report/live/http/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <thread>

#include "base/interrupt.h"
#include "report/live/page_listener.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;

constexpr size_t kLarge = 16 << 20;  // more than the kernel buffers
const std::string kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

class Client {
 public:
  explicit Client(int port, const char* from = "127.0.0.1")
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience = {.tv_sec = 20};
    setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address = {.sin_family = AF_INET};
    inet_pton(AF_INET, from, &address.sin_addr);
    EXPECT_EQ(bind(socket_.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(connect(socket_.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }

  void send(const std::string& bytes) {
    ::send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  // All bytes until the server closes the connection.
  std::string receive() {
    std::string all;
    char buffer[4096];
    ssize_t got = 0;
    while ((got = recv(socket_.fd(), buffer, sizeof buffer, 0)) > 0) {
      all.append(buffer, static_cast<size_t>(got));
    }
    EXPECT_TRUE(got == 0 || errno == ECONNRESET) << "the connection stays open";
    return all;
  }

  std::string ask(const std::string& bytes) {
    send(bytes);
    return receive();
  }

  void close() { socket_.close(); }

 private:
  Socket socket_;
};

std::string body_of(const std::string& answer) {
  return answer.substr(answer.find("\r\n\r\n") + 4);
}
std::string status_of(const std::string& answer) { return answer.substr(0, 12); }

class HttpServerTest : public testing::Test {
 protected:
  void start(HttpLimits limits = {}) {
    Socket listener = listen_for_page("127.0.0.1", 0);
    port_ = port_of(listener);
    server_ = std::make_unique<HttpServer>(
        std::move(listener), [this](const HttpRequest& request) { return reply(request); }, limits);
    thread_ = std::thread([this] { server_->run([this] { return ended_.load(); }); });
  }

  ~HttpServerTest() override { stop(); }

  void stop() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
  }

  HttpServer::Reply reply(const HttpRequest& request) {
    if (request.path == "/slow") {
      return {.work =
                  [this] {
                    release_.get_future().wait();
                    return HttpResponse{.body = "late"};
                  },
              .lane = &lane_};
    }
    if (request.path == "/fails") {
      return {.work = []() -> HttpResponse { throw std::runtime_error("why"); }, .lane = &lane_};
    }
    if (request.path == "/large") return {.response = {.body = std::string(kLarge, 'a')}};
    return {.response = {.body = "hello " + request.path}};
  }

  std::promise<void> release_;
  WorkLane lane_;
  std::atomic<bool> ended_ = false;
  int port_ = 0;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

TEST_F(HttpServerTest, ARequestIsAnsweredAndTheConnectionClosed) {
  start();
  const std::string answer = Client(port_).ask(kGet);
  EXPECT_EQ(status_of(answer), "HTTP/1.1 200");
  EXPECT_EQ(body_of(answer), "hello /");
  EXPECT_NE(answer.find("\r\nContent-Length: 7\r\n"), std::string::npos);
  EXPECT_NE(answer.find("\r\nContent-Security-Policy: default-src 'none'\r\n"), std::string::npos);
  const std::string head = Client(port_).ask("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_NE(head.find("\r\nContent-Length: 8\r\n"), std::string::npos);
  EXPECT_EQ(body_of(head), "");
}

TEST_F(HttpServerTest, ARequestInSingleBytesIsAnswered) {
  start();
  Client client(port_);
  for (const char c : kGet) client.send(std::string(1, c));
  EXPECT_EQ(body_of(client.receive()), "hello /");
}

TEST_F(HttpServerTest, RangesAreIgnored) {
  start();
  std::string ranges = "bytes=0-";
  while (ranges.size() < 8000) ranges += ",0-";
  const std::string answer =
      Client(port_).ask("GET / HTTP/1.1\r\nHost: a\r\nRange: " + ranges + "\r\n\r\n");
  EXPECT_EQ(status_of(answer), "HTTP/1.1 200");
  EXPECT_EQ(body_of(answer), "hello /");
}

TEST_F(HttpServerTest, ARefusalArrivesThoughTheClientContinuesToSend) {
  start();
  const std::string block(1 << 16, 'a');
  EXPECT_EQ(status_of(Client(port_).ask("POST / HTTP/1.1\r\nHost: a\r\n\r\n" + block)),
            "HTTP/1.1 405");
  EXPECT_EQ(status_of(Client(port_).ask(
                "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + block)),
            "HTTP/1.1 413");
  EXPECT_EQ(status_of(Client(port_).ask("GET / HTTP/1.1\r\nA: " + block)), "HTTP/1.1 431");
}

TEST_F(HttpServerTest, SlowWorkHoldsNoOtherClientUp) {
  start();
  Client slow(port_);
  slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(body_of(Client(port_).ask(kGet)), "hello /");
  release_.set_value();
  EXPECT_EQ(body_of(slow.receive()), "late");
}

TEST_F(HttpServerTest, AnErrorOfTheWorkIsAnAnswer) {
  start();
  const std::string answer = Client(port_).ask("GET /fails HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(status_of(answer), "HTTP/1.1 503");
  EXPECT_EQ(body_of(answer), "why\n");
}

TEST_F(HttpServerTest, AClientThatLeavesBeforeItsAnswerHarmsNothing) {
  start();
  for (int i = 0; i < 20; ++i) {
    Client client(port_);
    client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    client.close();
  }
  Client slow(port_);
  slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
  slow.close();
  release_.set_value();
  EXPECT_EQ(body_of(Client(port_).ask(kGet)), "hello /");
}

TEST_F(HttpServerTest, ANewConnectionReplacesTheOldestIdleOne) {
  start({.connections = 4, .to_read = milliseconds(600'000)});
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 4; ++i) idle.push_back(std::make_unique<Client>(port_));
  EXPECT_EQ(body_of(Client(port_).ask(kGet)), "hello /");
  EXPECT_EQ(idle.front()->receive(), "");                 // closed
  EXPECT_EQ(body_of(idle.back()->ask(kGet)), "hello /");  // open
}

TEST_F(HttpServerTest, IdleConnectionsOfOneClientReplaceTheirOwn) {
  start({.connections = 100, .per_client = 3, .to_read = milliseconds(600'000)});
  Client other(port_, "127.0.0.2");
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 50; ++i) idle.push_back(std::make_unique<Client>(port_));
  for (int i = 0; i < 47; ++i) EXPECT_EQ(idle[static_cast<size_t>(i)]->receive(), "");
  EXPECT_EQ(body_of(other.ask(kGet)), "hello /");
  for (size_t i = 47; i < 50; ++i) EXPECT_EQ(body_of(idle[i]->ask(kGet)), "hello /");
}

TEST_F(HttpServerTest, AConnectionThatSendsNoRequestIsClosed) {
  start({.to_read = milliseconds(50)});
  Client client(port_);
  client.send("GET / HTTP/1.1\r\n");
  EXPECT_EQ(client.receive(), "");
}

TEST_F(HttpServerTest, AnAnswerThatIsNotReadIsGivenUp) {
  start({.to_write = milliseconds(300)});
  Client client(port_);
  client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
  std::this_thread::sleep_for(milliseconds(1000));
  EXPECT_LT(client.receive().size(), kLarge);
  EXPECT_EQ(body_of(Client(port_).ask(kGet)), "hello /");
}

TEST_F(HttpServerTest, ItEndsWhileClientsAreConnected) {
  start();
  Client idle(port_);
  Client reading(port_);
  reading.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
  stop();
  server_.reset();
  EXPECT_EQ(idle.receive(), "");
}

}  // namespace
}  // namespace reigen
