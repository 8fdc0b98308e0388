"""`reigen doctor` through the real binary: alone, with workers, and across links of known speed."""

import json
import os
import re
import shutil
import subprocess
import sys
import time

import harness
from harness import REIGEN, run
from quota import Quota
from slow_disk import SlowDisk
from workers_test import WorkersCase

sys.path.insert(0, os.path.join(harness.SOURCE, "tests", "dist"))
import namespaces

# Wide enough that the network matters: 4 MB of gradient.
WIDE = ["--model.width", 128, "--model.ffn-width", 512, "--model.encoder-layers", 2,
        "--model.decoder-layers", 2, "--max-steps", 1000]
STREAM = """
import socket, sys, time
kind, address = sys.argv[1:]
if kind == 'listen':
    s = socket.create_server((address, 5999)); c, _ = s.accept(); n = 0
    while True:
        b = c.recv(1 << 20)
        if not b: break
        n += len(b)
        if n >= 4 << 20: c.sendall(b'x'); break
else:
    for _ in range(100):
        try: c = socket.create_connection((address, 5999)); break
        except OSError: time.sleep(0.05)
    t = time.time(); c.sendall(bytes(4 << 20)); c.recv(1); print((4 << 20) / (time.time() - t))
"""


class Doctor(WorkersCase):
    seconds = 2  # of measuring

    def options(self, *more):
        from workers_test import SMALL
        return [str(a) for a in ["doctor", "--data", self.data, *SMALL[:-8], "--threads", 1, *WIDE,
                                 "--seconds", self.seconds, *more]]

    def examine(self, *more):
        return json.loads(run(*self.options("--json", *more)).stdout)

    def test_one_worker(self):
        found = self.examine("--price-per-hour", 2)
        self.assertEqual(found["bottleneck"], "compute")
        self.assertEqual(len(found["workers"]), 1)
        self.assertGreater(found["hours"], 0)
        self.assertAlmostEqual(found["cost"], 2 * found["hours"])

    def test_a_run_without_a_limit_has_no_hours(self):
        endless = self.examine("--price-per-hour", 2, "--max-steps", 0)
        self.assertEqual([endless["hours"], endless["cost"]], [0, 0])
        self.assertEqual(self.examine("--max-time", "1h", "--max-steps", 10 ** 9)["hours"], 1)

    def test_fewer_or_more_cores_are_suggested(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one core")
        found = self.examine("--threads", 2)
        # Whichever is true of this machine today, one of the two is suggested.
        self.assertTrue(any(a["id"] in ("fewer-threads", "more-threads") for a in found["advice"]),
                        found["advice"])

    def test_under_mpirun(self):
        if shutil.which("mpirun") is None:
            self.skipTest("mpirun is not installed")
        done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", REIGEN,
                               *self.options("--json")], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([w["rank"] for w in json.loads(done.stdout)["workers"]], [0, 1])

    def test_two_workers_and_a_simulation_of_sixty_four(self):
        text = run(*self.options("--workers", 2, "--simulate", "workers=64,link=1gbit")).stdout
        for part in ("rank 0 to rank 1", "all-reduce size", "bottleneck", "simulated", "efficiency", "largest error"):
            self.assertIn(part, text)
        found = self.examine("--workers", 2, "--simulate", "workers=4096,link=10gbit,latency=20us")
        last = found["simulated"][-1]
        self.assertEqual(last["workers"], 4096)
        self.assertEqual(last["idle_workers"], 4096 - found["sentences"])
        self.assertEqual(found["simulated"][0]["idle_workers"], 0)
        self.assertIn("idle-workers", [f["id"] for f in found["findings"]])
        self.assertEqual([w["rank"] for w in found["workers"]], [0, 1])
        self.assertLess(abs(found["workers"][1]["clock_ahead_seconds"]), 1)

    def test_a_warm_up_is_part_of_the_run(self):
        found = self.examine("--workers", 2, "--compress", "powersgd:4")
        step, first = found["forecast"]["step_seconds"], found["warmup"]
        self.assertEqual(first["steps"], 100)
        int4 = next(a for a in found["alternatives"] if a["compress"] == "int4")
        self.assertAlmostEqual(first["step_seconds"], int4["step_seconds"])
        self.assertAlmostEqual(found["hours"], (100 * first["step_seconds"] + 900 * step) / 3600)
        text = run(*self.options("--workers", 2, "--compress", "powersgd:4", "--compress-warmup", 7)).stdout
        self.assertIn("powersgd:4 begins after a warm-up of 7 steps (", text)
        self.train("warm", "--workers", 2, "--compress", "powersgd:4", "--max-steps", 20, "--eval.every", 0)
        sent = [self.losses("warm")[step]["communication"]["sent"] for step in (1, 2, 3, 4)]
        self.assertEqual(sent[0], sent[1])  # a tenth of the steps
        self.assertLess(max(sent[2:]), sent[1])
        self.assertEqual(self.examine("--workers", 2, "--compress", "int4")["warmup"]["steps"], 0)

    def test_a_training_run_logs_its_prediction(self):
        self.train("run", "--workers", 2, "--compress", "auto", "--max-steps", 3, "--eval.every", 0)
        chosen = self.chosen("run")
        again = self.train("run", "--max-steps", 5)
        self.assertEqual(self.chosen("run"), chosen)
        self.assertIn(f" {chosen}", again.stderr)
        lines = [json.loads(line) for line in self.read("run/measurements/rank-0.jsonl").splitlines()]
        predicted = [r for r in lines if r["kind"] == "forecast"]
        self.assertEqual([r["method"] for r in predicted], [chosen, chosen])
        for value in ("seconds", "compute", "bandwidth", "latency"):
            self.assertGreater(min(r[value] for r in predicted), 0, value)


