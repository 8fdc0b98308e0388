"""Several workers of one job through the real binary: equal losses for any number of workers, every launcher,
and every way to lose a worker."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import harness
from harness import REIGEN, free_port, run
from slurm import Slurm

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dist"))
from namespaces import Network, permitted  # noqa: E402

SMALL = ["--preset", "tiny", "--recipe", "classic", "--model.width", 32, "--model.heads", 2, "--model.ffn-width", 64,
         "--model.encoder-layers", 1, "--model.decoder-layers", 1, "--batch.target-tokens", 300,
         "--schedule.kind", "fixed", "--schedule.rate", "0.002", "--schedule.warmup-steps", 10,
         "--eval.sentences", 8, "--eval.samples", 1, "--threads", 1, "--preflight", "0.1"]
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]


TOKEN = "0123456789abcdef0123456789abcdef"

# Some of the junk begins like a message; some connections send nothing at all.
JUNK = """
import os, socket, sys, time
silent = []
for i in range(40):
    for _ in range(200):
        try: s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5); break
        except OSError: time.sleep(0.05)
    try: s.sendall([os.urandom(2000), b'\\0\\0\\0\\x10{\\"kind\\":\\"join\\"}', b'GET / HTTP/1.0\\r\\n\\r\\n', b''][i % 4])
    except OSError: pass
    silent.append(s) if i % 4 == 3 else s.close()
print('sent')
"""


def workers_of(mark):
    """(pid, rank) of the training processes whose command line contains `mark`."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read().replace(b"\0", b" ").decode(errors="replace")
            with open(f"/proc/{pid}/environ", "rb") as f:
                environment = f.read().decode(errors="replace").split("\0")
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
        if mark in line and " train " in line:
            rank = [e.split("=")[1] for e in environment if e.startswith("REIGEN_RANK=")]
            found.append((int(pid), int(rank[0]) if rank else None))
    return found


def worker_rank(pid, variable):
    with open(f"/proc/{pid}/environ") as f:
        return dict(e.split("=", 1) for e in f.read().split("\0") if "=" in e).get(variable)


