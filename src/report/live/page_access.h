// Who may open the live page: the access token and the Host header, checked before any file.
//
// The page shows text of the training data, and every user of a machine reaches its loopback
// addresses: a token is always required. On loopback the Host must be a loopback address, too, so
// that a page of another site cannot reach this one through a name that resolves to it (DNS
// rebinding).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "report/live/http/http_request.h"

namespace reigen {

struct PageAccess {
  std::string token;          // an empty token admits no request
  bool only_loopback = true;  // whether the page listens on loopback
};

enum class Admission { kAdmitted, kWrongHost, kWrongToken };

Admission admission(const HttpRequest& request, const PageAccess& access);

// The host of a Host header, without port and without the brackets of an IPv6 address; nothing if
// the header is malformed.
std::optional<std::string> host_in(std::string_view header);

// The link to a page, with its token unless that is empty. The addresses 0.0.0.0 and :: stand for
// all addresses of this host; the link has its name instead.
std::string page_url(const std::string& address, int port, const std::string& token);

}  // namespace reigen
