"""Wall clocks that jump, and a disk that is full: faults of one worker that leave the rest of the machine alone."""

import os
import struct
import subprocess

# Adds the seconds in a mapped file to the wall clock; clocks that only count are left alone.
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long* offset(void) {
  static volatile long long none = 0, *mapped = 0;
  if (mapped) return mapped;
  const char* path = getenv("REIGEN_TEST_CLOCK");
  int fd = path ? open(path, O_RDONLY) : -1;
  void* at = fd < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, fd, 0);
  if (fd >= 0) close(fd);
  return mapped = at == MAP_FAILED ? &none : at;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*) = 0;
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, now);
  if (clock == CLOCK_REALTIME && result == 0) now->tv_sec += *offset();
  return result;
}

time_t time(time_t* into) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (into) *into = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval* now, void* zone) {
  struct timespec precise;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}
"""


def shim_in(folder):
    """Compiles the library; its path, or nothing where there is no C compiler."""
    source, library = os.path.join(folder, "clock.c"), os.path.join(folder, "clock.so")
    with open(source, "w", encoding="utf-8") as file:
        file.write(SHIM)
    try:
        done = subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], capture_output=True,
                              check=False)
    except FileNotFoundError:
        return None
    return library if done.returncode == 0 else None


class Clocks:
    """One wall clock for each worker."""

    def __init__(self, library, prefix):
        self.library = library
        self.prefix = prefix

    def _path(self, worker):
        return f"{self.prefix}.clock-{worker}"

    def variables(self, worker):
        self.jump(worker, 0)
        return {"LD_PRELOAD": self.library, "REIGEN_TEST_CLOCK": self._path(worker)}

    def jump(self, worker, seconds):
        """From now on the clock is that much ahead of the machine's."""
        with open(self._path(worker), "r+b" if os.path.exists(self._path(worker)) else "w+b") as file:
            file.write(struct.pack("<q", round(seconds)))


class Disk:
    """A small disk of its own, as long as mounting is permitted."""

    def __init__(self, path, megabytes=24):
        os.mkdir(path)
        self.path = path
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", path], capture_output=True,
                              check=False)
        if made.returncode != 0:
            os.rmdir(path)
            raise PermissionError("cannot mount a small disk here: needs root")

    @staticmethod
    def permitted(folder):
        try:
            Disk(os.path.join(folder, "try")).close()
        except PermissionError:
            return False
        return True

    def fill(self, leave):
        """Takes all room but that for `leave` bytes, while others may write."""
        block = 1 << 16
        with open(os.path.join(self.path, "filler"), "ab", buffering=0) as file:
            while True:
                state = os.statvfs(self.path)
                if state.f_bavail * state.f_frsize < leave + block:
                    return
                file.write(b"x" * block)

    def make_room(self):
        try:
            os.remove(os.path.join(self.path, "filler"))
        except FileNotFoundError:
            pass

    def close(self):
        subprocess.run(["umount", "-l", self.path], check=False, capture_output=True)
        os.rmdir(self.path)
