// Groups for tests: every rank is a thread of this process, connected over loopback. Linking it
// also makes the process ignore SIGPIPE.
#pragma once

#include <chrono>
#include <functional>

#include "dist/group/group.h"
#include "dist/net/channel.h"

namespace reigen {

// Runs `body` on all ranks of a new group at once. The hosts are named host0, host1 and so on, with
// `on_each` ranks on each.
void with_group(int size, const std::function<void(Group&)>& body, int64_t epoch = 1,
                std::chrono::milliseconds timeout = std::chrono::milliseconds(0), int on_each = 1,
                Encrypt encrypt = Encrypt::kAuto);

}  // namespace reigen
