// The two texts that are signed on a control connection. The HMAC of such a text with the job's
// token is a proof that a process knows the token. A text has the role of the process, the id
// of the forming that the connection is for, random numbers of both ends, and, where it is not
// encrypted, the two ends of the connection. So a proof for one forming is none for another.
#pragma once

#include <string>

#include "dist/net/channel.h"

namespace reigen {

// Where a job starts: the id of its first forming is chosen when all workers have joined.
inline constexpr const char* kNoForming = "none";

// Signed by a worker that connects, and by the one that accepts its connection.
std::string member_challenge(const Channel& channel, const std::string& forming,
                             const std::string& theirs, const std::string& own);
std::string server_challenge(const Channel& channel, const std::string& forming,
                             const std::string& theirs, const std::string& own);

}  // namespace reigen
