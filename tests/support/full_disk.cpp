// RLIMIT_FSIZE with SIGXFSZ ignored, so that write() returns an error.
#include "support/full_disk.h"

#include <signal.h>

#include <stdexcept>

namespace reigen {

FullDisk::FullDisk(uint64_t bytes_per_file) {
  handler_ = signal(SIGXFSZ, SIG_IGN);
  if (getrlimit(RLIMIT_FSIZE, &before_) != 0) throw std::runtime_error("getrlimit failed");
  set(bytes_per_file);
}

FullDisk::~FullDisk() {
  setrlimit(RLIMIT_FSIZE, &before_);
  signal(SIGXFSZ, handler_);
}

void FullDisk::set(uint64_t bytes_per_file) {
  rlimit limit = before_;
  limit.rlim_cur = bytes_per_file;
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) throw std::runtime_error("setrlimit failed");
}

}  // namespace reigen
