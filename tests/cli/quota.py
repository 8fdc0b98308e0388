"""A CPU quota for a process or for one of its threads, enforced by the kernel (control groups)."""

import os
import time

V1 = "/sys/fs/cgroup/cpu"
V2 = "/sys/fs/cgroup"
PERIOD = 100_000  # microseconds, as container runtimes set it


class Quota:
    """`with Quota(0.2) as quota: quota.limit(pid)` limits a process, or a thread by its id, to a fifth of a processor.

    Raises PermissionError where control groups cannot be made here, or have no effect.
    """

    count = 0
    effective = None  # not known yet

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
                self.folder, self.tasks = f"{V2}/{name}", None
                enable_controller("cpu")
                os.mkdir(self.folder)
                self.share = f"{limit} {period}"
                self._write("cpu.max", self.share)
            if Quota.effective is None:
                Quota.effective = True  # while it is measured
                Quota.effective = has_effect()
            if not Quota.effective:
                raise OSError("a quota of a fifth of a processor has no effect")
        except OSError as error:
            self.close()
            raise PermissionError(f"no quota can be set here: {error}")

    def _write(self, name, text):
        # The file exists in a control group; in any other folder it is not made.
        file = os.open(f"{self.folder}/{name}", os.O_WRONLY)
        try:
            os.write(file, str(text).encode())
        finally:
            os.close(file)

    def limit(self, task):
        process = process_of(task)
        if self.tasks:
            self._write(self.tasks, task)
        elif process == task:
            self._write("cgroup.procs", task)
        else:
            self._limit_thread(process, task)

    def _limit_thread(self, process, thread):
        """Version 2 moves single threads only within a group whose children are threaded."""
        self._write("cpu.max", "max")
        self._write("cgroup.procs", process)
        os.makedirs(f"{self.folder}/thread", exist_ok=True)
        self._write("thread/cgroup.type", "threaded")
        self._write("cgroup.subtree_control", "+cpu")
        self._write("thread/cpu.max", self.share)
        self._write("thread/cgroup.threads", thread)

    def limit_process(self, pid):
        """A process that runs, with all its threads."""
        self._write("cgroup.procs", pid)

    def limit_this_process(self):
        """For preexec_fn: limits the process about to start, and all its threads."""
        self._write("cgroup.procs", os.getpid())

    def close(self):
        for folder in (f"{self.folder}/thread", self.folder):
            try:
                os.rmdir(folder)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def enable_controller(name):
    """Gives groups of version 2 a controller, if the root has it and has not done so."""
    try:
        with open(f"{V2}/cgroup.subtree_control", "w") as file:
            file.write(f"+{name}")
    except OSError:
        pass  # the group's own file is then missing, and says so


def process_of(task):
    """The process of a thread."""
    with open(f"/proc/{task}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Tgid:"))


def has_effect():
    """Whether a process that computes all the time is stopped by a quota of a fifth of a processor."""
    with Quota(0.2) as quota:
        child = os.fork()
        if child == 0:
            try:
                quota.limit_this_process()
                end = time.monotonic() + 0.5
                while time.monotonic() < end:
                    pass
            except OSError:
                os._exit(1)
            os._exit(0)
        begun = time.monotonic()
        _, status, used = os.wait4(child, 0)
        return status == 0 and used.ru_utime + used.ru_stime < 0.5 * (time.monotonic() - begun)


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
