"""A CPU quota for a process or for one of its threads, enforced by the kernel (control groups)."""

import os

V1 = "/sys/fs/cgroup/cpu"
V2 = "/sys/fs/cgroup"
PERIOD = 100_000  # microseconds, as container runtimes set it


class Quota:
    """`with Quota(0.2) as quota: quota.limit(pid)` limits a process, or a thread by its id, to a fifth of a processor.

    Raises PermissionError where control groups cannot be made here.
    """

    count = 0

    def __init__(self, share, period=PERIOD):
        Quota.count += 1
        name = f"reigen-test-{os.getpid()}-{Quota.count}"
        limit = max(1000, int(share * period))
        try:
            if os.path.exists(f"{V1}/cpu.cfs_quota_us") or os.path.exists(f"{V1}/cpu.shares"):
                self.folder, self.tasks = f"{V1}/{name}", "tasks"
                os.mkdir(self.folder)
                self._write("cpu.cfs_period_us", period)
                self._write("cpu.cfs_quota_us", limit)
            else:
                self.folder, self.tasks = f"{V2}/{name}", "cgroup.procs"
                os.mkdir(self.folder)
                self._write("cpu.max", f"{limit} {period}")
        except OSError as error:
            self.close()
            raise PermissionError(f"no quota can be set here: {error}")

    def _write(self, name, text):
        with open(f"{self.folder}/{name}", "w") as file:
            file.write(str(text))

    def limit(self, task):
        self._write(self.tasks, task)

    def limit_this_process(self):
        """For preexec_fn: limits the process about to start, and all its threads."""
        self._write("cgroup.procs", os.getpid())

    def close(self):
        try:
            os.rmdir(self.folder)
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def thread_of(pid, name):
    """The id of a process's thread of that name, or None."""
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/comm") as file:
                if file.read().strip() == name:
                    return int(task)
    except FileNotFoundError:
        pass
    return None
