"""--restarts in elastic jobs: a lost worker is started again by the launcher, and joins the others."""

import os
import re
import signal
import subprocess
import sys
import time

import harness
import restarts_test
from elastic_members_test import SLOW
from elastic_test import ElasticRuns
from elastic_job import records_in, steps_in
from harness import REIGEN, run
from workers_test import workers_of

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dist"))
from namespaces import Network, permitted  # noqa: E402


class RestartsCase(ElasticRuns):
    settings = SLOW
    steps = 130

    def launch(self, *more, prefix=(), name="run"):
        """The launcher of a run, whose output is in run.txt."""
        arguments = self.arguments("--run", self.path(name), "--elastic", "--join-every", "1", *more)
        with open(self.path(f"{name}.txt"), "w", encoding="utf-8") as output:
            launcher = subprocess.Popen([*prefix, REIGEN, "train", *map(str, arguments)], stdout=output, stderr=output,
                                        stdin=subprocess.DEVNULL)

        def close():
            launcher.kill()  # the kernel kills its workers
            launcher.wait()
        self.addCleanup(close)
        return launcher

    def wait_until(self, launcher, condition):
        deadline = time.monotonic() + 120
        while not condition():
            self.assertLess(time.monotonic(), deadline, self.read("run.txt"))
            self.assertIsNone(launcher.poll(), self.read("run.txt"))
            time.sleep(0.01)

    def wait_for_step(self, launcher, step):
        self.wait_until(launcher, lambda: len(steps_in(self.path("run"))) >= step)

    def changes(self):
        return records_in(self.path("run"), "membership") if os.path.exists(self.path("run/measurements")) else []

    def wait_for_joined(self, launcher, number):
        """Until the worker with that number trains."""
        self.wait_until(launcher, lambda: any(joined["worker"] == number
                                              for change in self.changes() for joined in change.get("joined", [])))
        self.wait_for_step(launcher, self.changes()[-1]["step"] + 3)

    @staticmethod
    def processes(launcher):
        """The processes of the workers that run, by rank of their place."""
        found = {}
        with open(f"/proc/{launcher.pid}/task/{launcher.pid}/children", encoding="utf-8") as file:
            children = file.read().split()
        for pid in children:
            with open(f"/proc/{pid}/environ", "rb") as variables:
                rank = [v[12:] for v in variables.read().split(b"\0") if v.startswith(b"REIGEN_RANK=")]
            found[int(rank[0])] = int(pid)
        return found

    def assert_undisturbed(self, launcher):
        """The run has succeeded, with every step once and the losses of one worker."""
        self.assertEqual(launcher.wait(120), 0, self.read("run.txt"))
        steps = steps_in(self.path("run"))
        self.assertEqual([s["step"] for s in steps], list(range(1, self.steps + 1)), self.read("run.txt"))
        for step in steps:
            self.assertLessEqual(abs(step["loss"] / self.reference[step["step"]] - 1), 1e-4, step["step"])
        self.assertEqual(len(records_in(self.path("run"), "start")), 1)  # the job itself was not started again
        self.assertNotIn("drifted", self.read("run.txt"))



class OnOneHost(RestartsCase):
    def test_lost_workers_are_started_again_and_join_the_others(self):
        launcher = self.launch("--workers", 4, "--restarts", 2)
        self.wait_for_step(launcher, 5)
        workers = self.processes(launcher)
        os.kill(workers[3], signal.SIGTERM)  # drained: it stays away
        self.wait_until(launcher, lambda: self.changes() and self.changes()[0].get("left"))
        for victim, number in ((1, 4), (0, 5)):
            os.kill(workers[victim], signal.SIGKILL)
            self.wait_for_joined(launcher, number)
        again = self.processes(launcher)
        self.assertEqual(sorted(again), [0, 1, 2])
        os.kill(again[1], signal.SIGKILL)  # no restart is left
        self.assert_undisturbed(launcher)
        output = self.read("run.txt")
        self.assertRegex(output, r"warning: worker 1 .*killed by signal 9.*started again in 1 s.*restart 1 of 2")
        self.assertRegex(output, r"warning: worker 0 .*killed by signal 9.*started again in 1 s.*restart 2 of 2")
        self.assertRegex(output, r"warning: worker 4 .*killed by signal 9.*no restart is left of --restarts 2")
        changes = self.changes()
        self.assertEqual([j["worker"] for change in changes for j in change.get("joined", [])], [4, 5])
        self.assertEqual([lost["worker"] for change in changes for lost in change.get("lost", [])], [1, 0, 4])
        self.assertEqual((changes[-1]["workers"], changes[-1]["writer"]), (2, 2))
        self.assertIn("lost 3 workers", run("report", self.path("run")).stdout)

    def test_no_worker_is_started_again_after_ctrl_c(self):
        launcher = self.launch("--workers", 3, "--restarts", 5)
        self.wait_for_step(launcher, 5)
        workers = self.processes(launcher)
        os.kill(workers[1], signal.SIGKILL)
        self.wait_until(launcher, lambda: "started again in" in self.read("run.txt"))
        launcher.send_signal(signal.SIGINT)
        self.assertEqual(launcher.wait(120), 130, self.read("run.txt"))
        self.assertEqual(len(re.findall("becomes worker", self.read("run.txt"))), 0)
        self.assertFalse(any(os.path.exists(f"/proc/{pid}") for pid in workers.values()))


