"""--restarts: a job that lost a worker or a host starts again by itself, and resumes from its last checkpoint."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import harness
from harness import REIGEN, free_port, run
from slurm import Slurm
from workers_test import MPIRUN, WorkersCase, worker_rank, workers_of

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dist"))
from namespaces import Network, permitted  # noqa: E402

LAST = 500
STEPS = ["--max-steps", LAST, "--eval.every", 0, "--checkpoint.every", 10]


class RestartsCase(WorkersCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.straight = None

    def starts(self, name):
        try:
            text = self.read(f"{name}/measurements/rank-0.jsonl")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines() if line.startswith('{"kind":"start"')]

    def wait_until(self, what, condition, process):
        deadline = time.time() + 120
        while time.time() < deadline and process.poll() is None:
            if condition():
                return
            time.sleep(0.01)
        self.fail(f"{what}: {process.communicate(timeout=60)[1]}")

    def wait_for_attempt(self, name, attempt, process):
        """Until that attempt has written a checkpoint of its own."""
        def trained():
            starts = self.starts(name)
            link = self.path(f"{name}/last")
            return (len(starts) >= attempt and os.path.islink(link)
                    and int(os.readlink(link)[-8:]) > starts[attempt - 1]["step"])
        self.wait_until(f"attempt {attempt} of {name}", trained, process)

    def kill_rank(self, name, rank):
        victim = [pid for pid, own in workers_of(self.path(name)) if own == rank]
        os.kill(victim[0], signal.SIGKILL)

    def assert_as_without_a_loss(self, name):
        if type(self).straight is None:
            self.train("straight", *STEPS)
            type(self).straight = self.losses("straight")
        self.assertEqual(sorted(self.losses(name)), list(range(1, LAST + 1)))
        self.assert_same_losses(self.straight, self.losses(name), 300, within=1e-3)


class OnOneHost(RestartsCase):
    def test_a_job_continues_after_lost_workers(self):
        process = self.start("run", *STEPS, "--workers", 2, "--restarts", 5)
        for attempt, rank in ((1, 1), (2, 0)):
            self.wait_for_attempt("run", attempt, process)
            self.kill_rank("run", rank)
        error = process.communicate(timeout=180)[1]
        self.assertEqual(process.returncode, 0, error)
        self.assertRegex(error, r"warning: rank 1 .*killed by signal 9.*; restart 1 of 5 in 1 s, from the checkpoint of "
                                r"step \d+; 4 restarts left")
        self.assertRegex(error, r"rank 0 .*killed by signal 9.*; restart 2 of 5 ")
        self.assert_no_worker_left("run")
        self.assert_as_without_a_loss("run")
        starts = self.starts("run")
        self.assertEqual([s.get("restart", 0) for s in starts], [0, 1, 2])
        self.assertIn("was killed by signal 9", starts[1]["cause"])
        self.assertIn("restart 2 of the job, after rank 0", self.read("run/log.txt"))
        report = json.loads(self.read("run/report.json"))
        self.assertEqual(report["numbers"]["restarts"], 2)
        self.assertIn("a restart from step", report["notes"]["attempt 2"])

    def lose_the_directory(self, process):
        """With the worker that writes it, so that nothing is saved there any more."""
        self.wait_for_attempt("run", 1, process)
        time.sleep(0.3)  # until the launcher knows of the checkpoint
        self.kill_rank("run", 0)
        os.rename(self.path("run"), self.path("lost"))

    def test_a_run_whose_directory_is_lost_continues_from_its_copy(self):
        copy = self.path("copy")
        more = [*STEPS, "--max-steps", 3 * LAST, "--workers", 2, "--restarts", 5, "--checkpoint.copy-to", copy]
        process = self.start("run", *more)
        self.wait_until("the copy", lambda: os.path.islink(f"{copy}/last"), process)
        self.lose_the_directory(process)
        error = process.communicate(timeout=180)[1]
        self.assertEqual(process.returncode, 0, error)
        said = re.search(rf"{self.path('run')} is gone, and with it the checkpoint of step ([\d,]+); it continues from the copy in "
                         rf"{copy}, of step ([\d,]+)", error)
        self.assertTrue(said, error)
        first = int(said[2].replace(",", "")) + 1
        losses = self.losses("run")
        self.assertEqual(sorted(losses), list(range(first, 3 * LAST + 1)))
        lost = self.losses("lost")
        for step in lost.keys() & losses.keys():
            self.assertAlmostEqual(losses[step]["loss"] / lost[step]["loss"], 1, delta=1e-3)
        # So does a new launcher, which has heard of no checkpoint; and it says so.
        shutil.rmtree(self.path("run"))
        done = self.train("run", *more, "--max-steps", 3 * LAST + 10)
        self.assertIn(f"there is no run in {self.path('run')}; it continues from the copy in {copy}, of step {3 * LAST:,}",
                      done.stderr)
        self.assertEqual(sorted(self.losses("run")), list(range(3 * LAST + 1, 3 * LAST + 11)))

    def test_a_run_whose_directory_is_lost_is_not_begun_anew(self):
        process = self.start("run", *STEPS, "--max-steps", 100000, "--workers", 2, "--restarts", 1)
        self.lose_the_directory(process)
        error = process.communicate(timeout=180)[1]
        self.assertEqual(process.returncode, 5, error)
        self.assertRegex(error, "is gone, and with it the checkpoint of step")
        self.assertFalse(os.path.exists(self.path("run")))

    def test_one_process_alone_is_started_again_too(self):
        process = self.start("run", *STEPS, "--restarts", 1)
        self.wait_for_attempt("run", 1, process)
        self.kill_rank("run", 0)
        error = process.communicate(timeout=180)[1]
        self.assertEqual(process.returncode, 0, error)
        self.assert_as_without_a_loss("run")

    def test_a_job_without_progress_is_given_up(self):
        process = self.start("run", "--max-steps", 100000, "--eval.every", 0, "--checkpoint.every", 100000,
                             "--workers", 2, "--restarts", 50)
        killed = set()

        def kill():
            while process.poll() is None:
                for pid, rank in workers_of(self.path("run")):
                    if rank == 1 and pid not in killed:
                        time.sleep(1.5)  # the others wait longer for a worker that never joins
                        os.kill(pid, signal.SIGKILL)
                        killed.add(pid)
                time.sleep(0.05)
        killer = threading.Thread(target=kill)
        killer.start()
        error = process.communicate(timeout=180)[1]
        killer.join()
        self.assertEqual(process.returncode, 5, error)
        self.assertIn("from the beginning, because there is no checkpoint yet; 49 restarts left", error)
        self.assertIn("3 attempts in a row wrote no checkpoint", error.splitlines()[-1])
        self.assertEqual(len(killed), 3)
        self.assert_no_worker_left("run")

    def test_a_signal_to_stop_is_no_loss(self):
        more = ["--max-steps", 100000, "--eval.every", 0, "--checkpoint.every", 10, "--workers", 2, "--restarts", 5]
        process = self.start("run", *more)
        self.wait_for_attempt("run", 1, process)
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 130, error)
        self.assertNotIn("restart ", error)
        # In the pause before a restart, too.
        process = self.start("run", *more)
        self.wait_for_attempt("run", 2, process)
        self.kill_rank("run", 1)
        line = ""
        while "restart 1 of 5" not in line:
            line = process.stderr.readline()
            self.assertTrue(line, "no restart was logged")
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 130, error)
        self.assert_no_worker_left("run")

    def test_errors_that_would_repeat_end_the_job(self):
        done = self.train("run", *STEPS, "--workers", 2, "--restarts", 5, "--data", self.path("none"), check=False)
        self.assert_fails(done, 3, "not a dataset")
        self.assertNotIn("restart ", done.stderr)
        done = self.train("run", *STEPS, "--workers", 2, "--restarts", 5, "--schedule.rate", 1000, "--schedule.warmup-steps", 1, "--optimizer.kind", "adamw", "--optimizer.weight-decay", 10,
                          "--optimizer.max-skipped", 3, check=False)
        self.assert_fails(done, 8)
        self.assertNotIn("restart ", done.stderr)

    def test_restarts_of_a_run_in_the_background(self):
        run("train", *self.arguments("run", *STEPS, "--workers", 2, "--restarts", 2, "--detach")[1:])
        deadline = time.time() + 60
        while not os.path.exists(self.path("run/last")) and time.time() < deadline:
            time.sleep(0.02)
        self.kill_rank("run", 1)
        done = run("attach", self.path("run"))
        self.assertIn("restart 1 of 2", done.stdout)
        self.assert_as_without_a_loss("run")


class ByOtherLaunchers(RestartsCase):
    """The loop of docs/losing-a-machine.md around mpirun and srun."""

    def loop(self, command, rank_variable, **kwargs):
        line = " ".join(map(str, [*command, REIGEN, *self.arguments("run", *STEPS)]))
        script = ("tries=0\n"
                  f"until {line}; do\n"
                  "  case $? in 2|3|4|7|8|130) exit 1;; esac\n"
                  "  tries=$((tries+1)); [ $tries -le 3 ] || exit 1\n"
                  "  sleep 1\n"
                  "done\n")
        process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   **kwargs)
        self.addCleanup(self.end, process)
        self.wait_for_attempt("run", 1, process)
        victim = [pid for pid, _ in workers_of(self.path("run")) if worker_rank(pid, rank_variable) == "1"]
        os.kill(victim[0], signal.SIGKILL)
        error = process.communicate(timeout=180)[1]
        self.assertEqual(process.returncode, 0, error)
        self.assertEqual(len(self.starts("run")), 2)
        self.assert_as_without_a_loss("run")
        self.assert_no_worker_left("run")

    def test_all_workers_start_again_as_torchrun_does_it(self):
        port = free_port()  # the same one after a restart
        for attempt in (1, 2):
            workers = [self.start_as_torchrun("run", rank, 2, port, *STEPS) for rank in range(2)]
            if attempt == 1:
                self.wait_for_attempt("run", 1, workers[0])
                workers[1].kill()
            errors = [worker.communicate(timeout=120)[1] for worker in workers]
        self.assertEqual([worker.returncode for worker in workers], [0, 0], errors)
        self.assertEqual(len(self.starts("run")), 2)
        self.assert_as_without_a_loss("run")

    def test_mpirun(self):
        if not shutil.which("mpirun"):
            self.skipTest("mpirun is not installed")
        self.loop([*MPIRUN, "-n", "2"], "OMPI_COMM_WORLD_RANK")

    def test_srun(self):
        try:
            slurm = Slurm(self.path("slurm"))
        except (FileNotFoundError, RuntimeError) as error:
            self.skipTest(str(error))
        with slurm:
            self.loop(slurm.command(2), "SLURM_PROCID", env=slurm.environment)


class OnHosts(RestartsCase):
    def setUp(self):
        super().setUp()
        if not permitted():
            self.skipTest("network namespaces are not permitted here")

    def ssh_of(self, network):
        """A replacement for ssh into namespaces, which fails for a host while a file HOST.down exists."""
        ssh = self.write("ssh", "#!/bin/sh\n"
                         "while [ $# -gt 1 ]; do case $1 in -o|-p|-l) shift 2;; -*) shift;; *) break;; esac; done\n"
                         f"if [ -e {self.folder}/$1.down ]; then echo \"no route to $1\" >&2; exit 255; fi\n"
                         f"case $1 in vm1) at={network.names[0]};; *) at={network.names[1]};; esac\n"
                         "shift; exec ip netns exec $at sh -c \"$*\"\n")
        os.chmod(ssh, 0o755)
        return ssh

    def kill_host(self, network, host):
        """All processes of a host end at once, its agent too, and it answers no more."""
        self.write(f"vm{host + 1}.down", "")
        for pid in network.processes(host):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def test_hosts_leave_and_come_back(self):
        with Network(3) as network:
            ssh = self.ssh_of(network)
            process = self.start("run", *STEPS, "--hosts", "vm1,vm2", "--restarts", 9,
                                 prefix=network.command(2, "env", f"REIGEN_SSH={ssh}"))
            self.wait_for_attempt("run", 1, process)
            self.kill_host(network, 1)
            self.wait_for_attempt("run", 2, process)  # vm1 alone
            os.unlink(self.path("vm2.down"))
            self.kill_host(network, 0)
            self.wait_for_attempt("run", 3, process)  # vm2 alone, which sees the run, too
            os.unlink(self.path("vm1.down"))
            self.kill_rank("run", 0)
            error = process.communicate(timeout=180)[1]
            self.assertEqual(process.returncode, 0, error)
            self.assertEqual(network.processes(0) + network.processes(1), [])
        self.assertRegex(error, r"restart without host vm2: ssh to vm2 failed: .*no route to vm2")
        self.assertRegex(error, r"restart without host vm1: ssh to vm1 failed: .*no route to vm1")
        self.assertEqual([s["workers"] for s in self.starts("run")], [2, 1, 1, 2])
        self.assert_as_without_a_loss("run")

    def test_a_run_that_no_host_has_is_not_begun_anew(self):
        with Network(3) as network:
            ssh = self.ssh_of(network)
            process = self.start("run", *STEPS, "--max-steps", 100000, "--hosts", "vm1,vm2", "--restarts", 2,
                                 prefix=network.command(2, "env", f"REIGEN_SSH={ssh}"))
            self.wait_for_attempt("run", 1, process)
            time.sleep(1)  # until the launcher knows of the checkpoint
            self.kill_host(network, 0)
            os.rename(self.path("run"), self.path("aside"))  # its disk is gone, too
            error = process.communicate(timeout=180)[1]
            self.assertEqual(process.returncode, 5, error)
        self.assertIn("no usable host has the checkpoint of step", error)
        self.assertIn("no restart is left of --restarts 2", error)
        self.assertFalse(os.path.exists(self.path("run/config.yaml")))

    def test_a_run_that_no_host_has_continues_from_its_copy(self):
        copy, last = self.path("copy"), 3 * LAST
        steps = [*STEPS, "--max-steps", last]
        with Network(3) as network:
            ssh = self.ssh_of(network)
            process = self.start("run", *steps, "--hosts", "vm1,vm2", "--restarts", 5, "--checkpoint.copy-to", copy,
                                 prefix=network.command(2, "env", f"REIGEN_SSH={ssh}"))
            self.wait_for_attempt("run", 1, process)
            self.wait_until("the copy", lambda: os.path.islink(f"{copy}/last"), process)
            time.sleep(1)  # until the launcher knows of the checkpoint
            self.kill_host(network, 0)
            os.rename(self.path("run"), self.path("aside"))  # its disk is gone, too
            self.wait_for_attempt("run", 1, process)  # on vm2
            self.kill_rank("run", 0)  # a further restart finds the run there
            error = process.communicate(timeout=180)[1]
            self.assertEqual(process.returncode, 0, error)
            # A new launcher, which has heard of no checkpoint, continues from the copy, too; a run without one begins.
            for name, to, found in (("moved", copy, True), ("new", self.path("none"), False)):
                process = self.start(name, *steps, "--max-steps", last + 10 if found else 10, "--hosts", "vm2", "--restarts", 1,
                                     "--checkpoint.copy-to", to, prefix=network.command(2, "env", f"REIGEN_SSH={ssh}"))
                said = process.communicate(timeout=180)[1]
                self.assertEqual(process.returncode, 0, said)
                self.assertEqual(f"no host has a run in {self.path(name)}; it continues on host vm2 from the copy in {copy}, of "
                                 f"step {last:,}" in said, found, said)
                self.assertNotIn("cannot be restored", said)
                self.assertEqual(self.starts(name)[0]["step"], last if found else 0)
        self.assertRegex(error, f"continues on host vm2 from the copy in {copy}, of step")
        starts = self.starts("run")
        self.assertEqual([s["restart"] for s in starts], [1, 2])
        first = starts[0]["step"] + 1
        self.assertGreater(first, 1)
        losses = self.losses("run")
        self.assertEqual(sorted(losses), list(range(first, last + 1)))
        self.train("straight", *steps)
        straight = self.losses("straight")
        for step in range(first, LAST + 1):
            self.assertAlmostEqual(losses[step]["loss"] / straight[step]["loss"], 1, delta=2e-3)


if __name__ == "__main__":
    harness.main()
