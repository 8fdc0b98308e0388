"""Elastic training through the real binary: workers that end or stop, and the loss curve of a run to which nothing
happened. tests/chaos has random schedules of faults."""

import collections
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import harness
from harness import REIGEN, run
from slurm import Slurm
from workers_test import MPIRUN, worker_rank, workers_of

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "chaos"))
from elastic_job import ElasticJob, records_in, reference_losses, steps_in  # noqa: E402
from skew import Disk  # noqa: E402

SMALL = ["--preset", "tiny", "--recipe", "classic", "--model.width", 32, "--model.heads", 2, "--model.ffn-width", 64,
         "--model.encoder-layers", 1, "--model.decoder-layers", 1, "--batch.target-tokens", 600,
         "--schedule.kind", "fixed", "--schedule.rate", "0.002", "--schedule.warmup-steps", 10,
         "--eval.every", 30, "--eval.sentences", 4, "--eval.samples", 0, "--checkpoint.every", 25,
         "--threads", 1, "--preflight", "0.1", "--log-every", 10]
STEPS = 90


class ElasticRuns(harness.Case):
    """Elastic jobs on loopback, and the losses of one worker to which nothing happens."""

    settings = SMALL
    steps = STEPS

    @classmethod
    def setUpClass(cls):
        cls.data = cls.prepare_for_class(pairs=3000, vocab_size=400)
        case = cls("setUp")
        case.setUp()
        cls.addClassCleanup(case.doCleanups)
        cls.reference = reference_losses(REIGEN, cls.arguments(), case.path("one"))
        cls.evaluations = records_in(case.path("one"), "evaluation")

    @classmethod
    def arguments(cls, *more):
        return ["--data", cls.data, *cls.settings, "--max-steps", cls.steps, *more]

    def start(self, workers, *more, name="run", prefixes=None):
        job = ElasticJob(REIGEN, self.arguments(*more), self.path(name), workers, prefixes=prefixes)
        self.addCleanup(job.close)
        return job

    def assert_ended_well(self, job, lost, tolerance=1e-4):
        """The survivors end with 0, every step is in the log once, and the losses are those of one worker."""
        codes = job.wait([rank for rank in job.workers if rank not in lost])
        for rank, code in codes.items():
            if rank not in lost:
                self.assertEqual(code, 0, job.all_output())
        job.check_steps(self.reference, self.steps, tolerance)
        self.assertEqual(records_in(job.run, "end")[-1]["reason"], "max-steps")

    @staticmethod
    def wait_until(condition, job):
        deadline = time.monotonic() + 60
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(job.all_output())
            time.sleep(0.01)

    @staticmethod
    def wait_for_output(job, rank, text):
        deadline = time.monotonic() + 60
        while text not in job.output(rank):
            if time.monotonic() > deadline or job.workers[rank].poll() is not None:
                raise AssertionError(job.all_output())
            time.sleep(0.01)


