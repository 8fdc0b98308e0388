// `bin/reigen` of the relocatable archive: runs ../lib/reigen/reigen with the loader and the
// libraries beside it, so that the program needs no library of the system it is on.
//
// Static, and without /proc and /bin/sh: the kernel passes the path that was executed. The program
// starts itself again through this file, which it finds in REIGEN_LAUNCHER
// (base/process/own_program.h).
#include <sys/auxv.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kMost = size_t{4} * PATH_MAX;

[[noreturn]] void fail(const char* what, const char* path) {
  std::fprintf(stderr, "error: %s %s: %s\n", what, path, std::strerror(errno));
  constexpr int kIoError = 7;  // base/error.h
  std::exit(kIoError);
}

// Formats like printf; a text longer than any path is an error.
template <class... Parts>
const char* text(char (&out)[kMost], const char* pattern, Parts... parts) {
  if (std::snprintf(out, kMost, pattern, parts...) >= static_cast<int>(kMost)) {
    errno = ENAMETOOLONG;
    fail("cannot use", pattern);
  }
  return out;
}

void remove_last_name(char* path) {
  if (char* slash = std::strrchr(path, '/')) *slash = '\0';
}

}  // namespace

int main(int argc, char** argv) {
  const auto* executed = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  static char self[PATH_MAX];
  if (executed == nullptr || realpath(executed, self) == nullptr) {
    fail("cannot find", executed == nullptr ? "the path of this program" : executed);
  }
  static char variable[kMost];
  setenv("REIGEN_LAUNCHER", text(variable, "%d:%s", getpid(), self), 1);

  remove_last_name(self);  // bin
  remove_last_name(self);  // the folder that the archive was unpacked in
  static char folder[kMost];
  text(folder, "%s/lib/reigen", self);
  if (std::strpbrk(folder, ":;") != nullptr) {
    errno = EINVAL;
    fail("the loader takes no folder with ':' or ';' in its name:", self);
  }
  // Libraries of the system that the program loads at run time (CUDA, NCCL, PMIx) come after its
  // own.
  const char* others = std::getenv("LD_LIBRARY_PATH");
  const bool has_others = others != nullptr && *others != '\0';
  static char libraries[kMost];
  text(libraries, "%s%s%s", folder, has_others ? ":" : "", has_others ? others : "");
  static char loader[kMost];
  static char program[kMost];
  text(loader, "%s/ld.so", folder);
  text(program, "%s/reigen", folder);

  constexpr int kAdded = 6;
  auto** command = static_cast<const char**>(std::calloc(argc + kAdded + 2, sizeof(char*)));
  if (command == nullptr) fail("cannot run", program);
  const char* const added[kAdded] = {loader,    "--library-path", libraries,
                                     "--argv0", "reigen",         program};
  std::memcpy(command, added, sizeof added);
  for (int i = 1; i < argc; ++i) command[kAdded + i - 1] = argv[i];
  execv(loader, const_cast<char* const*>(command));
  fail("cannot run", loader);
}
