#include "report/log_tail.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/file/own_file.h"

namespace reigen {
namespace {

constexpr off_t kMostTail = 1 << 16;

// The last bytes of the file, and whether there are others before them.
std::pair<std::string, bool> last_bytes(int fd) {
  struct stat info = {};
  if (fstat(fd, &info) != 0) return {};
  const off_t from = std::max<off_t>(0, info.st_size - kMostTail);
  std::string text(static_cast<size_t>(info.st_size - from), '\0');
  const ssize_t got = pread(fd, text.data(), text.size(), from);
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
  return {std::move(text), from > 0};
}

}  // namespace

std::vector<std::string> log_tail(const std::string& path, size_t lines) {
  int fd = -1;
  try {
    fd = open_own_for_reading(path);
  } catch (const DataError&) {
    return {};
  }
  auto [text, cut] = last_bytes(fd);
  ::close(fd);
  std::istringstream in(std::move(text));
  std::vector<std::string> found;
  std::string line;
  if (cut) std::getline(in, line);  // the rest of a line that began earlier
  while (std::getline(in, line)) found.push_back(std::move(line));
  if (found.size() > lines) found.erase(found.begin(), found.end() - static_cast<long>(lines));
  return found;
}

}  // namespace reigen
