// Requests to the live page: bytes in blocks of any size give the same result, the limits hold, and
// no request is admitted without the token and a Host of loopback.
#include <cstdlib>
#include <string>

#include "base/machine.h"
#include "report/live/http/http_request.h"
#include "report/live/page_access.h"

namespace {

using namespace reigen;

// The result after the first block that decides.
ParsedRequest parsed_in_blocks(const std::string& bytes, size_t block) {
  for (size_t size = block; size < bytes.size(); size += block) {
    ParsedRequest parsed = parse_request(std::string_view(bytes).substr(0, size));
    if (!parsed.incomplete()) return parsed;
  }
  return parse_request(bytes);
}

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const ParsedRequest parsed = parse_request(bytes);
  const ParsedRequest again = parsed_in_blocks(bytes, 1 + size / 4);
  require(parsed.refusal == again.refusal &&
          parsed.request.has_value() == again.request.has_value());
  require(!parsed.incomplete() || size < kMostRequestBytes);
  require(!(parsed.refusal != 0 && parsed.request));
  if (!parsed.request) return 0;
  const HttpRequest& request = *parsed.request;
  require(request.path.starts_with('/') &&
          request.path.find_first_of("\r\n ?") == std::string::npos);
  const std::string token = "a token";
  if (admission(request, {.token = token}) == Admission::kAdmitted) {
    require(is_loopback(host_in(request.host).value()));
    require(query_value(request.query, "token") == token);
  }
  require(percent_decoded(percent_encoded(request.query)) == request.query);
  return 0;
}
