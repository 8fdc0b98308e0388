// A disk that is full for this process: no file grows past a size, and a write that crosses the
// limit is cut short as on a full disk. Needs no privilege; the destructor removes the limit.
#pragma once

#include <sys/resource.h>

#include <cstdint>

namespace reigen {

class FullDisk {
 public:
  explicit FullDisk(uint64_t bytes_per_file);
  ~FullDisk();
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

  void set(uint64_t bytes_per_file);

 private:
  rlimit before_ = {};
  void (*handler_)(int) = nullptr;
};

}  // namespace reigen
