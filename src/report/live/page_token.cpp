#include "report/live/page_token.h"

#include <cstdlib>

#include "base/error.h"
#include "base/file/secret_file.h"
#include "base/format.h"
#include "base/hash.h"

namespace reigen {

std::string given_page_token(const PageOptions& options) {
  if (!options.token.empty() && !options.token_file.empty()) {
    throw ConfigError("the access token of the live page is given as text and as a file; give one");
  }
  if (!options.token_file.empty()) return read_secret_file(options.token_file);
  const char* variable = std::getenv(kPageTokenVariable);
  std::string token = options.token.empty() && variable != nullptr ? variable : options.token;
  if (token.size() > kMostSecretBytes) {
    throw ConfigError(format("the access token of the live page has {} bytes; use at most {}",
                             token.size(), kMostSecretBytes));
  }
  return token;
}

std::string page_token(const PageOptions& options) {
  const std::string token = given_page_token(options);
  return token.empty() ? random_hex(kTokenBytes) : token;
}

}  // namespace reigen
