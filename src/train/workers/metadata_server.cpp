#include "train/workers/metadata_server.h"

#include <poll.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostAnswer = size_t{64} << 10;
constexpr std::string_view kLineEnd = "\r\n";

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// The body of "Transfer-Encoding: chunked".
std::optional<std::string> unchunked(std::string_view text) {
  std::string body;
  while (true) {
    size_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size, 16);
    const size_t line = text.find(kLineEnd);
    if (error != std::errc() || line == std::string_view::npos) return std::nullopt;
    text.remove_prefix(line + kLineEnd.size());
    if (size == 0) return body;
    if (size > text.size() || !text.substr(size).starts_with(kLineEnd)) return std::nullopt;
    body += text.substr(0, size);
    text.remove_prefix(size + kLineEnd.size());
  }
}

bool wait_for(const Socket& socket, short events, Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  if (left.count() <= 0) return false;
  pollfd waiting{socket.fd(), events, 0};
  return poll(&waiting, 1, static_cast<int>(left.count())) > 0;
}

}  // namespace

std::optional<HttpAnswer> parse_http_answer(std::string_view text) {
  constexpr std::string_view kVersion = "HTTP/1.";
  constexpr size_t kStatusAt = 9;  // "HTTP/1.1 200 OK"
  const size_t end = text.find("\r\n\r\n");
  if (!text.starts_with(kVersion) || end == std::string_view::npos || end < kStatusAt + 3) {
    return std::nullopt;
  }
  HttpAnswer answer;
  const char* status = text.data() + kStatusAt;
  if (std::from_chars(status, status + 3, answer.status).ptr != status + 3) return std::nullopt;
  const std::string head = lower(text.substr(0, end)) + "\r\n";
  const std::string_view body = text.substr(end + 2 * kLineEnd.size());
  if (head.find("\r\ntransfer-encoding: chunked\r\n") != std::string::npos) {
    const auto whole = unchunked(body);
    if (!whole) return std::nullopt;
    answer.body = *whole;
    return answer;
  }
  constexpr std::string_view kLength = "\r\ncontent-length: ";
  if (const size_t at = head.find(kLength); at != std::string::npos) {
    size_t length = 0;
    const char* number = head.data() + at + kLength.size();
    const auto [stop, error] = std::from_chars(number, head.data() + head.size(), length);
    if (error != std::errc() || length > body.size()) return std::nullopt;
    answer.body = body.substr(0, length);
    return answer;
  }
  answer.body = body;
  return answer;
}

MetadataServer::MetadataServer(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  constexpr int kHttp = 80;
  std::string place = url.starts_with(kScheme) ? url.substr(kScheme.size()) : "";
  while (place.ends_with('/')) place.pop_back();
  if (place.empty() || place.find('/') != std::string::npos) {
    throw ConfigError(
        format("'{}' is not the address of a metadata server; write "
               "http://HOST:PORT",
               url));
  }
  if (place.find(':') == std::string::npos) place += format(":{}", kHttp);
  at_ = parse_endpoints(place).at(0);
}

HttpAnswer MetadataServer::ask(const std::string& method, const std::string& path,
                               const std::vector<std::string>& headers) const {
  constexpr std::chrono::milliseconds kWithin{2'000};
  const auto deadline = Clock::now() + kWithin;
  std::string why;
  const Socket socket = connect_to(at_, kWithin, why);
  if (!socket.open()) throw CommError(format("{}: {}", text_of(at_), why));
  std::string request =
      format("{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", method, path, at_.host);
  for (const std::string& header : headers) request += header + "\r\n";
  if (method == "PUT") request += "Content-Length: 0\r\n";
  request += "\r\n";
  while (!request.empty()) {
    if (!write_available(socket, request) || !wait_for(socket, POLLOUT, deadline)) break;
  }
  std::string text;
  bool open = request.empty();
  while (open && wait_for(socket, POLLIN, deadline) && text.size() < kMostAnswer) {
    open = read_available(socket, text, kMostAnswer);
  }
  const auto answer = parse_http_answer(text);
  if (!answer) throw CommError(format("{}: no HTTP answer to {}", text_of(at_), path));
  return *answer;
}

}  // namespace reigen
