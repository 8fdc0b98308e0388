// The first question of a new process to a running elastic job: who are its workers, and what does
// it have to know before it asks to be added? Any worker is asked, then their rank 0.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "dist/members/membership.h"

namespace reigen {

struct JoinQuestion {
  std::vector<Endpoint> at;  // the standby ports of any workers, which are asked in turn
  std::string token;
  Encryption encryption;
  std::chrono::milliseconds within{60'000};
};

struct JoinAnswer {
  JobToJoin job;
  std::string welcome;  // Membership::set_welcome() of rank 0
};

// Tries again for a while: the job may be forming a membership. Throws CommError.
JoinAnswer ask_running_job(const JoinQuestion& question);

}  // namespace reigen
