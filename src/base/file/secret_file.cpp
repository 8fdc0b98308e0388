#include "base/file/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/format.h"
#include "base/printable.h"

namespace reigen {
namespace {

constexpr mode_t kAccessOfOthers = S_IRWXG | S_IRWXO;

struct OpenFile {
  int fd = -1;
  ~OpenFile() {
    if (fd >= 0) ::close(fd);
  }
};

void check_private(int fd, const std::string& path) {
  struct stat facts = {};
  if (fstat(fd, &facts) != 0) throw ConfigError(format("{}: {}", path, errno_text(errno)));
  if (!S_ISREG(facts.st_mode)) {
    throw ConfigError(format("{}: is not a regular file; write the secret into one", path));
  }
  if (facts.st_uid != geteuid() && facts.st_uid != 0) {
    throw ConfigError(
        format("{}: belongs to user {}, who knows the secret and may change it; it must belong to "
               "user {}: `chown {} {}`, or copy it",
               path, facts.st_uid, geteuid(), geteuid(), shell_word(path)));
  }
  if ((facts.st_mode & kAccessOfOthers) != 0) {
    throw ConfigError(
        format("{}: has mode {:04o}, so other users may access the secret; `chmod 600 {}`", path,
               static_cast<unsigned>(facts.st_mode & 07777), shell_word(path)));
  }
}

}  // namespace

std::string read_secret_file(const std::string& path) {
  // Non-blocking: opening a pipe would wait for its writer.
  const OpenFile file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) throw ConfigError(format("{}: cannot be read: {}", path, errno_text(errno)));
  check_private(file.fd, path);
  char buffer[2 * kMostSecretBytes];
  const ssize_t got = read(file.fd, buffer, sizeof buffer);
  if (got < 0) throw ConfigError(format("{}: cannot be read: {}", path, errno_text(errno)));
  const std::string text(buffer, static_cast<size_t>(got));
  constexpr const char* kWhiteSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string::npos) {
    throw ConfigError(format("{}: is empty; write the secret into it", path));
  }
  const size_t size = text.find_last_not_of(kWhiteSpace) + 1 - begin;
  if (size > kMostSecretBytes) {
    throw ConfigError(format("{}: the secret is longer than {} bytes; use a shorter one", path,
                             kMostSecretBytes));
  }
  return text.substr(begin, size);
}

void write_secret_file(const std::string& path, std::string_view text) {
  const std::string made = path + ".new";
  auto failed = [&](const std::string& name) {
    return IoError(format("{}: cannot be written: {}", name, errno_text(errno)));
  };
  if (unlink(made.c_str()) != 0 && errno != ENOENT) throw failed(made);
  OpenFile file{open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
  if (file.fd < 0) throw failed(made);
  const ssize_t put = write(file.fd, text.data(), text.size());
  if (put != static_cast<ssize_t>(text.size())) {
    if (put >= 0) errno = ENOSPC;
    throw failed(made);
  }
  if (std::rename(made.c_str(), path.c_str()) != 0) throw failed(path);
}

}  // namespace reigen