class WorkersCase(harness.Case):
    data = None

    @classmethod
    def setUpClass(cls):
        cls.data = cls.prepare_for_class(pairs=3000, vocab_size=400)

    def arguments(self, name, *more):
        args = ["train", "--data", self.data, "--run", self.path(name), *SMALL, *more]
        return [str(a) for a in args]

    def train(self, name, *more, check=True, **kwargs):
        return run(*self.arguments(name, *more), check=check, **kwargs)

    def start(self, name, *more, prefix=(), **kwargs):
        process = subprocess.Popen([*prefix, REIGEN, *self.arguments(name, *more)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **kwargs)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stderr:
            process.stderr.close()

    def start_as_torchrun(self, name, rank, size, port, *more, **kwargs):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank),
               "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        return self.start(name, *more, env=env, **kwargs)

    def start_record(self, name):
        with open(self.path(f"{name}/measurements/rank-0.jsonl")) as f:
            return next(r for r in map(json.loads, f) if r["kind"] == "start")

    def losses(self, name):
        with open(self.path(f"{name}/measurements/rank-0.jsonl")) as f:
            records = [json.loads(line) for line in f]
        return {r["step"]: r for r in records if r["kind"] == "step"}

    def manifest(self, name):
        return json.loads(self.read(f"{name}/last/manifest.json"))

    def chosen(self, name):
        """The compression of a run, as its last checkpoint records it."""
        return self.manifest(name)["training"]["state"]["compress"]

    def digest(self, name, file="model.safetensors"):
        with open(self.path(f"{name}/last/{file}"), "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()

    def wait_for_step(self, name, step, process):
        deadline = time.time() + 120
        path = self.path(f"{name}/measurements/rank-0.jsonl")
        while time.time() < deadline and process.poll() is None:
            if os.path.exists(path) and f'"kind":"step","step":{step},' in self.read(path):
                return
            time.sleep(0.005)
        self.fail(f"step {step} was not reached: {process.stderr.read()}")

    def assert_no_worker_left(self, name):
        deadline = time.time() + 10
        while workers_of(self.path(name)) and time.time() < deadline:
            time.sleep(0.05)
        self.assertEqual(workers_of(self.path(name)), [])

    def assert_same_losses(self, a, b, steps, within=1e-4):
        for step in range(1, steps + 1):
            wanted = a[step]["loss"]
            self.assertLess(abs(b[step]["loss"] - wanted) / wanted, within, f"step {step}")
            for key in ("pairs", "source_tokens", "target_tokens", "epoch"):
                self.assertEqual(a[step][key], b[step][key], f"step {step}: {key}")


class OneTrajectory(WorkersCase):
    def test_losses_do_not_depend_on_the_number_of_workers(self):
        common = ["--max-steps", 100, "--eval.every", 50]
        self.train("one", *common)
        alone = self.losses("one")
        for workers in (2, 4):
            name = f"of{workers}"
            done = self.train(name, *common, "--workers", workers)
            self.assertIn(f"{workers} workers over", done.stderr)
            self.assert_same_losses(alone, self.losses(name), 100)
            one = json.loads(self.read("one/last/manifest.json"))["scores"]
            many = json.loads(self.read(f"{name}/last/manifest.json"))["scores"]
            self.assertAlmostEqual(one["nll"], many["nll"], places=4)
            self.assertEqual(set(one), set(many))
            self.assert_no_worker_left(name)

    def test_a_run_resumes_with_a_different_number_of_workers(self):
        self.train("straight", "--max-steps", 60, "--eval.every", 0)
        self.train("changing", "--max-steps", 20, "--eval.every", 0, "--workers", 2)
        self.train("changing", "--max-steps", 40, "--workers", 1)
        self.train("changing", "--max-steps", 60, "--workers", 4)
        self.assert_same_losses(self.losses("straight"), self.losses("changing"), 60)
        a = json.loads(self.read("straight/last/manifest.json"))["training"]["state"]
        b = json.loads(self.read("changing/last/manifest.json"))["training"]["state"]
        for key in ("epoch", "position", "pairs", "source_tokens", "target_tokens"):
            self.assertEqual(a[key], b[key], key)

    def test_the_same_number_of_workers_gives_the_same_bits_across_a_stop(self):
        options = ["--eval.every", 20, "--workers", 2, "--bucket", "16KB"]
        self.train("whole", "--max-steps", 50, *options)
        process = self.start("parts", "--max-steps", 50, *options)
        self.wait_for_step("parts", 15, process)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 130)
        self.assert_no_worker_left("parts")
        self.train("parts", "--max-steps", 50, *options)
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(self.digest("whole", file), self.digest("parts", file))

    def test_sharded_moments_change_no_bit(self):
        sharded = ["--workers", 3, "--shard-optimizer"]
        self.train("whole", "--workers", 3, "--max-steps", 24)
        self.train("shared", *sharded, "--max-steps", 10)
        self.train("shared", *sharded, "--max-steps", 24)
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(self.digest("whole", file), self.digest("shared", file))
        # Any number of workers resumes from there, with or without --shard-optimizer.
        self.train("shared", "--workers", 2, "--shard-optimizer", "--max-steps", 28)
        self.train("shared", "--workers", 1, "--no-shard-optimizer", "--max-steps", 30)
        # A recipe chooses no optimizer that cannot be sharded.
        done = self.train("best", *sharded, "--recipe", "best", "--max-steps", 2)
        self.assertIn("optimizer.kind adam (--shard-optimizer", done.stderr)
        done = self.train("apart", *sharded, "--compress", "local:4", "--max-steps", 4, check=False)
        self.assert_fails(done, 2, "--shard-optimizer", "--compress local")

    def test_muon_has_one_trajectory_too(self):
        muon = ["--optimizer.kind", "muon", "--eval.every", 0]
        self.train("one", *muon, "--max-steps", 50)
        self.train("two", *muon, "--max-steps", 20, "--workers", 2)
        self.train("two", *muon, "--max-steps", 50, "--workers", 2)
        self.assert_same_losses(self.losses("one"), self.losses("two"), 50)
        self.train("whole", *muon, "--max-steps", 50, "--workers", 2)
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(self.digest("whole", file), self.digest("two", file))
        self.train("adam", "--eval.every", 0, "--max-steps", 50)
        self.assertNotEqual(self.digest("adam", "model.safetensors"), self.digest("one", "model.safetensors"))
        done = self.train("sharded", *muon, "--workers", 2, "--shard-optimizer", "--max-steps", 4, check=False)
        self.assert_fails(done, 2, "--shard-optimizer cannot be combined with optimizer.kind muon")

    def test_a_running_job_decays_on_request_after_a_common_step(self):
        process = self.start("run", "--max-steps", 100000, "--eval.every", 0, "--workers", 2)
        self.wait_for_step("run", 5, process)
        run("train", "--run", self.path("run"), "--decay-now", 20)
        second = run("train", "--run", self.path("run"), "--decay-now", 30, check=False)
        self.assert_fails(second, 2, "--decay-now 30", "already")
        self.assertEqual(process.wait(120), 0)
        records = [json.loads(line) for line in self.read("run/measurements/rank-0.jsonl").splitlines()]
        decays = [r for r in records if r["kind"] == "decay"]
        self.assertEqual([(d["steps"], d["cause"]) for d in decays], [(20, "request")])
        begin = decays[0]["step"]
        rates = {r["step"]: r["rate"] for r in records if r["kind"] == "step"}
        self.assertEqual(max(rates), begin + 20)
        for t in range(1, 21):
            self.assertAlmostEqual(rates[begin + t], rates[begin] * (21 - t) / 21, places=12)
        self.assertFalse(os.path.exists(self.path("run/decay-now")))
        self.assertEqual(self.manifest("run")["training"]["state"]["decay"],
                         {"begin": begin, "steps": 20, "limit": 100000})
        self.assertEqual([r["reason"] for r in records if r["kind"] == "end"], ["end of the decay"])
        saved = [r["step"] for r in records if r["kind"] == "checkpoint"]
        self.assertEqual(saved, [begin, begin + 20])

    def test_a_stopped_job_decays_at_once_and_a_new_limit_cancels_it(self):
        for method in ("none", "local:7"):
            name = f"run-{method}"
            self.train(name, "--max-steps", 20, "--eval.every", 0, "--workers", 2, "--compress", method)
            run("train", "--run", self.path(name), "--decay-now", 5)
            self.assertEqual(self.manifest(name)["step"], 25)
            run("train", "--run", self.path(name), "--max-steps", 30)
            self.assertEqual(self.manifest(name)["training"]["state"]["decay"]["steps"], 0)
            records = [json.loads(line) for line in self.read(f"{name}/measurements/rank-0.jsonl").splitlines()]
            decays = [(r["step"], r["steps"], r["cause"]) for r in records if r["kind"] == "decay"]
            self.assertEqual(decays, [(20, 5, "request"), (25, 0, "max-steps")])
            rates = {r["step"]: r["rate"] for r in records if r["kind"] == "step"}
            self.assertEqual((len(rates), rates[20], rates[30]), (30, 0.002, 0.002))
            self.assertAlmostEqual(rates[25], 0.002 / 6, places=12)

    def test_reduced_precision_on_the_wire_still_trains(self):
        self.train("fp32", "--max-steps", 60, "--eval.every", 0, "--workers", 2)
        self.train("bf16", "--max-steps", 60, "--eval.every", 0, "--workers", 2, "--compress", "bf16")
        a, b = self.losses("fp32")[60]["loss"], self.losses("bf16")[60]["loss"]
        self.assertNotEqual(a, b)
        self.assertLess(abs(a - b) / a, 0.02)


