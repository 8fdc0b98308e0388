// The texts whose HMAC with the job's token proves to the other end of a control connection that a
// process knows it: random numbers of both ends, the role, and the connection itself where
// possible.
#pragma once

#include <string>

#include "dist/net/channel.h"

namespace reigen {

std::string member_proof(const Channel& channel, const std::string& theirs, const std::string& own);
std::string host_proof(const Channel& channel, const std::string& theirs, const std::string& own);

}  // namespace reigen
