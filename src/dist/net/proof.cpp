#include "dist/net/proof.h"

#include "base/format.h"

namespace reigen {

std::string member_challenge(const Channel& channel, const std::string& theirs,
                             const std::string& own) {
  return format("member {} {} {}", theirs, own, channel.binding());
}

std::string server_challenge(const Channel& channel, const std::string& theirs,
                             const std::string& own) {
  return format("host {} {} {}", theirs, own, channel.binding());
}

}  // namespace reigen
