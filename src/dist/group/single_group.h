// A group of one rank: every operation is complete as soon as it is started.
#pragma once

#include <memory>

#include "dist/group/group.h"

namespace reigen {

std::unique_ptr<Group> make_single_group(int64_t epoch = 0);

}  // namespace reigen
