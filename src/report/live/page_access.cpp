#include "report/live/page_access.h"

#include <algorithm>
#include <cctype>

#include "base/format.h"
#include "base/hash.h"
#include "base/machine.h"

namespace reigen {
namespace {

// Empty, or ':' and one to five digits.
bool is_port(std::string_view text) {
  constexpr size_t kMostDigits = 5;
  if (text.empty()) return true;
  return text[0] == ':' && text.size() >= 2 && text.size() <= 1 + kMostDigits &&
         text.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

bool consists_of(std::string_view text, std::string_view marks) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           marks.find(c) != std::string_view::npos;
  });
}

}  // namespace

std::optional<std::string> host_in(std::string_view header) {
  if (header.starts_with('[')) {
    const size_t close = header.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    const std::string_view inside = header.substr(1, close - 1);
    if (!consists_of(inside, ":.") || !is_port(header.substr(close + 1))) return std::nullopt;
    return std::string(inside);
  }
  const std::string_view name = header.substr(0, header.find(':'));
  if (!consists_of(name, "-._") || !is_port(header.substr(name.size()))) return std::nullopt;
  return std::string(name);
}

Admission admission(const HttpRequest& request, const PageAccess& access) {
  const std::optional<std::string> host = host_in(request.host);
  if (!host || (access.only_loopback && !is_loopback(*host))) return Admission::kWrongHost;
  const std::string given = query_value(request.query, "token").value_or("");
  const bool right = !access.token.empty() && same_secret(given, access.token);
  return right ? Admission::kAdmitted : Admission::kWrongToken;
}

std::string page_url(const std::string& address, int port, const std::string& token) {
  const bool v6 = address.find(':') != std::string::npos;
  std::string host = v6 ? "[" + address + "]" : address;
  if (address == "0.0.0.0" || address == "::") host = host_name();
  return format("http://{}:{}/{}", host, port,
                token.empty() ? "" : "?token=" + percent_encoded(token));
}

}  // namespace reigen