class OnHosts(RestartsCase):
    steps = 220

    def setUp(self):
        super().setUp()
        if not permitted():
            self.skipTest("network namespaces are not permitted here")

    def network(self):
        """Two hosts and that of the launcher."""
        network = Network(3)
        self.addCleanup(network.close)

        def end_all():
            for host in range(3):
                self.end_host(network, host)
        self.addCleanup(end_all)
        return network

    @staticmethod
    def end_host(network, host):
        for pid in network.processes(host):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    ssh_of = restarts_test.OnHosts.ssh_of

    def prefix(self, network):
        return network.command(2, "env", f"REIGEN_SSH={self.ssh_of(network)}")

    def assert_nothing_runs(self, network):
        deadline = time.monotonic() + 10
        while any(network.processes(host) for host in range(3)) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual([network.processes(host) for host in range(3)], [[], [], []])

    def test_workers_are_started_again_on_their_host_also_when_it_comes_back(self):
        network = self.network()
        launcher = self.launch("--hosts", "vm1:2,vm2", "--restarts", 3, prefix=self.prefix(network))
        self.wait_for_step(launcher, 5)
        os.kill(*(pid for pid, rank in workers_of(self.path("run")) if rank == 2), signal.SIGKILL)
        self.wait_for_joined(launcher, 3)
        self.write("vm2.down", "")
        self.end_host(network, 1)
        self.wait_until(launcher, lambda: "no route to vm2; it is asked again" in self.read("run.txt"))
        os.unlink(self.path("vm2.down"))
        self.wait_for_joined(launcher, 4)
        self.assert_undisturbed(launcher)
        self.assert_nothing_runs(network)
        output = self.read("run.txt")
        self.assertRegex(output, r"warning: worker 2 \(vm2\): was killed by signal 9.*started again in 1 s.*restart 1 of 3")
        self.assertRegex(output, r"warning: worker 3 \(vm2\): .*restart 2 of 3")
        joined = [member for change in self.changes() for member in change.get("joined", [])]
        self.assertEqual([member["worker"] for member in joined], [3, 4])
        self.assertEqual([member["host"] for member in joined], ["vm2", "vm2"])

    def test_hosts_are_added_to_a_watched_file_and_removed_from_it(self):
        network = self.network()
        hosts = self.write("hosts.txt", "vm1:2\n")
        launcher = self.launch("--hosts-file", hosts, prefix=self.prefix(network))
        self.wait_for_step(launcher, 5)
        self.write("hosts.txt", "vm1:2  # the first\nvm2\n")
        self.wait_for_joined(launcher, 2)
        self.write("hosts.txt", "vm1:2\nvm2:9999\n")
        self.wait_until(launcher, lambda: "hosts.txt, line 2" in self.read("run.txt"))
        self.write("hosts.txt", "vm1:2\n")
        self.wait_until(launcher, lambda: any(change.get("left") for change in self.changes()))
        self.assert_undisturbed(launcher)
        self.assert_nothing_runs(network)
        joined, left = self.changes()
        self.assertEqual([(member["worker"], member["host"]) for member in joined["joined"]], [(2, "vm2")])
        self.assertEqual([(member["worker"], member["why"]) for member in left["left"]], [(2, "SIGTERM")])
        self.assertNotIn("lost", left)
        self.assertRegex(self.read("run.txt"), r"warning: the job continues on its present hosts: .*line 2: .*9999.*1024")


if __name__ == "__main__":
    harness.main()
