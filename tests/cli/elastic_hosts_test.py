"""Elastic training over --hosts: what the launcher makes of workers that end."""

import json
import os
import signal
import subprocess
import sys
import time

import harness
from harness import REIGEN
from workers_test import WorkersCase, workers_of

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dist"))
from namespaces import Network, permitted  # noqa: E402

LAST = 200  # step

class ElasticHosts(WorkersCase):
    def setUp(self):
        super().setUp()
        if not permitted():
            self.skipTest("network namespaces are not permitted here")

    def ssh_of(self, network, prepare="", go="exec ip netns exec $at sh -c \"$first; $*\""):
        """A replacement for ssh into namespaces; vm2 executes `prepare` first, in a mount namespace of its own."""
        ssh = self.write("ssh", "#!/bin/sh\n"
                         "while [ $# -gt 1 ]; do case $1 in -o|-p|-l) shift 2;; -*) shift;; *) break;; esac; done\n"
                         f"host=$1; first=:; case $1 in vm1) at={network.names[0]};; vm3) at={network.names[-1]};; "
                         f"*) at={network.names[1]}; first=\"{prepare or ':'}\";; esac\n"
                         f"shift; {go}\n")
        os.chmod(ssh, 0o755)
        return network.command(0, "env", f"REIGEN_SSH={ssh}")

    def relay(self):
        """The process that stands for ssh can be killed without the agent."""
        at = self.path("connection-")
        return (f"rm -f {at}$host.in {at}$host.out; mkfifo {at}$host.in {at}$host.out; "
                f"setsid ip netns exec $at sh -c \"$*\" < {at}$host.in > {at}$host.out 2> /dev/null & "
                f"cat {at}$host.out & echo $$ > {at}$host; exec cat > {at}$host.in")

    def network(self):
        """Two hosts, whose processes end with the test: agents of elastic jobs outlive their launcher."""
        network = Network(2)
        self.addCleanup(network.close)
        self.addCleanup(self.end_all, network)
        return network

    def start_beside_a_third_host(self, *more, last=LAST, **kwargs):
        """Workers 0 on vm2 and 1 on vm3, and their launcher on a host of its own, which is their witness."""
        network = Network(3)
        self.addCleanup(network.close)
        self.addCleanup(self.end_all, network)
        process = self.start("run", "--max-steps", last, "--eval.every", 0, "--hosts", "vm2,vm3", "--elastic", "--silence",
                             1, "--checkpoint.every", 20, *more, prefix=self.ssh_of(network, **kwargs))
        self.wait_for_step("run", 15, process)
        return network, process

    @staticmethod
    def end_all(network):
        for host in range(len(network.names)):
            for pid in network.processes(host):
                os.kill(pid, signal.SIGKILL)

    def lose(self, network, host):
        """A machine without power: no worker hears of it again, and no agent saw its worker end."""
        network.isolate(host)
        for pid in network.processes(host):
            os.kill(pid, signal.SIGKILL)

    def changes(self):
        lines = map(json.loads, self.read("run/measurements/rank-0.jsonl").splitlines())
        return [record for record in lines if record["kind"] == "membership"]

    def wait_for_change(self, count, process):
        deadline = time.monotonic() + 60
        while len(self.changes()) < count:
            self.assertLess(time.monotonic(), deadline, self.read("run/log.txt"))
            self.assertIsNone(process.poll())
            time.sleep(0.02)
        return self.changes()[count - 1]

    def assert_every_step_once(self, last=LAST):
        lines = map(json.loads, self.read("run/measurements/rank-0.jsonl").splitlines())
        self.assertEqual([r["step"] for r in lines if r["kind"] == "step"], list(range(1, last + 1)))

    def ranks(self):
        return [rank for _, rank in workers_of(self.path("run")) if rank is not None]

    def test_a_worker_that_fails_before_it_joins_ends_the_others(self):
        config = self.write("config.yaml", "preemption: off\n")
        nothing = self.write("nothing", "no-such-option: 1\n")
        network = self.network()
        # The others would wait for it for an hour.
        process = self.start("run", "--config", config, "--max-steps", 10, "--hosts", "vm1,vm2", "--elastic",
                             "--start-within", "1h",
                             prefix=self.ssh_of(network, f"mount --bind {nothing} {config}"))
        error = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 2, error)
        self.assertIn("no-such-option", error.splitlines()[-1])
        self.assertEqual(network.processes(0) + network.processes(1), [])

    def test_of_two_workers_the_one_that_is_left_continues_by_the_launcher_as_witness(self):
        network, process = self.start_beside_a_third_host()
        self.lose(network, 1)  # with worker 0, which writes the run
        error = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 0, error)
        change, = self.changes()
        self.assertEqual([(lost["worker"], lost.get("proven", False)) for lost in change["lost"]], [(0, False)])
        self.assertEqual((change["workers"], change["writer"]), (1, 1))
        self.assert_every_step_once()

    def test_of_two_halves_the_witness_lets_one_continue_also_when_the_cut_heals(self):
        network, process = self.start_beside_a_third_host("--batch.target-tokens", 3000, last=100_000)
        agent, = (pid for pid in network.processes(1) if pid not in dict(workers_of(self.path("run"))))
        os.kill(agent, signal.SIGSTOP)  # the launcher is out of reach, too
        network.isolate(1)
        change = self.wait_for_change(1, process)
        self.assertEqual(([lost["worker"] for lost in change["lost"]], change["writer"]), ([0], 1))
        time.sleep(3)  # worker 0 pauses
        os.kill(agent, signal.SIGCONT)  # the answer to its question arrives before it reaches worker 1
        time.sleep(1)
        network.heal(1, [0, 2])
        change = self.wait_for_change(2, process)
        self.assertEqual([joined["worker"] for joined in change["joined"]], [0])
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 130, error)
        self.assertIn("paused on worker 0", error)
        self.assertIn("the word of the witness", error)
        self.assert_every_step_once(max(self.losses("run")))

    def test_without_the_launcher_the_lowest_rank_breaks_ties_again(self):
        network, process = self.start_beside_a_third_host("--batch.target-tokens", 3000, go=self.relay())
        process.kill()
        process.wait()
        deadline = time.monotonic() + 60
        while not self.changes():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        change, = self.changes()
        self.assertEqual((change.get("lost", []), change["workers"]), ([], 2))
        self.lose(network, 2)
        while not os.path.exists(self.path("run/report.html")) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assert_every_step_once()
        self.assertEqual([lost["worker"] for lost in self.changes()[-1]["lost"]], [1])

    def test_no_restart_beside_workers_to_which_only_the_connection_ended(self):
        network = self.network()
        process = self.start("run", "--max-steps", 100000, "--hosts", "vm1,vm2", "--elastic", "--restarts", 3,
                             "--checkpoint.every", 10, prefix=self.ssh_of(network, go=self.relay()))
        self.wait_for_step("run", 15, process)
        os.kill(int(self.read("connection-vm2")), signal.SIGKILL)
        steps = self.read("run/measurements/rank-0.jsonl").count('"kind":"step"')
        self.wait_for_step("run", steps + 10, process)  # it continues
        os.kill(*(pid for pid, rank in workers_of(self.path("run")) if rank == 0), signal.SIGKILL)
        error = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 5, error)
        self.assertIn("vm2", error.splitlines()[-1])
        self.assertNotIn("restart 1 of", error)
        self.assertEqual(self.ranks(), [1])  # it waits for the operator, or for worker 0

    def test_attach_finds_the_workers_that_outlive_their_launcher(self):
        network = self.network()
        last = 400
        started = self.start("run", "--max-steps", last, "--eval.every", 0, "--hosts", "vm1,vm2", "--elastic", "--detach",
                             prefix=self.ssh_of(network, go=self.relay()))
        error = started.communicate(timeout=120)[1]
        self.assertEqual(started.returncode, 0, error)
        launcher = json.loads(self.read("run/background.json"))["process"]
        os.kill(launcher, signal.SIGKILL)
        done = subprocess.run([*network.command(0), REIGEN, "attach", self.path("run")], capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"process {launcher}", done.stderr)
        self.assertIn("max-steps reached", done.stdout)
        self.assertEqual(sorted(self.losses("run")), list(range(1, last + 1)))

    def test_the_run_has_failed_when_its_writer_is_lost_after_the_others_have_ended(self):
        # At the end the writer waits for the copy of the last checkpoint, and the other worker does not.
        slow = self.write("slow.sh", f"[ $1 != put ] || {{ touch {self.path('copying')}; sleep 1000; }}\n")
        network = self.network()
        process = self.start("run", "--max-steps", 10, "--eval.every", 0, "--hosts", "vm1,vm2", "--elastic",
                             "--checkpoint.copy-to", f"command:sh {slow}", "--checkpoint.wait", "1h",
                             prefix=self.ssh_of(network))
        deadline = time.monotonic() + 120
        while not (os.path.exists(self.path("copying")) and self.ranks() == [0]):
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll())
            time.sleep(0.02)
        os.kill(*(pid for pid, rank in workers_of(self.path("run")) if rank == 0), signal.SIGKILL)
        error = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 5, error)
        self.assertIn("killed by signal 9", error.splitlines()[-1])


if __name__ == "__main__":
    harness.main()