class WaysToStart(WorkersCase):
    def test_mpirun(self):
        if not shutil.which("mpirun"):
            self.skipTest("mpirun is not installed")
        process = self.start("run", "--max-steps", 10, "--eval.every", 0, prefix=[*MPIRUN, "-n", "2"])
        error = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 0, error)
        self.assertIn("2 workers over", error)
        self.assertEqual(len(self.losses("run")), 10)
        self.assert_no_worker_left("run")

    def test_srun(self):
        try:
            slurm = Slurm(self.path("slurm"))
        except (FileNotFoundError, RuntimeError) as error:
            self.skipTest(str(error))
        with slurm:
            process = self.start("run", "--max-steps", 10, "--eval.every", 0, prefix=slurm.command(2),
                                 env=slurm.environment)
            error = process.communicate(timeout=120)[1]
            self.assertEqual(process.returncode, 0, error)
            self.assertIn("2 workers over", error)
            self.assertEqual(len(self.losses("run")), 10)
            # One failed worker ends all, without srun's --kill-on-bad-exit.
            process = self.start("run", "--max-steps", 100000, "--eval.every", 0, "--checkpoint.every", 10,
                                 prefix=slurm.command(2), env=slurm.environment)
            self.wait_for_step("run", 25, process)
            victim = [pid for pid, _ in workers_of(self.path("run")) if worker_rank(pid, "SLURM_PROCID") == "1"]
            os.kill(victim[0], signal.SIGKILL)
            error = process.communicate(timeout=60)[1]
            self.assertNotEqual(process.returncode, 0, error)
            self.assertIn("lost rank 1", error)
            self.assert_no_worker_left("run")

    def test_environment_of_torchrun(self):
        port = free_port()
        more = ["--max-steps", 10, "--eval.every", 0]
        workers = [self.start_as_torchrun("run", rank, 2, port, *more) for rank in range(2)]
        for process in workers:
            error = process.communicate(timeout=120)[1]
            self.assertEqual(process.returncode, 0, error)
        self.assertEqual(len(self.losses("run")), 10)

    def test_different_options_are_refused_by_name(self):
        port = free_port()
        more = ["--max-steps", 10]
        workers = [self.start_as_torchrun("run", 0, 2, port, *more, "--seed", 1),
                   self.start_as_torchrun("run", 1, 2, port, *more, "--seed", 2)]
        errors = [process.communicate(timeout=120)[1] for process in workers]
        self.assertEqual([process.returncode for process in workers], [5, 5], errors)
        for error in errors:
            self.assertIn("option seed", error)
        self.assertFalse(os.path.exists(self.path("run")))

    def test_different_data_is_refused(self):
        run(*self.prepare_args(self.corpus(pairs=2000, name="text2"), output="other", vocab_size=400), "--quiet")
        port = free_port()
        more = ["--max-steps", 10]
        workers = [self.start_as_torchrun("run", 0, 2, port, *more),
                   self.start_as_torchrun("run", 1, 2, port, *more, "--data", self.path("other"))]
        errors = [process.communicate(timeout=120)[1] for process in workers]
        self.assertEqual([process.returncode for process in workers], [3, 3], errors)
        self.assertIn("on rank 1", errors[0])

    def test_data_is_sent_to_hosts_that_lack_it(self):
        port = free_port()
        more = ["--max-steps", 10, "--eval.every", 0, "--send-data"]
        first = self.start_as_torchrun("run", 0, 2, port, *more)
        second = self.start_as_torchrun("run", 1, 2, port, *more, "--data", self.path("sent"),
                                        prefix=["unshare", "--uts", "sh", "-c", "hostname elsewhere; exec \"$@\"", "sh"])
        errors = [process.communicate(timeout=120)[1] for process in (first, second)]
        if "unshare" in errors[1] and "ermi" in errors[1]:
            self.skipTest("host names cannot be changed here")
        self.assertEqual([first.returncode, second.returncode], [0, 0], errors)
        run("inspect", self.path("sent"), "--verify")
        for name in ("manifest.json", "SHA256SUMS"):
            self.assertEqual(self.read(f"{self.data}/{name}"), self.read(self.path(f"sent/{name}")))

    def test_a_run_in_the_background_can_be_shown_again(self):
        more = ["--max-steps", 400, "--eval.every", 0, "--workers", 2]
        done = self.train("run", *more, "--detach")
        self.assertIn("reigen attach", done.stderr)
        shown = run("attach", self.path("run"))
        self.assertIn("done: max-steps reached", shown.stdout)
        self.assertEqual(len(self.losses("run")), 400)
        self.assert_no_worker_left("run")
        # With --quiet the command returns as soon as the run trains, too.
        self.train("run", "--max-steps", 100000, "--detach", "--quiet")
        self.assertTrue(workers_of(self.path("run")))
        for pid, _ in workers_of(self.path("run")):
            os.kill(pid, signal.SIGTERM)
        self.assert_no_worker_left("run")
        failed = self.train("other", "--max-steps", 1, "--data", self.path("none"), "--detach", check=False)
        self.assert_fails(failed, 3, "not a dataset")
        self.assertFalse(os.path.exists(self.path("other")))
        self.assert_fails(run("attach", self.path("none"), check=False), 2, "reigen train --detach")

    def test_missing_ranks_are_named(self):
        process = self.start_as_torchrun("run", 0, 3, free_port(), "--max-steps", 10, "--start-within", "2s")
        error = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 5, error)
        self.assertRegex(error, "rank 1.*rank 2|ranks? 1.* 2")