class LinksCase(WorkersCase):
    seconds = 4

    def setUp(self):
        super().setUp()
        if not namespaces.permitted():
            self.skipTest("network namespaces are not permitted here")

    def across(self, net, arguments, second=(), preexec=None, data=None, fails=False):
        """Two workers, one in each namespace, as torchrun would start them; the output of rank 0, or of rank 1
        where it has to fail.

        Of the second one: `second` goes before its command, `preexec` is called in its process, `data` is
        where it has the data."""
        processes, port = [], harness.free_port()
        for rank in range(2):
            before, call = (second, preexec) if rank == 1 else ((), None)
            own = [data if rank == 1 and data and a == self.data else a for a in arguments]
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0",
                   "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": net.address(0), "MASTER_PORT": str(port),
                   "REIGEN_TOKEN": "0123456789abcdef0123456789abcdef"}
            processes.append(subprocess.Popen(net.command(rank, *before, REIGEN, *own), env=env,
                                              text=True, preexec_fn=call, stdout=subprocess.PIPE,
                                              stderr=subprocess.PIPE))
        outputs = [p.communicate(timeout=120) for p in processes]
        if fails:
            self.assertNotEqual(processes[1].returncode, 0, outputs)
            return outputs[1]
        self.assertEqual([p.returncode for p in processes], [0, 0], outputs)
        return outputs[0]

    def raw_stream(self, net):
        listen = subprocess.Popen(net.command(1, sys.executable, "-c", STREAM, "listen", net.address(1)))
        send = subprocess.run(net.command(0, sys.executable, "-c", STREAM, "send", net.address(1)),
                              capture_output=True, text=True, timeout=60)
        listen.wait(60)
        return float(send.stdout)


class AcrossLinks(LinksCase):
    def test_the_verdict_is_the_network_on_a_slow_link_and_compute_on_a_fast_one(self):
        arguments = Doctor.options(self, "--json")
        with namespaces.Network(2, rate="100mbit") as net:
            slow = json.loads(self.across(net, arguments)[0])
            raw = self.raw_stream(net)
            self.assertEqual(slow["bottleneck"], "network", slow["verdict"])
            for link in slow["links"]:
                self.assertLess(abs(link["bytes_per_second"] / raw - 1), 0.1)
            self.assertIn("compress", [a["id"] for a in slow["advice"]])
            warned = self.across(net, self.arguments("run", *WIDE, "--max-steps", 2, "--eval.every", 0))[1]
            self.assertIn("--compress auto", warned)
            warned = self.across(net, self.arguments("warm", *WIDE, "--max-steps", 12, "--eval.every", 0,
                                                     "--compress", "powersgd:2"))[1]
            self.assertIn("--compress-warmup", warned)
            net.shape(None)
            options = [*WIDE, "--batch.target-tokens", 6000, "--compress", "auto", "--eval.every", 0, "--max-steps"]
            self.across(net, self.arguments("later", *options, 1))
            self.assertEqual(self.chosen("later"), "none")
            # A run that began on a fast link gets a suggestion on a slow one.
            net.shape("20mbit")
            said = self.across(net, self.arguments("later", *options, 2))[1]
            self.assertEqual(self.chosen("later"), "none")
            self.assertRegex(said, "warning: .*--compress [a-z0-9:]+ ")
            self.assertNotIn("--compress auto", said)
            net.shape(None)
            # A step with enough work to take longer than any busy loopback.
            fast = json.loads(self.across(net, [*arguments, "--batch.target-tokens", "6000"])[0])
            # Other load on this machine may slow one of the two down.
            self.assertIn(fast["bottleneck"], ("compute", "straggler"), fast["verdict"])


