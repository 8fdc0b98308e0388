"""A disk as slow as a test needs: an image on a loop device, whose reads the kernel throttles."""

import os
import subprocess

from quota import V2, enable_controller

BLKIO = "/sys/fs/cgroup/blkio"


class SlowDisk:
    """`with SlowDisk(folder, 200_000) as disk:` mounts `disk.path`; a process that calls `limit_this_process`
    before it starts (preexec_fn) reads 200,000 bytes a second from it. With `write_rate` all writes to the disk are
    as slow as that, too, also those that the kernel makes later for any process.

    Raises PermissionError where the machine does not permit it.
    """

    def __init__(self, folder, rate, megabytes=64, write_rate=None):
        self.image = os.path.join(folder, "disk.img")
        self.path = os.path.join(folder, "disk")
        self.first = os.path.exists(BLKIO)
        self.group = f"{BLKIO if self.first else V2}/reigen-test-disk-{os.getpid()}"
        self.device = None
        self.root_limit = None  # that close() removes
        try:
            os.mkdir(self.path)
            with open(self.image, "wb") as file:
                file.truncate(megabytes << 20)
            self._run("mkfs.ext4", "-q", self.image)
            self.device = self._run("losetup", "-f", "--show", self.image).strip()
            self._run("mount", self.device, self.path)
            if not self.first:
                enable_controller("io")
            os.mkdir(self.group)
            self._limit(rate, write_rate)
        except (OSError, subprocess.CalledProcessError) as error:
            self.close()
            raise PermissionError(f"no slow disk can be made here: {error}")

    def _run(self, *command):
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def _limit(self, rate, write_rate):
        number = os.stat(self.device).st_rdev
        name = f"{os.major(number)}:{os.minor(number)}"
        if not self.first:
            self._write("io.max", f"{name} rbps={rate}" + (f" wbps={write_rate}" if write_rate else ""))
            return
        self._write("blkio.throttle.read_bps_device", f"{name} {rate}")
        if write_rate:  # version 1 counts what the kernel writes later to the root group
            self._write("../blkio.throttle.write_bps_device", f"{name} {write_rate}")
            self.root_limit = f"{name} 0"

    def _write(self, name, text):
        file = os.open(f"{self.group}/{name}", os.O_WRONLY)  # which does not make it
        try:
            os.write(file, str(text).encode())
        finally:
            os.close(file)

    def limit_this_process(self):
        self._write("cgroup.procs", os.getpid())

    def forget(self):
        """Empties the page cache of this disk: later reads come from the disk."""
        self._run("sync")
        self._run("umount", self.path)
        self._run("mount", self.device, self.path)

    def close(self):
        if self.root_limit:
            self._write("../blkio.throttle.write_bps_device", self.root_limit)
            self.root_limit = None
        for command in (["umount", self.path], ["losetup", "-d", self.device or ""]):
            subprocess.run(command, capture_output=True)
        try:
            os.rmdir(self.group)
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
