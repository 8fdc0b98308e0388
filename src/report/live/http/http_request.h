// One HTTP request, parsed from bytes that anyone may send: a pure function with fixed limits.
//
// The live page needs little of HTTP, and the parser accepts no more: GET and HEAD, no body, strict
// line ends, a bounded number of bytes and of header lines. `Range` is ignored like every header
// that the page does not use.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace reigen {

// Of the request line and all headers. Browsers send about one kilobyte; cookies that other
// programs on the same host name have set may add several.
inline constexpr size_t kMostRequestBytes = 16 << 10;
inline constexpr size_t kMostHeaderLines = 100;

struct HttpRequest {
  bool head = false;  // HEAD: the headers of the answer only
  std::string path;   // as sent, without the query; it is compared, never decoded
  std::string query;  // as sent, after the '?'
  std::string host;   // the Host header
};

struct ParsedRequest {
  int refusal = 0;  // the HTTP status of a refusal; 0 if there is none
  std::optional<HttpRequest> request;
  bool incomplete() const { return refusal == 0 && !request; }
};

// `bytes` are all bytes of a connection so far. More bytes change the result only if it is
// incomplete.
ParsedRequest parse_request(std::string_view bytes);

// The value of `name` in "a=1&name=value", percent-decoded; nothing if it is absent, given twice or
// malformed.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

// For a link: every byte but letters, digits and "-_.~" as %41.
std::string percent_encoded(std::string_view text);
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace reigen