class Faults(LinksCase):
    """Each fault is real, and on the second host only."""
    seconds = 2

    def found(self, net, *more, **second):
        return json.loads(self.across(net, Doctor.options(self, "--json", *more), **second)[0])

    def findings(self, net, *more, **second):
        return [(f["id"], f["rank"]) for f in self.found(net, *more, **second)["findings"]]

    def test_a_clock_that_is_minutes_off(self):
        if shutil.which("faketime") is None:
            self.skipTest("faketime is not installed")
        with namespaces.Network(2) as net:
            found = self.found(net, second=["faketime", "-f", "+300s"])
            clock = next(f for f in found["findings"] if f["id"] == "clock")
            self.assertEqual(clock["rank"], 1)
            self.assertAlmostEqual(clock["value"], 300, delta=5)

    def test_a_host_that_computes_slowly(self):
        self.seconds = 5  # a quota shows in measurements that are much longer than its period
        try:
            quota = Quota(0.3)
        except PermissionError as error:
            self.skipTest(str(error))
        with quota, namespaces.Network(2) as net:
            # Encryption would make the link of the limited process slow, too.
            # Long steps: the pauses of the limited process lengthen short exchanges, too.
            found = self.found(net, "--encrypt", "off", "--batch.target-tokens", 12000,
                               preexec=quota.limit_this_process)
            slow = [f["rank"] for f in found["findings"] if f["id"] == "slow-worker"]
            self.assertEqual(slow, [1], found["findings"])
            self.assertEqual(found["bottleneck"], "straggler", found["verdict"])

    def test_a_link_far_below_the_reported_speed_of_its_interface(self):
        with namespaces.Network(2, rate="100mbit") as net:
            self.assertIn(("slow-link", 0), self.findings(net))

    def test_an_interface_of_a_different_network(self):
        with namespaces.Network(2) as net:
            net.add_interface("side0", 78)
            found = self.found(net, "--interface", "side0")
            self.assertIn(("interface", 1), [(f["id"], f["rank"]) for f in found["findings"]])
            self.assertTrue(any(re.search(r"rank 1 .*side0 \(10.78.0.2.*10.77.0.1.*eth0 \(10.77.0.2.*--interface", n)
                                for n in found["warnings"]), found["warnings"])

    def test_an_interface_without_a_connection(self):
        with namespaces.Network(2) as net:
            net.add_interface("side0", 78)
            net.cut_interface("side0")
            options = Doctor.options(self, "--start-within", "2")
            begun = time.time()
            said = self.across(net, [*options, "--interface", "side0"], fails=True)[1]
            self.assertRegex(said, r"error: .*10\.78\.0\.1.*10\.77\.0\.1.*eth0")
            self.assertLess(time.time() - begun, 30)
            said = self.across(net, [*options, "--interface", "lo"], fails=True)[1]
            self.assertRegex(said, "error: .*--interface lo")

    def test_a_disk_too_slow_for_the_reader(self):
        try:
            disk = SlowDisk(self.folder, 150_000)
        except PermissionError as error:
            self.skipTest(str(error))
        with disk, namespaces.Network(2) as net:
            data = os.path.join(disk.path, "data")
            shutil.copytree(self.data, data)
            disk.forget()
            # The smallest model: it needs text faster than any other.
            little = ["--model.width", 16, "--model.heads", 2, "--model.ffn-width", 16, "--model.encoder-layers", 1,
                      "--model.decoder-layers", 1, "--batch.target-tokens", 4000]
            self.assertIn(("slow-disk", 1),
                          self.findings(net, *little, data=data, preexec=disk.limit_this_process))


if __name__ == "__main__":
    harness.main()