class Survivors(ElasticRuns):
    def test_killed_workers(self):
        for name, workers, kills in (("last", 3, [2]), ("middle", 4, [1]), ("two", 4, [2, 3])):
            job = self.start(workers, name=name)
            job.wait_for_step(20)
            for rank in kills:
                job.kill(rank)
            self.assert_ended_well(job, kills)
            changes = records_in(job.run, "membership")
            lost = [entry["worker"] for change in changes for entry in change["lost"]]
            self.assertEqual(sorted(lost), kills)
            self.assertEqual(changes[-1]["workers"], workers - len(kills))
            self.assertEqual(changes[-1]["writer"], 0)
            self.assertIn(f"lost {len(kills)} worker", run("report", job.run).stdout)

    def test_shares_of_the_batch_stay_with_the_workers_that_are_left(self):
        planned = self.path("planned/measurements")
        os.makedirs(planned)
        with open(f"{planned}/rank-0.jsonl", "w", encoding="utf-8") as log:
            log.write(json.dumps({"kind": "shares", "step": 10, "time": 0, "shares": [0.5, 0.3, 0.2]},
                                 separators=(",", ":")) + "\n")
        job = self.start(3, "--shares-of", self.path("planned"))
        job.wait_for_step(20)
        job.kill(1)
        self.assert_ended_well(job, [1])
        first, second = records_in(job.run, "shares")
        self.assertEqual((first["shares"], first["workers"]), ([0.5, 0.3, 0.2], [0, 1, 2]))
        self.assertEqual((second["shares"], second["workers"]), ([0.5, 0.2], [0, 2]))
        self.assertEqual(second["step"], records_in(job.run, "membership")[0]["step"])

    def assert_all_agree(self, name):
        """A single worker resumes the run, with the state that the survivors left."""
        more = [a if a != STEPS else STEPS + 5 for a in self.arguments()]
        run("train", *more, "--run", self.path(name))
        self.assertEqual([r["step"] for r in steps_in(self.path(name))], list(range(1, STEPS + 6)))

    def test_the_writer_is_killed(self):
        copy = self.path("copy")
        job = self.start(3, "--checkpoint.copy-to", copy)
        job.wait_for_step(40)
        job.kill(0)
        self.assert_ended_well(job, [0])
        change = records_in(job.run, "membership")[-1]
        self.assertEqual([entry["worker"] for entry in change["lost"]], [0])
        self.assertEqual((change["writer"], change["workers"]), (1, 2))
        self.assertEqual(len(records_in(job.run, "start")), 1)
        self.assertEqual(os.readlink(f"{copy}/last"), f"step-{STEPS:08}")  # the new writer continues the copies
        self.assert_all_agree("run")

    def test_a_run_of_from_with_muon_outlives_its_starting_point_and_the_worker_that_read_it(self):
        start = self.path("start")
        run("train", *[a if a != STEPS else 20 for a in self.arguments()], "--run", start)
        arguments = self.arguments("--from", start, "--seed", 3, "--optimizer.kind", "muon")
        reference = reference_losses(REIGEN, arguments, self.path("one"))
        self.assertLess(reference[1], self.reference[1] - 0.2)  # it begins with a trained model
        job = ElasticJob(REIGEN, arguments, self.path("run"), 3)
        self.addCleanup(job.close)
        job.wait_for_step(20)
        shutil.rmtree(start)
        job.kill(0)
        codes = job.wait([1, 2])
        self.assertEqual((codes[1], codes[2]), (0, 0), job.all_output())
        job.check_steps(reference, STEPS, 1e-4)
        self.assertEqual(len(records_in(job.run, "starting_point")), 1)
        recorded = json.loads(self.read("run/last/manifest.json"))["training"]["state"]["starting_point"]
        self.assertEqual(recorded["sha256"], records_in(job.run, "starting_point")[0]["sha256"])

    def test_the_writer_s_disk_is_lost_with_it(self):
        # The other workers have a folder of their own in place of the one with the run.
        private = self.in_place_of("shared", "disk")
        job = self.start(3, name="shared/run", prefixes={1: private, 2: private})
        job.wait_for_step(40)
        job.kill(0)
        codes = job.wait()
        self.assertEqual((codes[1], codes[2]), (0, 0), job.all_output())
        before = steps_in(job.run)
        after = steps_in(self.path("disk/run"))
        self.assertIn(after[0]["step"], (len(before) + 1, len(before) + 2))
        self.assertEqual(after[-1]["step"], STEPS)
        for record in after:
            self.assertLess(abs(record["loss"] - self.reference[record["step"]]) / record["loss"], 1e-4)
        checkpoint = [r["step"] for r in records_in(self.path("disk/run"), "checkpoint")]
        self.assertEqual(checkpoint[0], after[0]["step"] - 1)  # at once
        self.assertIn(self.path("shared/run"), job.output(1))
        change, = records_in(self.path("disk/run"), "membership")
        self.assertEqual((change["earlier_run"], change["step"]), (self.path("shared/run"), after[0]["step"] - 1))
        self.assertEqual(change["earlier_host"], change["lost"][0]["host"])

    def in_place_of(self, *folders):
        """What the command of a worker begins with that sees the second folder in place of the first one, and so on."""
        for folder in folders:
            os.makedirs(self.path(folder), exist_ok=True)
        pairs = zip(folders[::2], folders[1::2])
        mounts = "".join(f"mount --bind {self.path(own)} {self.path(shared)} && " for shared, own in pairs)
        private = ["unshare", "--mount", "sh", "-c", f"{mounts} exec \"$@\"", "sh"]
        if subprocess.run([*private, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no permission to mount")
        return private

    def test_the_run_passes_to_the_worker_that_has_its_second_copy(self):
        # A copy on the disk of the new directory is its first checkpoint, by hard links.
        elsewhere = self.in_place_of("shared/run", "no-run", "copy", "no-copy")
        beside_the_copy = self.in_place_of("shared/run", "no-run")
        copy = self.path("copy")
        job = self.start(3, "--checkpoint.copy-to", copy, "--checkpoint.keep", 9, name="shared/run",
                         prefixes={1: elsewhere, 2: beside_the_copy})
        job.wait_for_step(26)
        while not os.path.islink(f"{copy}/last"):
            time.sleep(0.01)
        job.wait_for_step(job.last_step() + 20)  # the workers look for it when they exchange logs
        job.kill(0)
        codes = job.wait()
        self.assertEqual((codes[1], codes[2]), (0, 0), job.all_output())
        copied = re.search(rf"continues in (\S+) on this host, with the checkpoint of step (\d+) from its copy {copy}/step-",
                           job.output(2))
        self.assertTrue(copied, job.output(2))
        new, step = copied[1], int(copied[2])
        change, = records_in(new, "membership")
        self.assertEqual((change["writer"], change["earlier_run"]), (2, self.path("shared/run")))
        self.assertEqual([r["step"] for r in steps_in(new)], list(range(change["step"] + 1, STEPS + 1)))
        self.assertIn(f"step-{step:08}", os.listdir(f"{new}/checkpoints"))
        job.run = new
        job.check_last_checkpoint(STEPS)

    def test_the_run_returns_to_a_worker_that_has_an_earlier_directory_of_it(self):
        private = [self.in_place_of("shared", f"disk-{i}") for i in (1, 2)]
        job = self.start(3, "--silence", 1, "--max-steps", 600, "--checkpoint.every", 500, name="shared/run",
                         prefixes={1: private[0], 2: private[1]})
        job.wait_for_step(40)
        job.stop(0)
        other = self.path("disk-1/run")
        self.wait_until(lambda: os.path.exists(other) and len(steps_in(other)) > 20, job)
        job.resume(0)
        self.wait_until(lambda: any("joined" in r for r in records_in(other, "membership")), job)
        before = len(steps_in(job.run))
        job.kill(1)
        codes = job.wait([0, 2])
        self.assertEqual((codes[0], codes[2]), (0, 0), job.all_output())
        self.assertFalse(os.path.exists(self.path("disk-2/run")))
        steps = [r["step"] for r in steps_in(job.run)]
        self.assertEqual((steps, steps[-1]), (sorted(set(steps)), 600))
        missing = sorted(set(range(1, steps[-1] + 1)) - set(steps))
        self.assertEqual(missing, list(range(before + 1, missing[-1] + 1)))  # one gap
        # The step that was under way when the writer stopped may be in neither log.
        self.assertLessEqual(set(missing) - {before + 1}, {r["step"] for r in steps_in(other)})
        change = records_in(job.run, "membership")[-1]
        self.assertEqual((change["writer"], change["earlier_run"]), (0, job.run))
        self.assertIn(f"which has its steps up to {before}", job.output(0))
        run("report", job.run)
        losses = {r["step"]: r["loss"] for r in [*steps_in(job.run), *steps_in(other)]}
        for step in losses.keys() & set(range(1, STEPS + 1)):
            self.assertLess(abs(losses[step] - self.reference[step]) / losses[step], 1e-4)

    def test_the_last_checkpoint_survives_the_writer_that_had_it_in_memory(self):
        try:
            disk = Disk(self.path("disk"))
        except PermissionError as reason:
            self.skipTest(str(reason))
        self.addCleanup(disk.close)
        job = self.start(3, name="disk/run")
        job.wait_for_step(80)  # the next checkpoint is the last one
        disk.fill(300_000)
        self.wait_for_output(job, 0, "for room on the disk")
        job.kill(0)
        self.wait_for_output(job, 1, "for room on the disk")
        disk.make_room()
        self.assert_ended_well(job, [0])
        job.check_last_checkpoint(STEPS)

    @staticmethod
    def listening_ports(pid):
        """The TCP ports on which a process waits for connections."""
        sockets = set()
        for number in os.listdir(f"/proc/{pid}/fd"):
            try:
                sockets.add(os.readlink(f"/proc/{pid}/fd/{number}"))
            except FileNotFoundError:
                pass
        listening = "0A"
        with open(f"/proc/{pid}/net/tcp") as table:
            rows = [line.split() for line in table][1:]
        return [int(row[1].split(":")[1], 16) for row in rows if row[3] == listening and f"socket:[{row[9]}]" in sockets]

    def test_strangers_that_flood_the_ports_of_the_survivors_make_no_loss(self):
        job = self.start(3)
        job.wait_for_step(20)
        ports = [port for rank in (0, 1) for port in self.listening_ports(job.workers[rank].pid)]
        self.assertGreaterEqual(len(ports), 4)  # for data and standby, of each
        over = threading.Event()

        def flood(port):
            held = collections.deque()
            while not over.is_set():
                try:
                    held.append(socket.create_connection(("127.0.0.1", port), 1))
                except OSError:
                    time.sleep(0.01)
                if len(held) > 100:
                    held.popleft().close()
            for connection in held:
                connection.close()
        floods = [threading.Thread(target=flood, args=[port]) for port in ports]
        for thread in floods:
            thread.start()
        try:
            time.sleep(0.3)
            job.kill(2)
            self.assert_ended_well(job, [2])
        finally:
            over.set()
            for thread in floods:
                thread.join()
        self.assertEqual([len(change["lost"]) for change in records_in(job.run, "membership")], [1])

    def test_one_after_the_other_until_one_is_left(self):
        job = self.start(3, "--compress", "int4")
        job.wait_for_step(20)
        job.kill(1)
        job.wait_for_step(job.last_step() + 15)
        job.kill(2)
        # Rounding to four bits with other shares, and lost residuals.
        self.assert_ended_well(job, [1, 2], tolerance=0.05)
        changes = records_in(job.run, "membership")
        self.assertEqual([c["workers"] for c in changes], [2, 1])
        self.assertTrue(all(c["lost_residuals"] for c in changes))

    def launch(self, name, *more):
        """Two workers of our own launcher, after 20 steps: the launcher and its workers' processes by rank."""
        command = [REIGEN, "train", *map(str, self.arguments("--workers", 2, "--elastic", "--run", self.path(name), *more))]
        with open(self.path(f"{name}.txt"), "w") as output:
            launcher = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)

        def close():
            launcher.kill()  # the kernel kills its workers
            launcher.wait()
        self.addCleanup(close)
        deadline = time.monotonic() + 120
        while len(steps_in(self.path(name))) < 20:
            self.assertLess(time.monotonic(), deadline, self.read(f"{name}.txt"))
            self.assertIsNone(launcher.poll(), self.read(f"{name}.txt"))
            time.sleep(0.01)
        return launcher, {rank: pid for pid, rank in self.children(launcher.pid)}

    @staticmethod
    def children(parent):
        with open(f"/proc/{parent}/task/{parent}/children") as file:
            for pid in map(int, file.read().split()):
                with open(f"/proc/{pid}/environ", "rb") as variables:
                    rank = [v[12:] for v in variables.read().split(b"\0") if v.startswith(b"REIGEN_RANK=")]
                yield pid, int(rank[0])

    def test_either_of_two_workers_continues_alone_because_the_launcher_saw_the_other_end(self):
        for victim in (0, 1):
            name = f"launched{victim}"
            launcher, workers = self.launch(name)
            os.kill(workers[victim], signal.SIGKILL)
            self.assertEqual(launcher.wait(120), 0, self.read(f"{name}.txt"))
            self.assertEqual([s["step"] for s in steps_in(self.path(name))], list(range(1, STEPS + 1)))
            for step in steps_in(self.path(name)):
                wanted = self.reference[step["step"]]
                self.assertLessEqual(abs(step["loss"] - wanted), 1e-4 * wanted, step["step"])
            change, = records_in(self.path(name), "membership")
            self.assertEqual([lost["worker"] for lost in change["lost"]], [victim])

    def test_one_of_two_launched_workers_continues_when_the_other_stops(self):
        launcher, workers = self.launch("halves", "--silence", 1)
        os.kill(workers[0], signal.SIGSTOP)  # no proof, and half of the workers: the launcher is their witness
        self.assertEqual(launcher.wait(120), 0, self.read("halves.txt"))
        self.assertEqual([s["step"] for s in steps_in(self.path("halves"))], list(range(1, STEPS + 1)))
        change, = records_in(self.path("halves"), "membership")
        self.assertEqual([(lost["worker"], lost.get("proven", False)) for lost in change["lost"]], [(0, False)])
        self.assertEqual(change["writer"], 1)

    def lose_one_under(self, launcher, rank_variable, **kwargs):
        """Three workers of a foreign launcher, of which one is killed: the others finish the run, and it has succeeded."""
        command = [*launcher, REIGEN, "train", *map(str, self.arguments("--run", self.path("run"), "--elastic"))]
        with open(self.path("output"), "w", encoding="utf-8") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, **kwargs)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 120
        while len(steps_in(self.path("run"))) < 20:
            self.assertLess(time.monotonic(), deadline, self.read("output"))
            time.sleep(0.01)
        victim, = (pid for pid, _ in workers_of(self.path("run")) if worker_rank(pid, rank_variable) == "1")
        os.kill(victim, signal.SIGKILL)
        process.wait(120)
        self.assertEqual([s["step"] for s in steps_in(self.path("run"))], list(range(1, STEPS + 1)), self.read("output"))
        change, = records_in(self.path("run"), "membership")
        self.assertEqual([lost["worker"] for lost in change["lost"]], [1])
        self.assertEqual(records_in(self.path("run"), "end")[-1]["reason"], "max-steps")
        return process.returncode

    def test_under_mpirun_that_lets_the_others_live(self):
        if not shutil.which("mpirun"):
            self.skipTest("mpirun is not installed")
        self.assertEqual(self.lose_one_under([*MPIRUN, "--enable-recovery", "-n", "3"], "OMPI_COMM_WORLD_RANK"), 0)

    def test_under_srun_that_lets_the_others_live(self):
        try:
            slurm = Slurm(self.path("slurm"))
        except (FileNotFoundError, RuntimeError) as error:
            self.skipTest(str(error))
        with slurm:
            command = [*slurm.command(3), "--no-kill", "--kill-on-bad-exit=0"]
            # The exit status of srun is that of the worker that failed.
            self.assertEqual(self.lose_one_under(command, "SLURM_PROCID", env=slurm.environment), 137)

    def test_ctrl_c_stops_the_survivors_with_a_checkpoint(self):
        launcher, workers = self.launch("stopped")
        os.kill(workers[1], signal.SIGKILL)
        launcher.send_signal(signal.SIGINT)
        self.assertEqual(launcher.wait(120), 130, self.read("stopped.txt"))
        self.assertTrue(os.path.exists(self.path("stopped/checkpoints")))
        self.assertFalse(any(os.path.exists(f"/proc/{pid}") for pid in workers.values()))

    def test_refused_with_reasons(self):
        for more, wanted in ((["--compress", "local:4"], "--compress local"),
                             (["--shard-optimizer"], "--shard-optimizer")):
            job = self.start(2, *more, name=more[0].strip("-"))
            job.wait()
            for rank in (0, 1):
                self.assertEqual(job.workers[rank].returncode, 2)
                self.assertIn(wanted, job.output(rank))
        environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2",
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(harness.free_port())}
        done = run("train", *self.arguments("--run", self.path("run"), "--elastic"), env=environment, check=False)
        self.assert_fails(done, 2, "torchrun")
        self.assertEqual(steps_in(self.path("run")), [])


if __name__ == "__main__":
    harness.main()
