// Groups for tests: every rank a thread of this process, over loopback.
#pragma once

#include <chrono>
#include <functional>

#include "dist/group/group.h"

namespace reigen {

// Runs `body` for every rank of a new group at once; the hosts are named host0, host1 and so on,
// with so many ranks on each.
void with_group(int size, const std::function<void(Group&)>& body, int64_t epoch = 1,
                std::chrono::milliseconds timeout = std::chrono::milliseconds(0), int on_each = 1);

}  // namespace reigen
