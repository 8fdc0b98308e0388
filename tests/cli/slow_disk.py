"""A disk as slow as a test needs: an image on a loop device, whose reads the kernel throttles."""

import os
import subprocess

BLKIO = "/sys/fs/cgroup/blkio"


class SlowDisk:
    """`with SlowDisk(folder, 200_000) as disk:` mounts `disk.path`; a process that calls `limit_this_process`
    before it starts (preexec_fn) reads 200,000 bytes a second from it.

    Raises PermissionError where the machine does not permit it.
    """

    def __init__(self, folder, rate, megabytes=64):
        self.image = os.path.join(folder, "disk.img")
        self.path = os.path.join(folder, "disk")
        self.group = f"{BLKIO}/reigen-test-{os.getpid()}"
        self.device = None
        try:
            os.mkdir(self.path)
            with open(self.image, "wb") as file:
                file.truncate(megabytes << 20)
            self._run("mkfs.ext4", "-q", self.image)
            self.device = self._run("losetup", "-f", "--show", self.image).strip()
            self._run("mount", self.device, self.path)
            os.mkdir(self.group)
            number = os.stat(self.device).st_rdev
            self._write("blkio.throttle.read_bps_device", f"{os.major(number)}:{os.minor(number)} {rate}")
        except (OSError, subprocess.CalledProcessError) as error:
            self.close()
            raise PermissionError(f"no slow disk can be made here: {error}")

    def _run(self, *command):
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def _write(self, name, text):
        with open(f"{self.group}/{name}", "w") as file:
            file.write(str(text))

    def limit_this_process(self):
        self._write("cgroup.procs", os.getpid())

    def forget(self):
        """Empties the page cache of this disk: later reads come from the disk."""
        self._run("sync")
        self._run("umount", self.path)
        self._run("mount", self.device, self.path)

    def close(self):
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
