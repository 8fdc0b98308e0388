#include "cli/line_output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/printable.h"

namespace reigen {

namespace fs = std::filesystem;

namespace {

constexpr int kWaitMs = 100;

// Until a write of PIPE_BUF bytes does not block. Signals are taken by the main thread, so a write
// that blocks on another one would never notice Ctrl-C.
void wait_until_writable(int fd) {
  while (true) {
    pollfd ready = {fd, POLLOUT, 0};
    const int found = poll(&ready, 1, kWaitMs);
    if (found > 0 || (found < 0 && errno != EINTR)) return;
    check_interrupt();
  }
}

}  // namespace

LineOutput::LineOutput(const std::string& path) : final_(path) {
  if (path == kStandard) {
    fd_ = STDOUT_FILENO;
    return;
  }
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status)) {
    throw ConfigError(format("{} is a directory; give a file to write", path));
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    fd_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) throw IoError(format("{}: cannot write: {}", path, errno_text(errno)));
    return;
  }
  if (fs::is_symlink(fs::symlink_status(path, ignored))) final_ = fs::weakly_canonical(path);
  file_ = std::make_unique<FileWriter>(final_ + ".partial");
}

LineOutput::~LineOutput() {
  if (fd_ > STDOUT_FILENO) ::close(fd_);
}

bool LineOutput::write(std::string_view text) {
  if (file_) {
    file_->write(text);
    return true;
  }
  std::string shown;
  if (isatty(fd_) == 1) text = shown = printable(text);
  while (!text.empty()) {
    wait_until_writable(fd_);
    const ssize_t put = ::write(fd_, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (put < 0 && errno == EPIPE) return false;
    if (put < 0 && errno != EINTR && errno != EAGAIN) {
      throw IoError(format("{}: cannot write: {}", final_ == kStandard ? "standard output" : final_,
                           errno_text(errno)));
    }
    if (put > 0) text.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

void LineOutput::close_partial() {
  if (file_) file_->close();
}

void LineOutput::close() {
  if (!file_) return;
  file_->close();
  if (std::rename(partial().c_str(), final_.c_str()) != 0) {
    throw IoError(format("cannot rename {} to {}: {}", partial(), final_, errno_text(errno)));
  }
}

}  // namespace reigen
