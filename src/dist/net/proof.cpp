#include "dist/net/proof.h"

#include "base/format.h"

namespace reigen {

std::string member_challenge(const Channel& channel, const std::string& forming,
                             const std::string& theirs, const std::string& own) {
  return format("member {} {} {} {}", forming, theirs, own, channel.binding());
}

std::string server_challenge(const Channel& channel, const std::string& forming,
                             const std::string& theirs, const std::string& own) {
  return format("host {} {} {} {}", forming, theirs, own, channel.binding());
}

}  // namespace reigen
