"""Changes of a run directory from outside while a run trains: moved, copied, full, started in twice; and the
text and secrets that a run shows or stores."""

import contextlib
import filecmp
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import time

import harness
import workers_test
from harness import REIGEN, run
from workers_test import workers_of

ENDLESS = ["--max-steps", 100000, "--eval.every", 0, "--checkpoint.every", 10]


class RunCase(workers_test.WorkersCase):
    def kinds(self, name, kind):
        with open(self.path(f"{name}/measurements/rank-0.jsonl")) as f:
            return [r for r in map(json.loads, f) if r["kind"] == kind]

    def manifest_step(self, name):
        return json.loads(self.read(f"{name}/last/manifest.json"))["step"]

    def read_until(self, process, pattern):
        """Lines of standard error up to the first that matches."""
        lines = []
        for line in process.stderr:
            lines.append(line)
            if re.search(pattern, line):
                return lines
        self.fail(f"{pattern} was not shown: {lines}")

    def assert_complete_up_to(self, name, steps):
        """Each step was recorded once, and the weights are those of a run without a disturbance."""
        self.assertEqual(self.manifest_step(name), steps)
        self.assertEqual([r["step"] for r in self.kinds(name, "step")], list(range(1, steps + 1)))
        workers = self.kinds(name, "start")[0]["workers"]
        self.train("straight", "--max-steps", steps, "--eval.every", 0, "--workers", workers)
        self.assertEqual(self.digest(name), self.digest("straight"))


class Moved(RunCase):
    def test_a_run_that_is_moved_stops_and_is_complete_in_its_new_place(self):
        for workers in (1, 2):
            name, moved = f"run{workers}", f"moved{workers}"
            process = self.start(name, *ENDLESS, "--workers", workers)
            self.wait_for_step(name, 15, process)
            os.rename(self.path(name), self.path(moved))
            error = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, 7, error)
            last = error.splitlines()[-1]
            self.assertIn(self.path(name) + " ", last)
            self.assertIn(self.path(moved), last)
            self.assertFalse(os.path.exists(self.path(name)))
            self.assertEqual(self.kinds(moved, "end")[-1]["reason"], "moved")
            shutil.rmtree(self.path("straight"), ignore_errors=True)
            self.assert_complete_up_to(moved, self.kinds(moved, "end")[-1]["step"])
            step = self.manifest_step(moved) + 5
            self.train(moved, "--max-steps", step, "--eval.every", 0, "--workers", workers)
            self.assertEqual(self.kinds(moved, "start")[-1]["lost_steps"], 0)

    def test_a_run_that_takes_the_old_place_is_left_alone(self):
        process = self.start("run", *ENDLESS)
        self.wait_for_step("run", 15, process)
        os.rename(self.path("run"), self.path("moved"))
        passing = shutil.ignore_patterns("*.partial*", "*.new", "*.removed")  # the run still writes there
        shutil.copytree(self.path("moved"), self.path("run"), symlinks=True, ignore=passing)
        shutil.copytree(self.path("run"), self.path("before"), symlinks=True)
        self.assertEqual(process.wait(60), 7)
        same = filecmp.dircmp(self.path("run"), self.path("before"))
        self.assertEqual((same.left_only, same.right_only, same.diff_files), ([], [], []))
        self.assertEqual(os.listdir(self.path("run/checkpoints")), os.listdir(self.path("before/checkpoints")))
        self.assertEqual(self.manifest_step("moved"), self.kinds("moved", "end")[-1]["step"])

    def test_a_run_that_is_removed_ends_and_writes_nothing(self):
        process = self.start("run", *ENDLESS)
        self.wait_for_step("run", 15, process)
        os.rename(self.path("run"), self.path("gone"))
        while os.path.exists(self.path("gone")):  # the run may add files meanwhile
            shutil.rmtree(self.path("gone"), ignore_errors=True)
        error = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 7, error)
        self.assertFalse(os.path.exists(self.path("run")))
        self.assertFalse(os.path.exists(self.path("gone")))


