#include "observe/record/log_reader.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/file/own_file.h"
#include "base/format.h"

namespace reigen {
namespace {

constexpr size_t kReadBytes = 1 << 18;
// An evaluation with its sample translations takes some kilobytes; 64 MB without a newline is not a
// log.
constexpr size_t kMaxLineBytes = 64 << 20;

}  // namespace

LogLineReader::LogLineReader(std::string path, uint64_t from) : path_(std::move(path)), end_(from) {
  fd_ = open_own_for_reading(path_);
  lseek(fd_, static_cast<off_t>(from), SEEK_SET);
}

LogLineReader::~LogLineReader() { ::close(fd_); }

bool LogLineReader::next(std::string_view& line) {
  size_t searched = at_;
  size_t newline = std::string::npos;
  while ((newline = buffer_.find('\n', searched)) == std::string::npos) {
    buffer_.erase(0, at_);
    at_ = 0;
    searched = buffer_.size();
    if (!read_more()) return false;
  }
  line = std::string_view(buffer_).substr(at_, newline - at_);
  end_ += line.size() + 1;
  at_ = newline + 1;
  ++number_;
  return true;
}

bool LogLineReader::read_more() {
  const size_t had = buffer_.size();
  if (had > kMaxLineBytes) {
    throw DataError(format("{}:{}: line longer than {}; the file is not a measurement log", path_,
                           number_ + 1, human_bytes(kMaxLineBytes)));
  }
  buffer_.resize(had + kReadBytes);
  ssize_t got = 0;
  do {
    got = read(fd_, buffer_.data() + had, kReadBytes);
  } while (got < 0 && errno == EINTR);
  if (got < 0) throw IoError(format("{}: cannot be read: {}", path_, errno_text(errno)));
  buffer_.resize(had + static_cast<size_t>(got));
  return got > 0;
}

}  // namespace reigen
