"""Real runs with one known bottleneck each: the report has to name it, and no other."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import harness
from harness import REIGEN, run, second_try
from quota import Quota, thread_of
from slow_disk import SlowDisk

sys.path.insert(0, os.path.join(harness.SOURCE, "tests/dist"))
import namespaces

MODEL = ["--preset", "tiny", "--recipe", "classic", "--model.heads", 2, "--model.encoder-layers", 1,
         "--model.decoder-layers", 1,
         "--schedule.kind", "fixed", "--schedule.rate", "0.002", "--schedule.warmup-steps", 10,
         "--eval.every", 0, "--no-eval.bleu", "--threads", 1]
# Steps that mostly compute, and steps of some milliseconds.
LONG = ["--model.width", 64, "--model.ffn-width", 128, "--batch.target-tokens", 1500]
SHORT = ["--model.width", 32, "--model.ffn-width", 64, "--batch.target-tokens", 200]
# Steps that need text faster than a throttled reader delivers it.
LITTLE = ["--model.width", 16, "--model.ffn-width", 16, "--batch.target-tokens", 400]
FIVE_SECONDS = ["--max-time", "5s"]
# Two megabytes of gradient: longer than compute at 100 Mbit/s, almost nothing without a limit.
HEAVY = ["--model.width", 128, "--model.ffn-width", 512, "--batch.target-tokens", 2000]


class Planted(harness.Case):
    data = None
    port = 29540

    @classmethod
    def setUpClass(cls):
        cls.data = cls.prepare_for_class(pairs=3000, vocab_size=400)

    def arguments(self, *more):
        return [str(a) for a in ["train", "--data", self.data, "--run", self.path("run"), *MODEL, *more]]

    def report(self, name="run"):
        return json.loads(self.read(f"{name}/report.json"))

    def bottleneck(self):
        verdict = self.report()["verdicts"]["bottleneck"]
        return verdict["verdict"], verdict

    def workers(self, *more, network=None, starts=(None, None), begun=None, on_each=1):
        """Starts two workers, or `on_each` in each of two namespaces where there is a network, and waits for them.

        `begun` is called with the processes when they are about to take steps.
        """
        Planted.port += 1
        workers = []
        size = 2 * on_each
        for rank in range(size):
            place = {"LOCAL_RANK": str(rank % on_each), "LOCAL_WORLD_SIZE": str(on_each),
                     "MASTER_ADDR": network.address(0),
                     "REIGEN_TOKEN": "0123456789abcdef0123456789abcdef"} if network else \
                {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
            env = {**os.environ, **place, "RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_PORT": str(Planted.port)}
            command = [REIGEN, *self.arguments(*more)]
            if network:
                command = network.command(rank // on_each, *command)
            workers.append(subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                            text=True, preexec_fn=None if network else starts[rank]))
        if begun:
            while not self.has_started() and workers[0].poll() is None:
                time.sleep(0.01)
            begun(workers)
        for worker in workers:
            error = worker.communicate(timeout=300)[1]
            self.assertEqual(worker.returncode, 0, error)

    def step_seconds(self):
        steps = [json.loads(line) for line in self.read("run/measurements/rank-0.jsonl").splitlines()]
        return [r["seconds"] for r in steps if r["kind"] == "step"]

    def steps_taken(self):
        return self.read("run/measurements/rank-0.jsonl").count('"kind":"step"')

    def has_started(self):
        log = "run/measurements/rank-0.jsonl"
        return os.path.exists(self.path(log)) and '"start"' in self.read(log)

    def assert_spans_add_up(self, ranks):
        for rank in range(ranks):
            lines = self.read(f"run/measurements/rank-{rank}.jsonl").splitlines()
            records = [json.loads(line) for line in lines]
            steps = [r for r in records if r["kind"] == ("step" if rank == 0 else "spans")]
            self.assertTrue(steps)
            covered = sum(sum(r["spans"].values()) for r in steps)
            self.assertAlmostEqual(covered / sum(r["seconds"] for r in steps), 1, delta=0.02, msg=f"rank {rank}")


class Links(Planted):
    def setUp(self):
        super().setUp()
        if not namespaces.permitted():
            self.skipTest("network namespaces are not permitted here")

    @second_try
    def test_a_slow_link_is_the_network_and_gradients_explain_its_traffic(self):
        with namespaces.Network(2, rate="100mbit") as network:
            self.workers(*HEAVY, "--max-steps", 30, network=network)
        self.assertEqual(self.bottleneck()[0], "network", self.bottleneck()[1])
        self.assertIn("--compress", self.bottleneck()[1]["advice"])
        self.assert_spans_add_up(2)
        numbers = self.report()["numbers"]
        for rank in numbers["ranks"]:  # two hosts with the same host name
            self.assertEqual(rank["bytes_sent_away"], rank["bytes_sent"])
        self.assertEqual([w["rank"] for w in numbers["wire"]], [0, 1])
        for wire in numbers["wire"]:
            self.assertAlmostEqual(wire["explained"], 1, delta=0.1, msg=wire)
        # The answer gives the rates of a link that steps wait for.
        correlation = next(q["answer"] for q in self.report()["questions"] if q["id"] == "correlation")
        self.assertRegex(correlation, "the link carried .* of .* Mbit/s")
        # Each direction was measured by itself, and both are slow against a nominal speed.
        links = {(link["from"], link["to"]): 8e-6 * link["bandwidth"] for link in numbers["links"]}
        self.assertEqual(set(links), {(0, 1), (1, 0)})
        for rate in links.values():
            self.assertLess(rate, 250)
        # The prediction stands beside the measurement.
        self.assertGreater(numbers["forecast"]["exposed"], 0.2 * numbers["forecast"]["seconds"])
        self.assertEqual(numbers["forecast"]["measured_median"], numbers["median_step_seconds"])

    @second_try
    def test_with_two_workers_per_host_only_part_of_the_traffic_is_inter_node(self):
        with namespaces.Network(2, rate="100mbit") as network:
            self.workers(*HEAVY, "--max-steps", 12, network=network, on_each=2)
        numbers = self.report()["numbers"]
        for rank in numbers["ranks"]:
            self.assertGreater(rank["bytes_sent_away"], 0)
            self.assertLess(rank["bytes_sent_away"], rank["bytes_sent"])
        self.assertEqual([w["rank"] for w in numbers["wire"]], [0, 2])
        for wire in numbers["wire"]:
            self.assertAlmostEqual(wire["explained"], 1, delta=0.1, msg=wire)

    @second_try
    def test_the_same_without_a_limit_is_compute(self):
        with namespaces.Network(2) as network:
            self.workers(*HEAVY, "--max-steps", 20, network=network)
        # Other work on this machine is a different cause.
        self.assertIn(self.bottleneck()[1]["cause"], ("compute", "interference", "shared cores"), self.bottleneck()[1])
        self.assert_spans_add_up(2)
        flops = self.report()["numbers"]["flops"]
        self.assertGreater(flops["capacity"], 0)
        # Computing is a part of each step's time, so it achieves more than the whole step does.
        records = [json.loads(line) for line in self.read("run/measurements/rank-0.jsonl").splitlines()]
        start = next(r for r in records if r["kind"] == "start")
        steps = [r for r in records if r["kind"] == "step"][1:]  # the report leaves out the first one
        work = sum(
            r["source_tokens"] * start["source_token_flops"] + r["target_tokens"] * start["target_token_flops"]
            for r in steps
        )
        self.assertGreaterEqual(flops["achieved"], work / sum(r["seconds"] for r in steps))


    @second_try
    def test_a_link_that_is_slow_in_one_direction_is_named_with_it(self):
        with namespaces.Network(2) as network:
            shape = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "60mbit", "burst", "256kb",
                     "latency", "50ms"]
            subprocess.run(network.command(1, *shape), check=True)
            self.workers(*HEAVY, "--max-steps", 20, network=network)
        verdict, all_of_it = self.bottleneck()
        self.assertEqual(verdict, "network", all_of_it)
        self.assertIn("from rank 1 to rank 0", all_of_it["because"])
        self.assertNotIn("from rank 0 to rank 1", all_of_it["because"])

    @second_try
    def test_a_link_that_degrades_is_the_network_from_that_step_on(self):
        degraded = []
        with namespaces.Network(2) as network:
            def degrade(workers):
                while self.steps_taken() < 80 and workers[0].poll() is None:
                    time.sleep(0.05)
                network.shape("40mbit")
                degraded.append(self.steps_taken())
            self.workers(*HEAVY, "--max-steps", 120, network=network, begun=degrade)
        self.assertLess(degraded[0], 100, "the run was over before its link became slow")
        verdict, all_of_it = self.bottleneck()
        self.assertEqual(verdict, "network", all_of_it)
        self.assertTrue(all_of_it["of_last_stretch"], all_of_it)
        change = all_of_it["changes"][-1]
        self.assertGreater(change["after"], change["before"])
        self.assertEqual(change["cause"], "network", change)
        self.assertAlmostEqual(change["step"], degraded[0], delta=15, msg=change)


class Cores(Planted):
    """Who had the cores. Other work on this machine only adds to what is planted."""

    @second_try
    def test_other_processes_on_the_cores_of_a_worker_are_interference(self):
        hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
        try:
            run(*self.arguments(*LONG, "--max-time", "8s", "--threads", 0))
        finally:
            for hog in hogs:
                hog.kill()
                hog.wait()
        verdict, all_of_it = self.bottleneck()
        self.assertEqual(verdict, "interference", all_of_it)
        self.assertIn("other processes", all_of_it["because"])
        self.assertIn("end the other processes", all_of_it["advice"])
        cores, = self.report()["numbers"]["cores"]
        self.assertGreater(cores["others"], 0.3 * cores["cores"])
        self.assertGreater(cores["lost_to_others"], 0.3)
        # The processes have ended, as the advice says.
        slow = self.report()["numbers"]["target_tokens_per_second"]
        run(*self.arguments(*LONG, "--max-time", "3s", "--threads", 0, "--run", self.path("alone")))
        self.assertGreater(self.report("alone")["numbers"]["target_tokens_per_second"], 1.2 * slow)

    @second_try
    def test_workers_that_may_use_the_same_core_only_are_told_so(self):
        core = min(os.sched_getaffinity(0))
        pin = lambda: os.sched_setaffinity(0, {core})
        self.workers(*LONG, "--max-time", "8s", starts=(pin, pin))
        _, all_of_it = self.bottleneck()
        self.assertIn(all_of_it["cause"], ("shared cores", "interference"), all_of_it)
        self.assertIn("ranks 0 and 1 share 1 core", self.report()["notes"]["shared cores"])
        for cores in self.report()["numbers"]["cores"]:
            self.assertEqual(cores["list"], str(core))
            self.assertGreater(cores["lost_to_workers"], 0.1)
        # One worker on that core, as the advice says: as fast, without exchanges.
        self.assertIn("--workers 1", all_of_it["advice"])
        before = self.report()["numbers"]["target_tokens_per_second"]
        run(*self.arguments(*LONG, "--max-time", "3s", "--workers", 1, "--run", self.path("one")), preexec_fn=pin)
        self.assertGreater(self.report("one")["numbers"]["target_tokens_per_second"], 0.9 * before)

    @second_try
    def test_a_quota_of_a_single_worker_is_named_and_without_it_steps_are_shorter(self):
        try:
            quota = Quota(0.25)
        except PermissionError as error:
            self.skipTest(str(error))
        with quota:
            run(*self.arguments(*LONG, "--max-time", "5s"), preexec_fn=quota.limit_this_process)
        verdict, all_of_it = self.bottleneck()
        self.assertEqual((verdict, all_of_it["confidence"]), ("cpu quota", "high"), all_of_it)
        self.assertIn("0.25", all_of_it["advice"])
        cores, = self.report()["numbers"]["cores"]
        self.assertEqual((cores["quota"], cores["cores"]), (0.25, 0.25))
        self.assertGreater(cores["lost_to_quota"], 0.5)
        slow = self.report()["numbers"]["target_tokens_per_second"]
        run(*self.arguments(*LONG, "--max-time", "2s", "--run", self.path("free")))
        self.assertGreater(self.report("free")["numbers"]["target_tokens_per_second"], 1.5 * slow)

    @second_try
    def test_a_single_worker_that_is_stopped_half_of_the_time_is_told_so(self):
        worker = subprocess.Popen([REIGEN, *self.arguments(*SHORT, "--max-time", "10s")], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
        while not self.has_started() and worker.poll() is None:
            time.sleep(0.01)
        while worker.poll() is None:
            worker.send_signal(signal.SIGSTOP)
            time.sleep(0.6)
            worker.send_signal(signal.SIGCONT)
            time.sleep(0.6)
        self.assertEqual(worker.returncode, 0, worker.communicate()[1])
        verdict, all_of_it = self.bottleneck()
        self.assertEqual(verdict, "stopped", all_of_it)
        self.assertAlmostEqual(all_of_it["shares"]["stopped"], 0.5, delta=0.15)
        self.assertIn("keep the process running", all_of_it["advice"])

    @second_try
    @harness.long_test
    def test_a_change_is_said_while_it_happens(self):
        core = min(os.sched_getaffinity(0))
        command = [REIGEN, *self.arguments(*LONG, "--max-time", "75s", "--dashboard", "--dashboard-port", 0)]
        worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                  preexec_fn=lambda: os.sched_setaffinity(0, {core}))
        time.sleep(20)
        hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                 preexec_fn=lambda: os.sched_setaffinity(0, {core})) for _ in range(3)]
        try:
            time.sleep(40)
            self.assertIsNone(worker.poll())
            top = " ".join(run("top", self.path("run")).stdout.split())
            with urllib.request.urlopen(self.read("run/dashboard.url").strip().replace("/?", "/live.json?"),
                                        timeout=30) as answer:
                live = {v["about"]: v for v in json.load(answer)["verdicts"]}["bottleneck"]
        finally:
            for hog in hogs:
                hog.kill()
                hog.wait()
        error = worker.communicate(timeout=300)[1]
        for said in (error, top, live["because"]):
            self.assertRegex(said, r"from step [\d,]+ on \([^)]* after the start\) a step took")
        self.assertIn("bottleneck: interference from step", top)
        self.assertRegex(live["verdict"], "^interference from step")
        self.assertEqual(error.count("has the details"), 1, error)  # a warning, once


class Advice(Planted):
    """The advice of a report is typed as it stands, and the run gets better."""

    def command(self):
        typed = re.findall("`(reigen train [^`]*)`", self.bottleneck()[1]["advice"])
        self.assertTrue(typed, self.bottleneck()[1])
        return shlex.split(typed[0])[1:]

    @second_try
    def test_fewer_evaluations_take_less_of_the_time(self):
        run(*self.arguments(*SHORT, "--max-steps", 60, "--eval.every", 2))
        # Each evaluation also saves.
        self.assertIn(self.bottleneck()[1]["cause"], ("evaluation", "checkpoint"), self.bottleneck()[1])
        before = self.report()["numbers"]["shares"]
        command = self.command()
        self.assertEqual(command[command.index("--eval.every") + 1], "4")
        run(*command, "--threads", 1)
        after = self.report()["numbers"]["shares"]
        # Half as often in the second attempt, which had half as many steps.
        self.assertEqual(self.report()["numbers"]["steps"], 90)
        both = [shares["evaluation"] + shares["checkpoint"] for shares in (before, after)]
        self.assertLess((both[1] - both[0]) / 30, both[0] / 60)

    @second_try
    def test_compression_or_a_faster_link_shortens_the_steps_on_a_slow_link(self):
        if not namespaces.permitted():
            self.skipTest("network namespaces are not permitted here")
        with namespaces.Network(2, rate="60mbit") as network:
            self.workers(*HEAVY, "--max-steps", 20, network=network)
            self.assertEqual(self.bottleneck()[0], "network", self.bottleneck()[1])
            command = self.command()
            self.assertIn("--compress", command)
            self.workers(*HEAVY, *command[command.index("--compress"):], "--compress-warmup", 0, network=network)
            network.shape(None)
            self.workers(*HEAVY, "--compress", "none", "--max-steps", 40, network=network)
        steps = self.step_seconds()
        self.assertEqual(len(steps), 40)
        slow = sum(steps[1:20]) / 19
        self.assertLess(sum(steps[21:30]) / 9, slow)
        self.assertLess(sum(steps[31:]) / 9, slow)

    @second_try
    def test_checkpoints_half_as_often_take_less_of_the_time(self):
        run(*self.arguments(*SHORT, "--max-steps", 60, "--checkpoint.every", 1))
        self.assertEqual(self.bottleneck()[0], "checkpoint", self.bottleneck()[1])
        before = self.report()["numbers"]["shares"]["checkpoint"]
        command = self.command()
        self.assertEqual(command[command.index("--checkpoint.every") + 1], "2")
        run(*command, "--threads", 1)
        self.assertEqual(self.report()["numbers"]["steps"], 90)
        self.assertLess((self.report()["numbers"]["shares"]["checkpoint"] - before) / 30, before / 60)

    @second_try
    def test_cheaper_compression_shortens_the_steps(self):
        costly = [*HEAVY[:4], "--batch.target-tokens", 100, "--compress", "powersgd:32", "--compress-warmup", 0]
        self.workers(*costly, "--max-steps", 40)
        self.assertEqual(self.bottleneck()[0], "compression", self.bottleneck()[1])
        command = self.command()
        self.assertEqual(command[command.index("--compress") + 1], "bf16")
        self.workers(*costly, *command[command.index("--compress"):])
        steps = self.step_seconds()
        self.assertEqual(len(steps), 60)
        self.assertLess(sum(steps[41:]) / 19, sum(steps[1:40]) / 39)


class Processors(Planted):
    def quota(self, share, **kwargs):
        try:
            quota = Quota(share, **kwargs)
        except PermissionError as error:
            self.skipTest(str(error))
        self.addCleanup(quota.close)
        return quota

    def throttled_rank(self, rank):
        starts = [None, None]
        starts[rank] = self.quota(0.25).limit_this_process
        self.workers(*LONG, "--max-steps", 25, starts=starts)
        self.assertEqual(self.bottleneck()[0], f"straggler: rank {rank}", self.bottleneck()[1])
        self.assertIn("quota", self.bottleneck()[1]["advice"])
        self.assert_spans_add_up(2)

    @second_try
    def test_a_rank_with_a_quota_is_the_straggler(self):
        self.throttled_rank(1)

    @harness.long_test
    @second_try
    def test_rank_0_with_a_quota_is_the_straggler(self):
        self.throttled_rank(0)

    @second_try
    def test_a_rank_with_a_quota_is_the_straggler_of_steps_shorter_than_its_pauses(self):
        self.workers(*SHORT, "--max-steps", 250, starts=[None, self.quota(0.2).limit_this_process])
        # A period of the quota has 0.1 s: most steps end within one.
        steps = sorted(self.step_seconds())
        self.assertLess(steps[len(steps) // 4], 0.1)
        self.assertEqual(self.bottleneck()[0], "straggler: rank 1", self.bottleneck()[1])

    def throttle_reader(self, worker):
        """The thread that reads and packs batches gets a thousandth of a processor. A slow disk would not
        do: verification leaves the data of a test in the page cache."""
        quota = self.quota(0.001, period=1_000_000)
        thread = None
        while thread is None and worker.poll() is None:
            thread = thread_of(worker.pid, "reigen-input")
            time.sleep(0.001)
        self.assertIsNotNone(thread, "it ended before its reader was found")
        quota.limit(thread)

    @second_try
    def test_a_throttled_reader_is_input(self):
        worker = subprocess.Popen([REIGEN, *self.arguments(*LITTLE, *FIVE_SECONDS)], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
        self.throttle_reader(worker)
        error = worker.communicate(timeout=300)[1]
        self.assertEqual(worker.returncode, 0, error)
        self.assertEqual(self.bottleneck()[0], "input", self.bottleneck()[1])
        # It is short of a processor, not of a disk.
        self.assertIn("leave a core free for the thread that reads", self.bottleneck()[1]["advice"])
        self.assert_spans_add_up(1)

    def late_reader(self, rank):
        self.workers(*LITTLE, *FIVE_SECONDS, begun=lambda workers: self.throttle_reader(workers[rank]))
        verdict, all_of_it = self.bottleneck()
        self.assertEqual(verdict, "input", all_of_it)
        self.assertEqual(all_of_it["rank"], rank, all_of_it)
        self.assertIn("leave a core free for the thread that reads", all_of_it["advice"])
        self.assert_spans_add_up(2)

    @second_try
    def test_a_throttled_reader_of_rank_1_is_input_and_no_straggler(self):
        self.late_reader(1)

    @harness.long_test
    @second_try
    def test_a_throttled_reader_of_rank_0_is_input_and_no_straggler(self):
        self.late_reader(0)


class Disks(Planted):
    @second_try
    def test_a_slow_start_from_a_slow_disk_is_in_the_verdict(self):
        size = sum(os.path.getsize(os.path.join(self.data, name)) for name in os.listdir(self.data))
        try:
            disk = SlowDisk(self.folder, size // 4)
        except PermissionError as error:
            self.skipTest(str(error))
        with disk:
            data = os.path.join(disk.path, "data")
            shutil.copytree(self.data, data)
            disk.forget()
            run(*self.arguments(*SHORT, "--max-steps", 20, "--data", data), preexec_fn=disk.limit_this_process)
        self.assertIn("start-up took", self.bottleneck()[1]["because"])
        busy = next(q["answer"] for q in self.report()["questions"] if q["id"] == "busy")
        self.assertTrue(busy.startswith("no: "), busy)
        numbers = self.report()["numbers"]
        self.assertGreater(numbers["data_seconds"], numbers["seconds"] / 2)
        # A faster disk, as the advice says.
        self.assertIn("a faster disk for the data", self.bottleneck()[1]["advice"])
        run(*self.arguments(*SHORT, "--max-steps", 20, "--run", self.path("fast")))
        self.assertLess(self.report("fast")["numbers"]["data_seconds"], numbers["data_seconds"] / 2)


class Timeline(Planted):
    def test_all_ranks_are_on_one_clock(self):
        self.workers(*LONG, "--max-steps", 12, "--timeline", "6:8")
        trace = json.loads(self.read("run/timeline-6-8.json"))
        events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
        self.assertEqual({e["args"]["step"] for e in events}, {6, 7, 8})
        self.assertEqual({e["pid"] for e in events}, {0, 1})
        error = 1e6 * max(trace["otherData"]["clock_error_seconds"])
        tracks = {(e["pid"], e["args"]["name"]): e["tid"] for e in trace["traceEvents"]
                  if e["ph"] == "M" and e["name"] == "thread_name"}
        for rank in (0, 1):
            own = [e for e in events if e["pid"] == rank and e["tid"] == tracks[rank, "step"]]
            names = {e["name"] for e in own}
            self.assertLessEqual({"input", "forward", "loss", "backward", "wait for gradients", "optimizer"}, names)
            for before, after in zip(own, own[1:]):  # spans of a track do not overlap
                self.assertGreaterEqual(after["ts"] - before["ts"], before["dur"] - 0.01)
        # An exchange cannot end on one rank before the other has begun it.
        sums = [[e for e in events if e["pid"] == rank and e["name"].startswith("all_reduce")] for rank in (0, 1)]
        self.assertEqual(len(sums[0]), len(sums[1]))
        self.assertGreater(len(sums[0]), 0)
        for mine, other in zip(*sums):
            self.assertGreater(mine["ts"] + mine["dur"] + error, other["ts"])
            self.assertGreater(other["ts"] + other["dur"] + error, mine["ts"])
            self.assertGreater(mine["args"]["bytes"], 0)

    def test_an_invalid_range_is_refused(self):
        self.assert_fails(run(*self.arguments("--timeline", "8:6", "--max-steps", 1), check=False), 2, "timeline")

    def test_a_run_that_ends_early_writes_the_steps_it_has(self):
        run(*self.arguments(*SHORT, "--max-steps", 5, "--timeline", "4:9"))
        events = json.loads(self.read("run/timeline-4-9.json"))["traceEvents"]
        self.assertEqual({e["args"]["step"] for e in events if e["ph"] == "X"}, {4, 5})


if __name__ == "__main__":
    harness.main()
