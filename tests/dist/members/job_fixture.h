// Jobs for tests: every rank is a thread of this process, over loopback.
#pragma once

#include <functional>

#include "dist/members/job.h"

namespace reigen {

// Runs `body` for every rank of a new job at once and ends the job unless `body` has. The hosts are
// named host0, host1 and so on, with `on_each` ranks each. Throws the first exception that a rank
// threw.
void with_job(int size, const std::function<void(Job&)>& body, int on_each = 1);

// The same for an elastic job. A rank whose body returns without Job::leave() is lost to the
// others.
void with_elastic_job(int size, const std::function<void(Job&)>& body);

}  // namespace reigen
