#include "dist/launch/secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/file/secret_file.h"
#include "base/format.h"
#include "base/hash.h"
#include "dist/net/socket.h"

namespace reigen {
namespace {

constexpr mode_t kOthers = 077;  // any right of group and others

std::string read_all(const Socket& file, const std::string& path) {
  std::string text(4096, '\0');
  const ssize_t got = read(file.fd(), text.data(), text.size());
  if (got < 0) throw IoError(format("cannot read {}: {}", path, errno_text(errno)));
  text.resize(static_cast<size_t>(got));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

bool is_private_directory(const std::string& path) {
  struct stat s = {};
  return lstat(path.c_str(), &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
         (s.st_mode & kOthers) == 0;
}

// Below the home directory, where no other user can make a directory; empty if there is none.
// `--copy-binary` may have made the folder above it, which others can read.
std::string private_directory_at_home() {
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return "";
  std::string path = home;
  for (const char* name : {"/.cache", "/reigen", "/private"}) {
    path += name;
    mkdir(path.c_str(), 0700);
  }
  struct stat s = {};
  return lstat(path.c_str(), &s) == 0 ? path : "";
}

// The directory for files of this user alone. In /tmp any user may have taken the name, so it is
// the last choice.
std::string private_directory() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::string path = runtime != nullptr && *runtime == '/' ? std::string(runtime) + "/reigen"
                                                           : private_directory_at_home();
  if (path.empty()) path = format("/tmp/reigen-{}", geteuid());
  mkdir(path.c_str(), 0700);
  if (!is_private_directory(path)) {
    throw IoError(
        format("{} is not a directory that only this user can access (mode 0700), so the job's "
               "token cannot be stored there; remove it, or set REIGEN_TOKEN to a random text",
               path));
  }
  return path;
}

}  // namespace

std::string token_of_new_job() {
  const char* given = std::getenv("REIGEN_TOKEN");
  if (given == nullptr) return random_hex(kTokenBytes);
  check_secret(given, "REIGEN_TOKEN");
  return given;
}

void check_secret(const std::string& secret, const std::string& source) {
  if (secret.size() >= kShortestSecret) return;
  throw ConfigError(
      format("the secret in {} has {} characters, but 128 bits take at least {}; make one with "
             "`openssl rand -hex 16`",
             source, secret.size(), kShortestSecret));
}

std::string read_token_file(const std::string& path) {
  std::string secret = read_secret_file(path);
  check_secret(secret, path);
  return secret;
}

std::string local_secret() {
  const std::string path = private_directory() + "/token";
  Socket file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.open()) {
    // Complete before it has its name: workers start at the same time, and the first one wins.
    const std::string draft = format("{}.{}", path, getpid());
    const Socket out(
        open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    const std::string secret = random_hex(kTokenBytes);
    const bool written = out.open() && write(out.fd(), secret.data(), secret.size()) ==
                                           static_cast<ssize_t>(secret.size());
    const bool named = written && (link(draft.c_str(), path.c_str()) == 0 || errno == EEXIST);
    const int failed = errno;
    unlink(draft.c_str());
    if (!named) throw IoError(format("cannot write {}: {}", path, errno_text(failed)));
    file = Socket(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  }
  if (!file.open()) throw IoError(format("cannot read {}: {}", path, errno_text(errno)));
  std::string secret = read_all(file, path);
  check_secret(secret, path);
  return secret;
}

}  // namespace reigen
