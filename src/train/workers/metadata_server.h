// A client of the small HTTP server that a cloud gives each of its machines.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dist/net/socket.h"

namespace reigen {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// A complete answer, read to the end of the connection; nothing for any other text.
std::optional<HttpAnswer> parse_http_answer(std::string_view text);

class MetadataServer {
 public:
  // "http://169.254.169.254", without a path; throws ConfigError.
  explicit MetadataServer(const std::string& url);

  // Throws CommError without an answer within two seconds, or with a malformed one.
  HttpAnswer ask(const std::string& method, const std::string& path,
                 const std::vector<std::string>& headers) const;

 private:
  Endpoint at_;
};

}  // namespace reigen