class LostWorkers(WorkersCase):
    def lose(self, name, sign, *more):
        process = self.start(name, "--max-steps", 100000, "--eval.every", 0, "--checkpoint.every", 10,
                             "--workers", 2, *more)
        self.wait_for_step(name, 25, process)
        ranks = {rank: pid for pid, rank in workers_of(self.path(name))}
        os.kill(ranks[1], sign)
        began = time.time()
        error = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 5, error)
        self.assertRegex(error, r"\[0\] error: lost rank 1 ")
        self.assert_resumable(name, error)
        self.assert_no_worker_left(name)
        return time.time() - began

    def test_a_killed_worker_ends_the_run_which_can_be_resumed(self):
        self.lose("run", signal.SIGKILL)
        done = self.train("run", "--max-steps", 40)
        self.assertIn("resuming", done.stderr)
        self.train("straight", "--max-steps", 40, "--eval.every", 0)
        self.assert_same_losses(self.losses("straight"), self.losses("run"), 40)

    def test_a_worker_that_hangs_is_noticed_and_ended(self):
        self.assertLess(self.lose("run", signal.SIGSTOP, "--silence", "2s"), 60)

    def test_no_process_outlives_a_killed_launcher(self):
        process = self.start("run", "--max-steps", 100000, "--eval.every", 0, "--workers", 2)
        self.wait_for_step("run", 5, process)
        process.kill()
        process.wait()
        self.assert_no_worker_left("run")

    def test_ctrl_c_saves_and_ends_all_workers(self):
        process = self.start("run", "--max-steps", 100000, "--eval.every", 0, "--workers", 2,
                             start_new_session=True)
        self.wait_for_step("run", 5, process)
        os.killpg(process.pid, signal.SIGINT)
        error = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 130, error)
        self.assert_no_worker_left("run")
        self.assert_resumable("run", error)