class DiesInItsSetup(RunCase):
    def test_steps_that_are_repeated_are_counted_once(self):
        more = ["--workers", 2, "--eval.every", 0, "--checkpoint.every", 10]
        process = self.start("run", "--max-steps", 100000, *more)
        self.wait_for_step("run", 27, process)
        process.kill()
        process.wait()
        self.assert_no_worker_left("run")
        log = self.path("run/measurements/rank-0.jsonl")
        steps = self.kinds("run", "step")[-1]["step"]
        before = os.path.getsize(log)
        resumed = self.start("run", "--max-steps", 100000, *more)
        while os.path.getsize(log) >= before and resumed.poll() is None:  # until the repeated steps are removed
            time.sleep(0.001)
        resumed.kill()
        resumed.wait()
        self.assert_no_worker_left("run")
        # The newest checkpoint, to which `last` may not point yet.
        done = max(int(name[5:]) for name in os.listdir(self.path("run/checkpoints")) if name[5:].isdigit())
        self.assertEqual(self.kinds("run", "step")[-1]["step"], done)  # none by the attempt that was killed
        self.train("run", "--max-steps", done + 5, *more)
        self.assertEqual(sum(start["lost_steps"] for start in self.kinds("run", "start")), steps - done)


class SecondDetach(RunCase):
    def end_all(self, name):
        for pid, _ in workers_of(self.path(name)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        self.assert_no_worker_left(name)

    def test_the_commands_of_messages_run_nothing_of_a_name(self):
        name = "$(touch made)'; touch made; '"
        said = self.train(name, *ENDLESS, "--detach").stderr
        self.addCleanup(self.end_all, name)
        said += self.train(name, *ENDLESS, "--detach", check=False).stderr
        commands = re.findall("`(reigen attach .*?)` show", said)
        self.assertGreaterEqual(len(commands), 1, said)
        for command in commands:
            self.assertEqual(shlex.split(command), ["reigen", "attach", self.path(name)])

    def test_it_harms_nothing(self):
        for workers in (1, 2):
            name = f"run{workers}"
            more = [*ENDLESS, "--workers", workers, "--detach"]
            self.train(name, *more)
            self.addCleanup(self.end_all, name)
            note = self.read(f"{name}/background.json")
            console = self.read(f"{name}/console.log")
            for extra in ([], ["--quiet"]):
                failed = self.train(name, *more, *extra, check=False)
                self.assertEqual(failed.returncode, 2, failed.stderr)
                # The process in the background, or its worker that holds the lock.
                named = int(re.search(r"process (\d+)", failed.stderr).group(1))
                self.assertIn(named, [json.loads(note)["process"], int(self.read(f"{name}/.lock"))])
            self.assertEqual(self.read(f"{name}/background.json"), note)
            self.assertTrue(self.read(f"{name}/console.log").startswith(console))
            attached = subprocess.Popen([REIGEN, "attach", self.path(name)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
            attached.stdout.readline()
            os.kill(json.loads(note)["process"], signal.SIGTERM)
            out, error = attached.communicate(timeout=60)
            self.assertEqual(attached.returncode, 130, error)
            self.assertIn("step", out)
            self.assert_no_worker_left(name)

    def test_a_run_in_the_foreground_is_named(self):
        process = self.start("run", *ENDLESS)
        self.wait_for_step("run", 5, process)
        self.assert_fails(self.train("run", *ENDLESS, "--detach", check=False), 2, f"process {process.pid}")
        self.assertFalse(os.path.exists(self.path("run/background.json")))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 130)

    def test_a_background_run_that_is_moved_records_its_end(self):
        self.train("run", *ENDLESS, "--detach")
        self.addCleanup(self.end_all, "run")
        os.rename(self.path("run"), self.path("moved"))
        self.assert_fails(run("attach", self.path("moved"), check=False), 7, self.path("moved"))
        self.assertEqual(json.loads(self.read("moved/background.json"))["code"], 7)
        self.assertFalse(os.path.exists(self.path("run")))


class FullDisk(RunCase):
    MORE = ["--eval.every", 0, "--checkpoint.every", 5, "--checkpoint.keep", 1]

    def setUp(self):
        super().setUp()
        disk = self.path("disk")
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk], capture_output=True).returncode:
            self.skipTest("cannot mount a small disk here: needs root")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)

    def start_full(self, steps, *more):
        """A run of which step 5 is saved, on a disk without room for a checkpoint."""
        self.train("disk/run", "--max-steps", 5, *self.MORE, *more)
        room = os.statvfs(self.path("disk"))
        self.write("disk/filler", b"x" * (room.f_bavail * room.f_frsize - 200_000))
        return self.start("disk/run", "--max-steps", steps, *self.MORE, *more)

    def free(self):
        os.remove(self.path("disk/filler"))

    def test_the_end_of_a_run_waits_for_room(self):
        process = self.start_full(12)
        self.read_until(process, "^waiting: ")
        self.assertEqual(self.manifest_step("disk/run"), 5)
        self.free()
        error = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 0, error)
        self.assert_complete_up_to("disk/run", 12)
        failed = [r["step"] for r in self.kinds("disk/run", "checkpoint") if r.get("error")]
        self.assertEqual(failed, [10, 12])  # each once

    def test_a_signal_ends_the_wait(self):
        process = self.start_full(12)
        self.read_until(process, "^waiting: ")
        process.send_signal(signal.SIGTERM)
        error = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 7, error)
        self.assertEqual(self.manifest_step("disk/run"), 5)

    def test_the_time_of_the_wait_is_an_option(self):
        for limit in ("0", "1s"):
            process = self.start_full(12, "--checkpoint.wait", limit)
            error = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, 7, error)
            self.assertEqual("waiting: " in error, limit != "0")
            self.free()
            shutil.rmtree(self.path("disk/run"))

    def test_a_stopped_job_waits_for_room(self):
        process = self.start_full(100000, "--workers", 2)
        self.read_until(process, "checkpoint of step 10 was not written")
        process.send_signal(signal.SIGTERM)
        self.read_until(process, r"^\[0\] waiting: ")
        self.free()
        error = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 130, error)
        self.assert_no_worker_left("disk/run")
        self.assert_complete_up_to("disk/run", self.kinds("disk/run", "end")[-1]["step"])

    @harness.long_test  # two minutes: the time to save after a wait
    def test_a_worker_that_hangs_in_its_wait_is_ended(self):
        process = self.start_full(12, "--workers", 2, "--checkpoint.wait", "1s")
        self.read_until(process, r"^\[0\] waiting: ")
        os.kill(next(pid for pid, rank in workers_of(self.path("disk/run")) if rank == 0), signal.SIGSTOP)
        error = process.communicate(timeout=180)[1]
        self.assertNotEqual(process.returncode, 0, error)
        self.assert_no_worker_left("disk/run")
        self.assertEqual(self.manifest_step("disk/run"), 5)

    def test_a_job_that_lost_a_worker_waits_for_room_for_its_last_checkpoint(self):
        process = self.start_full(100000, "--workers", 2)
        self.read_until(process, "checkpoint of step 10 was not written")
        os.kill(next(pid for pid, rank in workers_of(self.path("disk/run")) if rank == 1), signal.SIGKILL)
        self.read_until(process, r"^\[0\] waiting: ")
        self.free()
        error = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 5, error)
        self.assertGreaterEqual(self.manifest_step("disk/run"), 10)
        self.assert_no_worker_left("disk/run")


