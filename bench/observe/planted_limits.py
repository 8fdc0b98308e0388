"""Limits of a machine that a case plants: a small disk, little memory. planted_bench sets the path to slow_disk."""

import os
import subprocess

from planted_bench import Skipped
from quota import V2, enable_controller
from slow_disk import SlowDisk


class SmallDisk(SlowDisk):
    """A disk of some megabytes; its reads are not slow."""

    def __init__(self, folder, megabytes):
        try:
            super().__init__(folder, 10**9, megabytes)
        except PermissionError as error:
            raise Skipped(str(error)) from error


class SlowWrites(SlowDisk):
    """A disk of some megabytes that writes so many bytes per second."""

    def __init__(self, folder, megabytes, rate):
        try:
            super().__init__(folder, 10**9, megabytes, write_rate=rate)
        except PermissionError as error:
            raise Skipped(str(error)) from error


class MemoryLimit:
    """A control group in which processes have some megabytes of memory, with pages of files."""

    def __init__(self, megabytes):
        first = os.path.exists("/sys/fs/cgroup/memory/memory.limit_in_bytes")
        self.folder = f"{'/sys/fs/cgroup/memory' if first else V2}/reigen-planted-{os.getpid()}"
        try:
            if not first:
                enable_controller("memory")
            os.mkdir(self.folder)
            self._write("memory.limit_in_bytes" if first else "memory.max", megabytes << 20)
        except OSError as error:
            self.close()
            raise Skipped(f"no memory limit can be set here: {error}") from error

    def _write(self, name, text):
        file = os.open(f"{self.folder}/{name}", os.O_WRONLY)  # which does not make it
        try:
            os.write(file, str(text).encode())
        finally:
            os.close(file)

    def limit_this_process(self):
        self._write("cgroup.procs", os.getpid())

    def close(self):
        subprocess.run(["rmdir", self.folder], capture_output=True, check=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