class AcrossHosts(WorkersCase):
    def setUp(self):
        super().setUp()
        if not permitted():
            self.skipTest("network namespaces are not permitted here")

    def start_all(self, network, name, *more):
        port = free_port()
        workers = []
        for rank in range(2):
            env = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1,
                   "MASTER_ADDR": network.address(0), "MASTER_PORT": port, "REIGEN_TOKEN": TOKEN}
            prefix = network.command(rank, "env", *(f"{k}={v}" for k, v in env.items()))
            workers.append(self.start(name, *more, prefix=prefix))
        return workers

    def test_a_slow_link_changes_the_time_and_not_the_losses(self):
        self.train("alone", "--max-steps", 20, "--eval.every", 0)
        with Network(2, "20mbit") as network:
            workers = self.start_all(network, "run", "--max-steps", 20, "--eval.every", 0)
            errors = [w.communicate(timeout=120)[1] for w in workers]
            self.assertEqual([w.returncode for w in workers], [0, 0], errors)
        self.assertIn("over eth0 (10.77.0.1", errors[0])
        self.assert_same_losses(self.losses("alone"), self.losses("run"), 20)
        waited = self.losses("run")[20]["communication"]
        self.assertGreater(waited["busy"], 0.01)  # 136 kB and back at 2.5 MB/s

    def test_data_is_sent_between_hosts_of_the_same_name(self):
        with Network(2) as network:  # namespaces share the host name, as containers often do
            port = free_port()
            workers = []
            for rank, data in enumerate([self.data, self.path("sent")]):
                env = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1,
                       "MASTER_ADDR": network.address(0), "MASTER_PORT": port, "REIGEN_TOKEN": TOKEN}
                prefix = network.command(rank, "env", *(f"{k}={v}" for k, v in env.items()))
                workers.append(self.start("run", "--max-steps", 5, "--eval.every", 0, "--send-data",
                                          "--data", data, prefix=prefix))
            errors = [w.communicate(timeout=120)[1] for w in workers]
            self.assertEqual([w.returncode for w in workers], [0, 0], errors)
        run("inspect", self.path("sent"), "--verify")
        self.assertEqual(len(self.losses("run")), 5)

    def ssh_of(self, network):
        """A replacement for ssh that runs the command in the namespace of the named host."""
        ssh = self.path("ssh")
        with open(ssh, "w") as f:
            f.write("#!/bin/sh\n"
                    "while [ $# -gt 1 ]; do case $1 in -o|-p|-l) shift 2;; -*) shift;; *) break;; esac; done\n"
                    f"case $1 in vm1) at={network.names[0]};; *) at={network.names[1]};; esac\n"
                    # A folder for temporary files of its own, as a host has: Open MPI's daemons share names in it.
                    f"shift; mkdir -p {self.path('t')}/$at; export TMPDIR={self.path('t')}/$at\n"
                    "exec ip netns exec $at sh -c \"$*\"\n")
        os.chmod(ssh, 0o755)
        return ssh

    def test_hosts_are_reached_by_ssh(self):
        with Network(2, nat=True) as network:
            ssh = self.ssh_of(network)
            process = self.start("run", "--max-steps", 10, "--eval.every", 0, "--hosts", "vm1:2,vm2",
                                 prefix=network.command(0, "env", f"REIGEN_SSH={ssh}"))
            error = process.communicate(timeout=120)[1]
            self.assertEqual(process.returncode, 0, error)
            self.assertIn("eth0 (10.77.0.1", error)
            self.assertEqual(self.start_record("run")["workers"], 3)
            self.assertEqual(len(self.losses("run")), 10)
            self.assertEqual(network.processes(0) + network.processes(1), [])

    def test_one_worker_on_one_host_is_started_once(self):
        with Network(2) as network:
            ssh = self.ssh_of(network)
            with open(ssh) as f:
                script = f.read()
            count = self.path("sessions")
            with open(ssh, "w") as f:  # the third session is refused: a launcher must not start itself without end
                f.write(script.replace("#!/bin/sh\n", f"#!/bin/sh\necho >> {count}\n"
                                       f"[ $(wc -l < {count}) -lt 3 ] || exit 255\n", 1))
            prefix = network.command(0, "env", f"REIGEN_SSH={ssh}")
            for hosts in ("vm1", "vm1:1"):
                process = self.start(f"run-{hosts}", "--max-steps", 3, "--eval.every", 0, "--hosts", hosts, prefix=prefix)
                error = process.communicate(timeout=120)[1]
                self.assertEqual(process.returncode, 0, error)
                self.assertEqual(len(self.losses(f"run-{hosts}")), 3)
                self.assertEqual(os.path.getsize(count), 1)
                os.unlink(count)

    def test_encryption_is_recorded(self):
        with Network(2) as network:
            for mode, expected in (("auto", "TLS 1.3"), ("off", "none (--encrypt off)")):
                workers = self.start_all(network, mode, "--max-steps", 3, "--eval.every", 0, "--encrypt", mode)
                errors = [w.communicate(timeout=120)[1] for w in workers]
                self.assertEqual([w.returncode for w in workers], [0, 0], errors)
                start = self.start_record(mode)
                self.assertEqual(start["encryption"], expected)
                self.assertNotIn("insecure", start)
                run("report", self.path(mode))
                with open(self.path(f"{mode}/report.html")) as page:
                    self.assertIn(expected, page.read())

    def test_mpirun_over_hosts(self):
        if not shutil.which("mpirun"):
            self.skipTest("mpirun is not installed")
        with Network(2) as network:
            hosts = self.path("hosts")
            with open(hosts, "w") as f:
                f.write("vm1 slots=1\nvm2 slots=2\n")
            prefix = [*MPIRUN, "--mca", "plm_rsh_agent", self.ssh_of(network), "--mca", "plm", "rsh",
                      "--mca", "ras", "^slurm", "--hostfile", hosts, "-n", "3"]
            process = self.start("run", "--max-steps", 10, "--eval.every", 0, prefix=network.command(0, *prefix))
            error = process.communicate(timeout=120)[1]
            self.assertEqual(process.returncode, 0, error)
            self.assertIn("eth0 (10.77.0.1", error)
            self.assertEqual(self.start_record("run")["workers"], 3)
            self.assertEqual(len(self.losses("run")), 10)
            self.assertEqual(network.processes(0) + network.processes(1), [])

    def test_junk_at_the_rendezvous_does_not_stop_workers_from_joining(self):
        with Network(2) as network:
            port = free_port()
            environment = {"WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "MASTER_ADDR": network.address(0),
                           "MASTER_PORT": port, "REIGEN_TOKEN": TOKEN}
            workers = []
            for rank in range(2):
                prefix = network.command(rank, "env", f"RANK={rank}", *(f"{k}={v}" for k, v in environment.items()))
                workers.append(self.start("run", "--max-steps", 10, "--eval.every", 0, prefix=prefix))
                if rank == 0:
                    junk = subprocess.run(network.command(1, sys.executable, "-c", JUNK, network.address(0), port + 1),
                                          capture_output=True, text=True, timeout=60)
                    self.assertEqual(junk.stdout.strip(), "sent", junk.stderr)
            errors = [w.communicate(timeout=120)[1] for w in workers]
            self.assertEqual([w.returncode for w in workers], [0, 0], errors)
            self.assertEqual(len(self.losses("run")), 10)

    def test_loopback_serves_workers_of_one_host(self):
        with Network(2) as network:
            port = free_port()
            workers = []
            for rank in range(2):
                env = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": 2,
                       "MASTER_ADDR": network.address(0), "MASTER_PORT": port, "REIGEN_TOKEN": TOKEN}
                prefix = network.command(0, "env", *(f"{k}={v}" for k, v in env.items()))
                workers.append(self.start("run", "--max-steps", 5, "--eval.every", 0, "--interface", "lo", prefix=prefix))
            errors = [w.communicate(timeout=120)[1] for w in workers]
            self.assertEqual([w.returncode for w in workers], [0, 0], errors)
            self.assertIn("lo (127.0.0.1", errors[0])
            self.assertEqual(self.start_record("run")["workers"], 2)

    def test_a_link_that_is_cut_ends_both_sides(self):
        with Network(2) as network:
            workers = self.start_all(network, "run", "--max-steps", 100000, "--eval.every", 0,
                                     "--checkpoint.every", 10, "--silence", "2s")
            self.wait_for_step("run", 25, workers[0])
            network.cut(1)
            errors = [w.communicate(timeout=60)[1] for w in workers]
            self.assertEqual([w.returncode for w in workers], [5, 5], errors)
            self.assertIn("lost rank 1", errors[0])
            self.assert_resumable("run", errors[0])
            self.assertEqual(network.processes(0) + network.processes(1), [])


if __name__ == "__main__":
    harness.main()
