// Groups for tests: every rank is a thread of this process, connected over loopback. Linking it
// also makes the process ignore SIGPIPE.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "dist/group/group.h"
#include "dist/net/channel.h"

namespace reigen {

// Runs `body` on all ranks of a new group at once. The hosts are named host0, host1 and so on, with
// `on_each` ranks on each.
void with_group(int size, const std::function<void(Group&)>& body, int64_t epoch = 1,
                std::chrono::milliseconds timeout = std::chrono::milliseconds(0), int on_each = 1,
                Encrypt encrypt = Encrypt::kAuto);

// Closes a group as soon as it has carried out so many operations, at the latest at the end of its
// life: the other ranks see a worker that was lost at that moment.
class BreakAfter {
 public:
  BreakAfter(Group& group, uint64_t operations);
  ~BreakAfter();
  BreakAfter(const BreakAfter&) = delete;
  BreakAfter& operator=(const BreakAfter&) = delete;

 private:
  Group& group_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t left_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace reigen
