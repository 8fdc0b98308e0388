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


class ElasticHosts(WorkersCase):
    def setUp(self):
        super().setUp()
        if not permitted():
            self.skipTest("network namespaces are not permitted here")

    def ssh_of(self, network, prepare="", go="exec ip netns exec $at sh -c \"$first; $*\""):
        """A replacement for ssh into namespaces; vm2 executes `prepare` first, in a mount namespace of its own."""
        ssh = self.write("ssh", "#!/bin/sh\n"
                         "while [ $# -gt 1 ]; do case $1 in -o|-p|-l) shift 2;; -*) shift;; *) break;; esac; done\n"
                         f"host=$1; case $1 in vm1) at={network.names[0]}; first=:;; "
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

        def end_all():
            for pid in network.processes(0) + network.processes(1):
                os.kill(pid, signal.SIGKILL)
        self.addCleanup(end_all)
        return network

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
