#include "report/live/http/http_request.h"

#include <algorithm>
#include <cctype>

#include "base/format.h"
#include "base/hash.h"

namespace reigen {
namespace {

constexpr int kBadRequest = 400;
constexpr int kMethodNotAllowed = 405;
constexpr int kBodyNotAllowed = 413;
constexpr int kHeadersTooLarge = 431;
constexpr int kVersionNotSupported = 505;

bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool is_visible(char c) { return c > ' ' && c < 0x7F; }

// Characters of a method or of the name of a header (RFC 9110, 5.6.2).
bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter_or_digit(c) || kMarks.find(c) != std::string_view::npos;
  });
}

// No control characters, so no line end that another parser might see.
bool is_field_text(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= ' ' && byte != 0x7F);
  });
}

bool same_name(std::string_view a, std::string_view lower) {
  return std::equal(a.begin(), a.end(), lower.begin(), lower.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == y;
  });
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

// "GET /path?query HTTP/1.1"; returns the status of a refusal or 0.
int parse_request_line(std::string_view line, HttpRequest& request) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return kBadRequest;
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(method) || !target.starts_with('/') ||
      !std::all_of(target.begin(), target.end(), is_visible)) {
    return kBadRequest;
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return version.starts_with("HTTP/") ? kVersionNotSupported : kBadRequest;
  }
  if (method != "GET" && method != "HEAD") return kMethodNotAllowed;
  request.head = method == "HEAD";
  const size_t question = target.find('?');
  request.path = target.substr(0, question);
  if (question != std::string_view::npos) request.query = target.substr(question + 1);
  return 0;
}

int parse_header(std::string_view line, HttpRequest& request, bool& has_host) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return kBadRequest;
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (!is_token(name) || !is_field_text(value)) return kBadRequest;
  if (same_name(name, "transfer-encoding")) return kBodyNotAllowed;
  if (same_name(name, "content-length") &&
      (value.empty() || value.find_first_not_of('0') != std::string_view::npos)) {
    return kBodyNotAllowed;
  }
  if (same_name(name, "host")) {
    if (has_host) return kBadRequest;
    has_host = true;
    request.host = value;
  }
  return 0;
}

}  // namespace

ParsedRequest parse_request(std::string_view bytes) {
  constexpr std::string_view kLineEnd = "\r\n";
  constexpr std::string_view kEnd = "\r\n\r\n";
  const size_t end = bytes.substr(0, kMostRequestBytes).find(kEnd);
  if (end == std::string_view::npos) {
    return {.refusal = bytes.size() < kMostRequestBytes ? 0 : kHeadersTooLarge};
  }
  std::string_view rest = bytes.substr(0, end);
  HttpRequest request;
  bool has_host = false;
  for (size_t number = 0; !rest.empty() || number == 0; ++number) {
    if (number > kMostHeaderLines) return {.refusal = kHeadersTooLarge};
    const size_t line_end = rest.find(kLineEnd);
    const std::string_view line = rest.substr(0, line_end);
    rest = line_end == std::string_view::npos ? std::string_view()
                                              : rest.substr(line_end + kLineEnd.size());
    const int refusal =
        number == 0 ? parse_request_line(line, request) : parse_header(line, request, has_host);
    if (refusal != 0) return {.refusal = refusal};
  }
  if (!has_host) return {.refusal = kBadRequest};
  return {.request = std::move(request)};
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  std::optional<std::string> found;
  while (!query.empty()) {
    const size_t next = query.find('&');
    const std::string_view pair = query.substr(0, next);
    query = next == std::string_view::npos ? std::string_view() : query.substr(next + 1);
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos || pair.substr(0, equals) != name) continue;
    if (found) return std::nullopt;
    found = percent_decoded(pair.substr(equals + 1));
    if (!found) return std::nullopt;
  }
  return found;
}

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = is_letter_or_digit(c) || c == '-' || c == '_' || c == '.' || c == '~';
    out += plain ? std::string(1, c) : format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (text[0] != '%') {
      out += text[0];
      text.remove_prefix(1);
      continue;
    }
    std::string digits(text.substr(1, 2));
    std::transform(digits.begin(), digits.end(), digits.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::optional<std::string> byte = hex_decode(digits);
    if (!byte || byte->size() != 1) return std::nullopt;
    out += *byte;
    text.remove_prefix(3);
  }
  return out;
}

}  // namespace reigen
