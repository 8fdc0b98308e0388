// Requests as browsers, programs and attackers send them.
#include "report/live/http/http_request.h"

#include <gtest/gtest.h>

namespace reigen {
namespace {

std::string request_with(const std::string& headers) {
  return "GET / HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n";
}

int refusal(const std::string& bytes) { return parse_request(bytes).refusal; }

TEST(HttpRequest, ARequestOfABrowserIsParsed) {
  const ParsedRequest parsed = parse_request(
      "GET /live.json?token=a%2Fb&x=1 HTTP/1.1\r\nHOST:  127.0.0.1:6810 \r\nAccept: */*\r\n\r\n");
  ASSERT_TRUE(parsed.request);
  EXPECT_EQ(parsed.refusal, 0);
  EXPECT_EQ(parsed.request->path, "/live.json");
  EXPECT_EQ(parsed.request->query, "token=a%2Fb&x=1");
  EXPECT_EQ(parsed.request->host, "127.0.0.1:6810");
  EXPECT_FALSE(parsed.request->head);
  EXPECT_TRUE(parse_request("HEAD / HTTP/1.0\r\nHost: a\r\n\r\n").request->head);
}

TEST(HttpRequest, EveryPrefixIsIncompleteAndLaterBytesChangeNothing) {
  const std::string bytes = request_with("Accept: text/html\r\n");
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(parse_request(bytes.substr(0, size)).incomplete()) << size;
  }
  EXPECT_EQ(parse_request(bytes + "POST / nonsense").request->path, "/");
}

TEST(HttpRequest, OnlyGetAndHeadAreAllowed) {
  for (const char* method :
       {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get"}) {
    EXPECT_EQ(refusal(std::string(method) + " / HTTP/1.1\r\nHost: a\r\n\r\n"), 405) << method;
  }
}

TEST(HttpRequest, BodiesAreRefused) {
  EXPECT_EQ(refusal(request_with("Content-Length: 1\r\n")), 413);
  EXPECT_EQ(refusal(request_with("content-length: 18446744073709551616\r\n")), 413);
  EXPECT_EQ(refusal(request_with("Content-Length: -1\r\n")), 413);
  EXPECT_EQ(refusal(request_with("Content-Length:\r\n")), 413);
  EXPECT_EQ(refusal(request_with("Content-Length: 0\r\nContent-Length: 5\r\n")), 413);
  EXPECT_EQ(refusal(request_with("Transfer-Encoding: chunked\r\n")), 413);
  EXPECT_EQ(refusal(request_with("tRANSFER-eNCODING: identity\r\n")), 413);
  EXPECT_EQ(refusal(request_with("Content-Length: 0\r\n")), 0);
}

TEST(HttpRequest, BytesAndHeaderLinesAreBounded) {
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\nA: " + std::string(kMostRequestBytes, 'a')), 431);
  EXPECT_EQ(refusal(std::string(kMostRequestBytes, 'a')), 431);
  EXPECT_EQ(refusal(request_with("A: " + std::string(kMostRequestBytes, 'a') + "\r\n")), 431);
  std::string lines;
  for (size_t i = 0; i + 1 < kMostHeaderLines; ++i) lines += "A: b\r\n";
  EXPECT_EQ(refusal(request_with(lines)), 0);
  EXPECT_EQ(refusal(request_with(lines + "A: b\r\n")), 431);
}

TEST(HttpRequest, MalformedRequestsAreRefused) {
  for (const std::string bytes :
       {"\r\n\r\n", "GET\r\n\r\n", "GET /\r\n\r\n", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / x HTTP/1.1\r\nHost: a\r\n\r\n", "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: a\r\n\r\n", "G\tT / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTQ/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nnone\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\nB: c\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\rB: c\r\n\r\n",
        "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n"}) {
    EXPECT_EQ(refusal(bytes), 400) << bytes;
  }
  EXPECT_EQ(refusal(std::string("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 29)), 400);
  EXPECT_EQ(refusal("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(refusal("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 400);
}

TEST(HttpRequest, RangesAreIgnored) {
  std::string ranges = "Range: bytes=0-";
  while (ranges.size() < 9000) ranges += ",0-";
  EXPECT_TRUE(parse_request(request_with(ranges + "\r\n")).request);
}

TEST(HttpRequest, AQueryValueIsDecodedAndUnique) {
  EXPECT_EQ(query_value("a=1&token=%41b%2f", "token"), "Ab/");
  EXPECT_EQ(query_value("token=", "token"), "");
  EXPECT_EQ(query_value("xtoken=a&token&&=", "token"), std::nullopt);
  EXPECT_EQ(query_value("token=a&token=a", "token"), std::nullopt);
  for (const char* wrong : {"token=%", "token=%4", "token=%zz", "token=a%%41"}) {
    EXPECT_EQ(query_value(wrong, "token"), std::nullopt) << wrong;
  }
}

TEST(HttpRequest, PercentEncodingIsUndoneByDecoding) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  const std::string encoded = percent_encoded(all);
  EXPECT_EQ(encoded.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                      "0123456789-_.~%"),
            std::string::npos);
  EXPECT_EQ(percent_decoded(encoded), all);
}

}  // namespace
}  // namespace reigen
