// The two texts that are signed on a control connection. The HMAC of such a text with the job's
// token is a proof that a process knows the token. A text has the role of the process, random
// numbers of both ends, and, where it is encrypted, an identifier of the connection.
#pragma once

#include <string>

#include "dist/net/channel.h"

namespace reigen {

// Signed by a worker that joins, and by the rendezvous server that answers it.
std::string member_challenge(const Channel& channel, const std::string& theirs,
                             const std::string& own);
std::string server_challenge(const Channel& channel, const std::string& theirs,
                             const std::string& own);

}  // namespace reigen