class Escapes(RunCase):
    """Sentences and names with control characters, in a pseudo-terminal."""

    HOSTILE = "\x1b]0;title\x07 \x1b[2J\u009b31m \u202e words"

    def shown(self, *args):
        """The bytes that a terminal gets, without the sequences of our own."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen([REIGEN, *map(str, args)], stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        text = b""
        with contextlib.suppress(OSError):  # EIO: the program has ended
            while block := os.read(ours, 65536):
                text += block
        os.close(ours)
        self.assertEqual(process.wait(60), 0, text)
        return re.sub(rb"\r?\x1b\[K|\x1b\[3[13]m(warning|error):\x1b\[0m", b"", text)

    def assert_harmless(self, text):
        for code in ("\x1b", "\x07", "\u009b", "\u202e"):
            self.assertNotIn(code.encode(), text)

    def test_no_text_from_outside_steers_a_terminal(self):
        text = self.corpus(pairs=600)
        for side in ("en", "de"):
            self.write(f"valid.{side}", f"{self.HOSTILE} {side}\n" * 8)
        run("prepare", "--source", "en", "--target", "de", "--train", f"{text}/train.en", f"{text}/train.de", "--valid",
            self.path("valid.en"), self.path("valid.de"), "--vocab-size", 300, "--output", self.path("data"), "--quiet")
        name = "run\x1b[2J\u202e"
        for workers in (1, 2):
            shown = self.shown(*self.arguments(f"{name}{workers}", "--data", self.path("data"), "--max-steps", 4,
                                               "--eval.samples", 2, "--workers", workers))
            self.assertIn(b"\\x1b]0;title\\x07", shown)
            self.assert_harmless(shown)
            self.assert_harmless(self.read(f"{name}{workers}/log.txt", "rb"))
        for command in (["report"], ["top", "--once"], ["inspect"]):
            shown = self.shown(*command, self.path(f"{name}2"))
            self.assert_harmless(shown)
        # Results for a program keep their bytes.
        self.assertIn("\u202e", run("report", self.path(f"{name}2"), "--json").stdout)

    def test_the_console_of_a_run_in_the_background(self):
        self.train("run", "--max-steps", 10, "--eval.every", 0, "--detach")
        run("attach", self.path("run"))
        with open(self.path("run/console.log"), "a") as file:
            file.write(self.HOSTILE + "\n")
        self.assert_harmless(self.shown("attach", self.path("run")))


class AcrossHosts(workers_test.WorkersCase):
    ssh_of = workers_test.AcrossHosts.ssh_of

    def setUp(self):
        super().setUp()
        if not workers_test.permitted():
            self.skipTest("network namespaces are not permitted here")

    def test_the_token_of_a_job_is_in_no_command_line_and_no_file(self):
        with workers_test.Network(2) as network:
            process = self.start("run", *ENDLESS, "--hosts", "vm1,vm2", "--detach",
                                 prefix=network.command(0, "env", f"REIGEN_SSH={self.ssh_of(network)}"))
            self.assertEqual(process.wait(60), 0)
            workers = [(pid, rank) for pid, rank in workers_of(self.path("run")) if rank is not None]
            self.assertEqual(sorted(rank for _, rank in workers), [0, 1])
            token = workers_test.worker_rank(workers[0][0], "REIGEN_TOKEN")
            self.assertGreaterEqual(len(token), 32)
            for pid in filter(str.isdigit, os.listdir("/proc")):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        self.assertNotIn(token.encode(), file.read())
            for pid, _ in workers:
                self.assertEqual(os.stat(f"/proc/{pid}/environ").st_mode & 0o777, 0o400)
            os.kill(json.loads(self.read("run/background.json"))["process"], signal.SIGTERM)
            self.assert_no_worker_left("run")
            self.assertEqual(network.processes(0) + network.processes(1), [])
        read = 0
        for folder, _, names in os.walk(self.path("run")):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    self.assertNotIn(token.encode(), file.read(), name)
                read += 1
        self.assertGreater(read, 10)

    def test_arguments_that_are_not_utf8_are_refused_before_any_host_is_reached(self):
        ssh = self.write("ssh", f"#!/bin/sh\ntouch {self.path('reached')}\n")
        os.chmod(ssh, 0o755)
        name = os.fsencode(self.path("r")) + b"\xe9s"
        arguments = [*map(os.fsencode, [REIGEN, *self.arguments("x", "--hosts", "vm1,vm2")]), b"--run", name]
        done = subprocess.run(arguments, env={**os.environ, "REIGEN_SSH": ssh}, capture_output=True, text=True, timeout=60)
        self.assert_fails(done, 2, "r\\xe9s")
        self.assertFalse(os.path.exists(self.path("reached")))

    def test_a_stopped_worker_of_a_host_is_ended(self):
        with workers_test.Network(2) as network:
            process = self.start("run", *ENDLESS, "--hosts", "vm1,vm2", "--silence", "2s",
                                 prefix=network.command(0, "env", f"REIGEN_SSH={self.ssh_of(network)}"))
            self.wait_for_step("run", 15, process)
            os.kill(next(pid for pid, rank in workers_of(self.path("run")) if rank == 1), signal.SIGSTOP)
            # Half of the time for which rank 0 may save after a failure: the stopped process does not get that.
            error = process.communicate(timeout=15)[1]
            self.assertEqual(process.returncode, 5, error)
            self.assertRegex(error, r"\[0\] error: lost rank 1 ")
            self.assert_no_worker_left("run")
            self.assertEqual(network.processes(0) + network.processes(1), [])


if __name__ == "__main__":
    harness.main()
