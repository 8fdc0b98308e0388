"""--shares measured: a slow worker gets less of each batch, and the same bits come back when its shares are repeated."""

import json
import os
import signal
import subprocess
import sys
import time

import harness
from harness import run
from workers_test import WorkersCase, workers_of


class UnequalWorkers(WorkersCase):
    def slow_down(self, process, name, rank):
        """A process of higher priority beside that worker, on one processor."""
        while not workers_of(self.path(name)) and process.poll() is None:
            time.sleep(0.01)
        cores = sorted(os.sched_getaffinity(0))
        for pid, own in workers_of(self.path(name)):
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(thread), {cores[0] if own == rank else cores[-1]})
        beside = [subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                   preexec_fn=lambda: os.sched_setaffinity(0, {cores[0]})) for _ in range(3)]
        for load in beside:
            self.addCleanup(load.wait)
            self.addCleanup(load.kill)

    def changes(self, name):
        return [r for r in map(json.loads, self.read(f"{name}/measurements/rank-0.jsonl").splitlines())
                if r["kind"] == "shares"]

    @harness.long_test  # how much a busy loop slows a worker down depends on the scheduler
    def test_a_slow_worker_gets_less_and_the_bits_can_be_repeated(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("two processors are needed")
        # Steps that are longer than a time slice of the scheduler.
        common = ["--eval.every", 0, "--checkpoint.every", 30, "--workers", 2, "--bucket", "16KB",
                  "--batch.target-tokens", 4000]
        process = self.start("run", "--max-steps", 100000, *common, "--shares", "measured")
        self.slow_down(process, "run", 1)
        deadline = time.time() + 120
        while not (os.path.exists(self.path("run/last")) and self.changes("run")) and time.time() < deadline:
            time.sleep(0.05)
        self.wait_for_step("run", self.changes("run")[0]["step"] + 10, process)
        process.send_signal(signal.SIGTERM)
        error = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 130, error)
        change = self.changes("run")[0]
        self.assertEqual(change["step"] % 50, 0)
        self.assertLess(change["shares"][1], change["shares"][0])
        self.assertLess(change["speeds"][1], change["speeds"][0])
        self.assertIn("the workers' shares of the batch are", error)
        last = self.manifest("run")
        self.assertEqual(last["training"]["state"]["shares"], self.changes("run")[-1]["shares"])
        # The same losses as with equal shares, up to rounding.
        self.train("equal", "--max-steps", last["step"], *common)
        self.assert_same_losses(self.losses("equal"), self.losses("run"), last["step"])
        self.assertEqual(self.manifest("equal")["training"]["state"]["shares"], [])
        # Repeated by a run that stops in between: the same bits.
        like = ["--shares-of", self.path("run")]
        self.train("again", "--max-steps", change["step"] + 5, *common, *like)
        self.train("again", "--max-steps", last["step"], *common, *like)
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(self.digest("run", file), self.digest("again", file))
        self.assertEqual([(c["step"], c["shares"]) for c in self.changes("again")],
                         [(c["step"], c["shares"]) for c in self.changes("run")])
        run("report", self.path("run"))
        self.assertIn("since step", json.loads(self.read("run/report.json"))["notes"]["shares of the batch"])

    def test_local_steps_are_refused(self):
        done = self.train("run", "--max-steps", 5, "--workers", 2, "--shares", "measured", "--compress", "local:4",
                          check=False)
        self.assert_fails(done, 2, "--shares measured", "--compress local")


if __name__ == "__main__":
    harness.main()
