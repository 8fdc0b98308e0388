"""Jobs of real processes: each launcher, each way to lose a worker, and no process left behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from namespaces import Network, permitted  # noqa: E402

WORKER = os.environ["DIST_WORKER"]
NAMESPACES = permitted()
TOKEN = "0123456789abcdef0123456789abcdef"


# Opens 300 connections that say nothing, and renews those that are closed.
FLOOD = """
import socket, sys, time
at = (sys.argv[1], int(sys.argv[2]))
while True:
    try:
        held = [socket.create_connection(at, 1) for _ in range(300)]
        print("connected", flush=True)
        time.sleep(0.2)
    except OSError:
        time.sleep(0.05)
"""


def environment(**variables):
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith(("REIGEN_", "WORK_", "OMPI_", "SLURM_", "PMIX_"))}
    return {**clean, **{k: str(v) for k, v in variables.items()}}


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def descendants(pid):
    """All processes below one, found by their parents."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    parents[int(entry)] = int(file.read().rsplit(")", 1)[1].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                pass
    found = [pid]
    for parent in found:
        found += [p for p, above in parents.items() if above == parent]
    return found[1:]


def worker_of_rank(pids, rank):
    for pid in pids:
        with open(f"/proc/{pid}/environ", "rb") as file:
            if f"REIGEN_RANK={rank}\0".encode() in file.read():
                return pid
    raise AssertionError(f"no rank {rank} among {pids}")


class Job:
    """Worker processes with their output in files, so that none blocks on a full pipe."""

    def __init__(self, case):
        self.case = case
        self.folder = tempfile.mkdtemp(prefix="reigen-dist-")
        self.processes = []
        case.addCleanup(self.close)

    def start(self, command, **variables):
        out = open(os.path.join(self.folder, str(len(self.processes))), "w+b")
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                   env=environment(**variables))
        process.output = out.name
        self.processes.append(process)
        out.close()
        return process

    def text(self, process):
        with open(process.output, errors="replace") as file:
            return file.read()

    def wait_for(self, process, text, times=1, within=20):
        deadline = time.time() + within
        while self.text(process).count(text) < times:
            if time.time() > deadline:
                self.case.fail(f"no '{text}' in: {self.text(process)}")
            time.sleep(0.02)

    def ends(self, process, within=20):
        try:
            return process.wait(timeout=within)
        except subprocess.TimeoutExpired:
            self.case.fail(f"still running: {self.text(process)}")

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                for pid in descendants(process.pid):
                    if alive(pid):
                        os.kill(pid, signal.SIGKILL)
                process.kill()
                process.wait()
        subprocess.run(["rm", "-rf", self.folder])


class Case(unittest.TestCase):
    def setUp(self):
        self.job = Job(self)

    def assert_gone(self, pids, within=5):
        deadline = time.time() + within
        while any(alive(pid) for pid in pids):
            self.assertLess(time.time(), deadline, "processes were left behind")
            time.sleep(0.02)

    def last_line(self, process):
        return self.job.text(process).rstrip().splitlines()[-1]


class LocalLaunch(Case):
    def launch(self, workers, *action, **variables):
        return self.job.start([WORKER, "launch", str(workers), *map(str, action)], **variables)

    def test_workers_join_and_sum(self):
        done = self.launch(3, "sum")
        self.assertEqual(self.job.ends(done), 0, self.job.text(done))
        text = self.job.text(done)
        for rank in range(3):
            self.assertIn(f"rank {rank} of 3", text)
        self.assertEqual(text.count("by lo: sum 6"), 3)
        self.assertIn("\n[2] rank 2", "\n" + text)

    def test_lines_have_a_rank_prefix_except_stdout_of_rank_0(self):
        done = self.launch(2, "say", "hello")
        self.assertEqual(self.job.ends(done), 0)
        self.assertEqual(sorted(self.job.text(done).splitlines()),
                         ["[0] 0 hello", "[1] 1 hello", "[1] out 1", "out 0"])

    def test_the_first_error_is_shown_last_and_gives_the_exit_code(self):
        done = self.launch(3, "fail", 1, 7, "the disk is full", WORK_START=5000)
        pids = descendants(done.pid)
        self.assertEqual(self.job.ends(done), 7, self.job.text(done))
        self.assertRegex(self.last_line(done), r"^error: rank 1 \(.*\): the disk is full$")
        self.assert_gone(pids)

    def test_ctrl_c_stops_all_workers(self):
        done = self.launch(2, "loop")
        self.job.wait_for(done, "ready", 2)
        pids = descendants(done.pid)
        self.assertEqual(len(pids), 2)
        done.send_signal(signal.SIGINT)
        self.assertEqual(self.job.ends(done), 130, self.job.text(done))
        self.assert_gone(pids)

    def test_workers_that_ignore_sigterm_are_killed(self):
        done = self.launch(2, "deaf", WORK_GRACE=300)
        self.job.wait_for(done, "ready", 2)
        pids = descendants(done.pid)
        done.send_signal(signal.SIGTERM)
        self.assertEqual(self.job.ends(done), 137, self.job.text(done))
        self.assert_gone(pids)

    def test_a_worker_that_hangs_after_a_wait_is_killed(self):
        done = self.launch(2, "hang-in-wait", WORK_GRACE=300)
        self.job.wait_for(done, "ready")
        pids = descendants(done.pid)
        self.assertEqual(self.job.ends(done), 137, self.job.text(done))
        self.assert_gone(pids)

    def test_no_orphans_when_the_launcher_is_killed(self):
        for action in ("loop", "deaf"):
            done = self.launch(2, action)
            self.job.wait_for(done, "ready", 2)
            pids = descendants(done.pid)
            self.assertEqual(len(pids), 2)
            done.kill()
            self.job.ends(done)
            self.assert_gone(pids)

    def test_a_killed_worker_is_named_by_all_others(self):
        done = self.launch(3, "loop")
        self.job.wait_for(done, "ready", 3)
        pids = descendants(done.pid)
        os.kill(worker_of_rank(pids, 1), signal.SIGKILL)
        self.assertEqual(self.job.ends(done), 137, self.job.text(done))
        host = socket.gethostname()
        for rank in (0, 2):
            self.assertIn(f"[{rank}] error: lost rank 1 ({host}): ", self.job.text(done))
        self.assertRegex(self.last_line(done), re.escape(f"rank 1 ({host})") + ".* signal 9")
        self.assert_gone(pids)

    def test_a_stopped_worker_is_noticed_in_bounded_time(self):
        for victim in (0, 1):  # 0 hosts the rendezvous
            done = self.launch(3, "loop", WORK_SILENCE=1000, WORK_GRACE=3000)
            self.job.wait_for(done, "ready", 3)
            pids = descendants(done.pid)
            os.kill(worker_of_rank(pids, victim), signal.SIGSTOP)
            self.job.wait_for(done, f"lost rank {victim} ", 2, within=5)
            self.assertEqual(self.job.ends(done), 5, self.job.text(done))
            self.assertRegex(self.last_line(done),
                             rf"^error: rank \d .*: lost rank {victim} .* 1 s$")
            self.assert_gone(pids)


class ElasticLaunch(Case):
    def launch(self, workers, **variables):
        done = self.job.start([WORKER, "launch", str(workers), "elastic"], WORK_ELASTIC="yes", **variables)
        self.job.wait_for(done, "epoch 0 steps", workers)
        return done, descendants(done.pid)

    def test_one_of_two_continues_on_proof_whichever_ends(self):
        for victim in (0, 1):
            done, pids = self.launch(2)
            os.kill(worker_of_rank(pids, victim), signal.SIGKILL)
            self.job.wait_for(done, f"epoch 1 steps with: {1 - victim}\n")
            if victim == 0:  # without a proof half of the workers need rank 0
                self.assertIn("lost worker 0", self.job.text(done))
                self.assertIn("killed by signal 9", self.job.text(done))
            done.send_signal(signal.SIGINT)
            self.assertEqual(self.job.ends(done), 130, self.job.text(done))
            self.assert_gone(pids)

    def test_one_worker_is_left_of_five_that_end_at_once(self):
        done, pids = self.launch(5)
        for victim in [worker_of_rank(pids, rank) for rank in (0, 1, 2, 4)]:
            os.kill(victim, signal.SIGKILL)
        self.job.wait_for(done, "steps with: 3\n")
        done.send_signal(signal.SIGINT)
        self.assertEqual(self.job.ends(done), 130, self.job.text(done))
        self.assert_gone(pids)

    def test_the_job_fails_when_no_worker_is_left(self):
        done, pids = self.launch(3)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(self.job.ends(done), 137, self.job.text(done))

    def test_ctrl_c_also_ends_a_stopped_worker(self):
        done, pids = self.launch(3, WORK_SILENCE=1500, WORK_GRACE=2000)
        os.kill(worker_of_rank(pids, 2), signal.SIGSTOP)
        self.job.wait_for(done, "steps with: 0 1\n", 2)
        done.send_signal(signal.SIGINT)
        self.job.ends(done)
        self.assert_gone(pids)


FAKE_SSH = """#!/bin/sh
# Skips ssh's options and runs the command as sshd would: in its own session, so that the end of
# this program does not signal it.
while [ $# -gt 0 ]; do case $1 in -o|-p|-l) shift 2;; -*) shift;; *) break;; esac; done
host=$1; shift
[ "$host" = nowhere ] && { echo "ssh: Could not resolve hostname nowhere" >&2; exit 255; }
echo "welcome to $host"
HOME=%s exec setsid -w sh -c "$*"
"""


class HostLaunch(Case):
    def setUp(self):
        super().setUp()
        self.ssh = os.path.join(self.job.folder, "ssh")
        with open(self.ssh, "w") as file:
            file.write(FAKE_SSH % self.job.folder)
        os.chmod(self.ssh, 0o755)

    def launch(self, hosts, *action, **variables):
        return self.job.start([WORKER, "hosts", hosts, *map(str, action)], REIGEN_SSH=self.ssh,
                              **variables)

    def test_workers_on_several_hosts_sum(self):
        done = self.launch("vm1:2,vm2", "sum")
        self.assertEqual(self.job.ends(done), 0, self.job.text(done))
        for rank, host in enumerate(["vm1", "vm1", "vm2"]):
            self.assertRegex(self.job.text(done), f"rank {rank} of 3 on {host} by .*: sum 6")

    def test_the_first_error_is_shown_last_with_its_host(self):
        done = self.launch("vm1:1,vm2:1", "fail", 1, 3, "no such file", WORK_START=5000)
        self.assertEqual(self.job.ends(done), 3, self.job.text(done))
        self.assertEqual(self.last_line(done), "error: rank 1 (vm2): no such file")

    def test_ctrl_c_stops_all_workers(self):
        done = self.launch("vm1,vm2", "loop")
        self.job.wait_for(done, "ready", 2)
        pids = descendants(done.pid)
        done.send_signal(signal.SIGINT)
        self.assertEqual(self.job.ends(done), 130, self.job.text(done))
        self.assert_gone(pids)

    def test_workers_of_an_elastic_job_continue_on_proof_from_other_hosts(self):
        done = self.launch("vm1,vm2:2", "elastic", WORK_ELASTIC="yes")
        self.job.wait_for(done, "epoch 0 steps", 3)
        pids = descendants(done.pid)
        for victim in [worker_of_rank(pids, rank) for rank in (0, 1)]:
            os.kill(victim, signal.SIGKILL)
        self.job.wait_for(done, "steps with: 2\n")
        done.send_signal(signal.SIGINT)
        self.assertEqual(self.job.ends(done), 130, self.job.text(done))
        self.assert_gone(pids)

    def test_workers_of_an_elastic_job_outlive_the_launcher_until_they_are_stopped(self):
        done = self.launch("vm1,vm2", "elastic", WORK_ELASTIC="yes")
        self.job.wait_for(done, "epoch 0 steps", 2)
        pids = descendants(done.pid)
        workers = [worker_of_rank(pids, rank) for rank in (0, 1)]
        self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL) for pid in workers if alive(pid)])
        done.kill()
        self.job.ends(done)
        time.sleep(1)  # without a launcher workers of other jobs get a signal at once
        self.assertTrue(all(alive(pid) for pid in workers))
        os.kill(workers[1], signal.SIGTERM)
        self.assert_gone(pids, within=10)

    def test_a_worker_that_hangs_after_a_wait_is_killed(self):
        done = self.launch("vm1,vm2", "hang-in-wait", WORK_GRACE=300)
        self.job.wait_for(done, "ready")
        pids = descendants(done.pid)
        self.assertEqual(self.job.ends(done), 5, self.job.text(done))
        self.assertIn("the ssh connection ended", self.last_line(done))
        self.assert_gone(pids, within=10)

    def test_no_orphans_when_the_connection_is_cut(self):
        done = self.launch("vm1:1,vm2:1", "loop")
        self.job.wait_for(done, "ready", 2)
        pids = descendants(done.pid)
        self.assertGreaterEqual(len(pids), 4)
        done.kill()
        self.job.ends(done)
        self.assert_gone(pids, within=10)

    def test_a_host_without_the_binary_is_named_with_a_fix(self):
        done = self.launch("vm1", "sum", WORK_BINARY="/no/such/reigen")
        self.assertEqual(self.job.ends(done), 5)
        self.assertRegex(self.last_line(done), "^error: .*vm1.*/no/such/reigen")
        self.assertIn("--copy-binary", self.last_line(done))

    def test_a_different_version_is_refused(self):
        done = self.launch("vm1", "sum", WORK_VERSION="2")
        self.assertEqual(self.job.ends(done), 5)
        self.assertIn("host vm1 runs 1, this host 2", self.last_line(done))

    def test_the_error_of_ssh_is_quoted(self):
        done = self.launch("vm1,nowhere", "sum")
        self.assertEqual(self.job.ends(done), 5)
        self.assertRegex(self.last_line(done), "^error: .*nowhere.*: ssh: ")

    def test_the_binary_is_copied_on_request(self):
        done = self.launch("vm1:2", "sum", WORK_COPY="1", WORK_BINARY="/no/such/reigen")
        self.assertEqual(self.job.ends(done), 0, self.job.text(done))
        copies = os.listdir(os.path.join(self.job.folder, ".cache/reigen"))
        self.assertEqual(len(copies), 1)

    def test_a_copy_without_progress_is_an_error(self):
        with open(self.ssh, "w") as file:
            file.write("#!/bin/sh\nexec sleep 1000\n")
        done = self.launch("vm1", "sum", WORK_COPY="1", WORK_CONNECT=500)
        self.assertEqual(self.job.ends(done), 5, self.job.text(done))
        self.assertRegex(self.last_line(done), "^error: cannot copy the program to vm1: no progress for 0.5 s")


class OtherLaunchers(Case):
    def test_variables_as_torchrun_sets_them(self):
        with socket.socket() as agent:  # torchrun's agent listens on the port itself
            agent.bind(("127.0.0.1", 0))
            agent.listen()
            port = agent.getsockname()[1]
            ranks = [self.job.start([WORKER, "sum"], RANK=r, WORLD_SIZE=2, LOCAL_RANK=r,
                                    LOCAL_WORLD_SIZE=2, MASTER_ADDR="localhost", MASTER_PORT=port)
                     for r in range(2)]
            for rank in ranks:
                self.assertEqual(self.job.ends(rank), 0, self.job.text(rank))
                self.assertIn("sum 3", self.job.text(rank))

    def test_variables_as_srun_sets_them(self):
        ranks = [self.job.start([WORKER, "sum"], SLURM_PROCID=r, SLURM_NTASKS=2, SLURM_LOCALID=r,
                                SLURM_NTASKS_PER_NODE=2, SLURM_JOB_ID=os.getpid(), SLURM_STEP_ID=0,
                                SLURM_NODELIST="localhost") for r in range(2)]
        for rank in ranks:
            self.assertEqual(self.job.ends(rank), 0, self.job.text(rank))
            self.assertIn("sum 3", self.job.text(rank))

    def test_mpirun_needs_no_flags(self):
        if subprocess.run(["which", "mpirun"], capture_output=True).returncode != 0:
            self.skipTest("no mpirun here")
        done = self.job.start(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3",
                               WORKER, "sum"])
        self.assertEqual(self.job.ends(done), 0, self.job.text(done))
        self.assertEqual(self.job.text(done).count("sum 6"), 3)


@unittest.skipUnless(NAMESPACES, "namespaces are not permitted here")
class Namespaces(Case):
    def start(self, network, hosts, action="loop", skip=(), **variables):
        """A rank on each of `hosts`; rank 0 listens on its host's port 4711."""
        ranks = {}
        for rank, host in enumerate(hosts):
            if rank in skip:
                continue
            settings = {"REIGEN_RANK": rank, "REIGEN_SIZE": len(hosts), "REIGEN_TOKEN": TOKEN,
                        "REIGEN_RENDEZVOUS": f"{network.address(hosts[0])}:4711",
                        "REIGEN_HOSTS": ",".join(f"vm{h}" for h in hosts),
                        "WORK_SILENCE": 1500, "WORK_START": 10000,
                        **variables, **variables.get(f"rank{rank}", {})}
            settings = {k: v for k, v in settings.items() if not k.startswith("rank")}
            ranks[rank] = self.job.start(network.command(host, WORKER, action), **settings)
        return ranks

    def test_the_interface_is_the_one_with_a_route_to_the_others(self):
        with Network(2) as network:
            ranks = self.start(network, [0, 1, 1], "sum")
            for process in ranks.values():
                self.assertEqual(self.job.ends(process), 0, self.job.text(process))
                self.assertIn("by eth0: sum 6", self.job.text(process))

    def test_a_named_interface_is_used_or_the_existing_ones_are_listed(self):
        with Network(2) as network:
            ranks = self.start(network, [0, 1], "sum", WORK_INTERFACE="eth0")
            for process in ranks.values():
                self.assertEqual(self.job.ends(process), 0, self.job.text(process))
            wrong = self.start(network, [0], "sum", WORK_INTERFACE="eth7")[0]
            self.assertEqual(self.job.ends(wrong), 2)
            self.assertIn("lo (127.0.0.1), eth0 (10.77.0.1", self.job.text(wrong))

    def test_a_cut_link_is_noticed_on_both_sides(self):
        with Network(3) as network:
            ranks = self.start(network, [0, 1, 2])
            for process in ranks.values():
                self.job.wait_for(process, "ready")
            network.cut(2)
            start = time.time()
            for rank, process in ranks.items():
                self.assertEqual(self.job.ends(process), 5, self.job.text(process))
                lost = "rank 2 (vm2)" if rank != 2 else "rank 0 (vm0)"
                self.assertRegex(self.last_line(process), re.escape(f"error: lost {lost}: ") + ".* 1.5 s")
            self.assertLess(time.time() - start, 10)
            for host in range(3):
                self.assertEqual(network.processes(host), [])

    def test_two_workers_that_cannot_reach_each_other_are_named(self):
        for when in ("ready", None):  # while they exchange data, and before they ever did
            with Network(3) as network:
                if when is None:
                    network.separate(1, 2)
                ranks = self.start(network, [0, 1, 2])
                if when is not None:
                    for process in ranks.values():
                        self.job.wait_for(process, when)
                    network.separate(1, 2)
                for process in ranks.values():
                    self.assertEqual(self.job.ends(process), 5, self.job.text(process))
                    line = self.last_line(process)
                    self.assertIn("rank 1 (vm1)", line)
                    self.assertIn("rank 2 (vm2)", line)
                    self.assertNotIn("rank 0", line)

    def test_connections_between_hosts_are_encrypted_by_default(self):
        with Network(2) as network:
            for encrypt, hosts, expected in (("auto", [0, 1], "TLS 1.3"), ("off", [0, 1], "none"),
                                             ("auto", [0, 0], "''"), ("on", [0, 0], "TLS 1.3")):
                ranks = self.start(network, hosts, "sum", WORK_ENCRYPT=encrypt)
                for process in ranks.values():
                    self.assertEqual(self.job.ends(process), 0, self.job.text(process))
                    self.assertIn(f"encryption {expected}", self.job.text(process))

    def test_a_worker_that_does_not_encrypt_cannot_join_a_job_that_does(self):
        with Network(2) as network:
            ranks = self.start(network, [0, 1], "sum", WORK_START=1500,
                               rank1={"WORK_ENCRYPT": "off"})
            for process in ranks.values():
                self.assertEqual(self.job.ends(process), 5, self.job.text(process))

    def test_several_hosts_under_torchrun_need_a_secret(self):
        with Network(2) as network, tempfile.TemporaryDirectory() as folder:
            secret = os.path.join(folder, "token")
            with open(secret, "w") as file:
                file.write(TOKEN + "\n")
            os.chmod(secret, 0o644)

            def ends(**variables):
                ranks = [self.job.start(network.command(r, WORKER, "sum"), RANK=r, WORLD_SIZE=2,
                                        LOCAL_RANK=0, LOCAL_WORLD_SIZE=1,
                                        MASTER_ADDR=network.address(0), WORK_START=5000, **variables)
                         for r in range(2)]
                return [self.job.ends(rank) for rank in ranks]

            self.assertEqual(ends(), [2, 2])
            self.assertEqual(ends(REIGEN_TOKEN="short"), [2, 2])
            self.assertEqual(ends(WORK_TOKEN_FILE=secret), [2, 2])  # others can read it
            os.chmod(secret, 0o600)
            self.assertEqual(ends(WORK_TOKEN_FILE=secret), [0, 0])
            self.assertEqual(ends(REIGEN_TOKEN=TOKEN), [0, 0])
            self.assertEqual(ends(WORK_INSECURE="yes"), [0, 0])

    def test_a_local_job_listens_on_loopback_only(self):
        with Network(2) as network:
            ranks = [self.job.start(network.command(0, WORKER, "loop"), RANK=r, WORLD_SIZE=2,
                                    LOCAL_RANK=r, LOCAL_WORLD_SIZE=2, MASTER_PORT=29500,
                                    MASTER_ADDR=network.address(0)) for r in range(2)]
            for process in ranks:
                self.job.wait_for(process, "ready")
            listening = subprocess.run(network.command(0, "ss", "-Hltn"), capture_output=True,
                                       text=True, check=True).stdout.split("\n")
            addresses = {line.split()[3].rsplit(":", 1)[0] for line in listening if line}
            self.assertEqual(addresses, {"127.0.0.1"})
            for process in ranks:
                process.send_signal(signal.SIGTERM)

    def test_a_job_on_hosts_listens_on_their_network_only(self):
        with Network(2, nat=True) as network:
            ranks = self.start(network, [0, 1])
            for process in ranks.values():
                self.job.wait_for(process, "ready")
            listening = subprocess.run(network.command(0, "ss", "-Hltn"), capture_output=True,
                                       text=True, check=True).stdout.split("\n")
            addresses = {line.split()[3].rsplit(":", 1)[0] for line in listening if line}
            self.assertEqual(addresses, {network.address(0)})
            for process in ranks.values():
                process.send_signal(signal.SIGTERM)

    def test_strangers_that_connect_first_do_not_keep_a_worker_out(self):
        with Network(2) as network:
            ranks = self.start(network, [0, 1], "sum", skip=[1])
            flood = self.job.start(network.command(1, sys.executable, "-c", FLOOD,
                                                   network.address(0), 4711))
            self.job.wait_for(flood, "connected")
            ranks.update(self.start(network, [0, 1], "sum", skip=[0]))
            for process in ranks.values():
                self.assertEqual(self.job.ends(process), 0, self.job.text(process))
            flood.kill()

    def test_a_missing_rank_is_named_with_its_host(self):
        with Network(2) as network:
            ranks = self.start(network, [0, 0, 1], "sum", skip=[2], WORK_START=1500)
            for process in ranks.values():
                self.assertEqual(self.job.ends(process), 5)
                self.assertRegex(self.last_line(process), r"^error: .*rank 2 \(vm1\) .* 1.5 s")

    def test_a_wrong_token_is_refused_and_the_job_forms_with_the_right_one(self):
        with Network(2) as network:
            stranger = self.start(network, [0, 1], "sum",
                                  rank1={"REIGEN_TOKEN": TOKEN[::-1], "WORK_START": 1500})
            self.assertEqual(self.job.ends(stranger[1]), 5)
            self.assertRegex(self.last_line(stranger[1]), "^error: .* token")
            right = self.start(network, [0, 1], "sum", skip=[0])[1]
            self.assertEqual(self.job.ends(right), 0, self.job.text(right))
            self.assertEqual(self.job.ends(stranger[0]), 0, self.job.text(stranger[0]))

    def test_different_facts_are_refused_and_named_on_all_ranks(self):
        with Network(2) as network:
            ranks = self.start(network, [0, 1], "sum", rank1={"WORK_CONFIG": "other"})
            for process in ranks.values():
                self.assertEqual(self.job.ends(process), 5)
                self.assertIn("config: rank 0 (vm0) has same, rank 1 (vm1) has other",
                              self.last_line(process))


class ElasticCase(Case):
    """Workers that only have each other: no launcher of ours ends them."""

    silence = 1500

    def start_all(self, size, network=None, hosts=None):
        self.ranks = []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        at = f"{network.address(0)}:4711" if network else f"127.0.0.1:{port}"
        for rank in range(size):
            command = [WORKER, "elastic"]
            if network:
                command = network.command(hosts[rank] if hosts else rank, *command)
            self.ranks.append(self.job.start(
                command, REIGEN_RANK=rank, REIGEN_SIZE=size, REIGEN_TOKEN=TOKEN,
                REIGEN_RENDEZVOUS=at, REIGEN_HOSTS=",".join(f"vm{r}" for r in range(size)),
                WORK_ELASTIC="yes", WORK_SILENCE=self.silence, WORK_START=20000))
        for process in self.ranks:
            self.job.wait_for(process, "epoch 0 steps")

    def continue_as(self, numbers, of=None):
        """All of them take a step in one membership of exactly these workers."""
        line = "steps with:" + "".join(f" {n}" for n in numbers) + "\n"
        for n in of or numbers:
            self.job.wait_for(self.ranks[n], line)

    def stop_all(self, numbers):
        for n in numbers:
            self.ranks[n].send_signal(signal.SIGTERM)
        for n in numbers:
            self.assertIn(self.job.ends(self.ranks[n]), (0, 130), self.job.text(self.ranks[n]))


class Elastic(ElasticCase):
    def test_any_killed_worker_is_done_without(self):
        self.start_all(4)
        for victim, rest in ((0, [1, 2, 3]), (2, [1, 3]), (3, [1])):
            self.ranks[victim].kill()
            self.continue_as(rest)
        self.stop_all([1])

    def test_two_killed_at_once(self):
        self.start_all(5)
        for victim in (0, 3):
            self.ranks[victim].kill()
        self.continue_as([1, 2, 4])
        self.stop_all([1, 2, 4])

    def test_half_without_the_lowest_rank_pauses_until_stopped(self):
        self.start_all(2)
        self.ranks[0].kill()
        self.job.wait_for(self.ranks[1], "paused on worker 1")
        self.assertIn("1 of 2 workers of epoch 0", self.job.text(self.ranks[1]))
        self.ranks[1].send_signal(signal.SIGTERM)
        self.assertEqual(self.job.ends(self.ranks[1]), 130)

    def test_a_paused_worker_continues_when_the_operator_says_so(self):
        self.start_all(3)
        self.ranks[0].kill()
        self.continue_as([1, 2])
        self.ranks[1].kill()
        self.job.wait_for(self.ranks[2], "paused on worker 2")
        self.assertIn(f"reigen continue {self.ranks[2].pid}, on this host", self.job.text(self.ranks[2]))
        self.ranks[2].send_signal(signal.SIGUSR1)
        self.continue_as([2])
        self.stop_all([2])

    def test_a_stopped_worker_is_fenced_when_it_wakes_and_joins_again(self):
        for victim in (0, 2):
            self.start_all(3)
            self.ranks[victim].send_signal(signal.SIGSTOP)
            rest = [n for n in range(3) if n != victim]
            self.continue_as(rest)
            self.ranks[victim].send_signal(signal.SIGCONT)
            self.job.wait_for(self.ranks[victim], "continued in epoch 1 without this worker")
            self.job.wait_for(self.ranks[victim], "epoch 3 steps")
            self.continue_as([*rest, victim])
            self.assertNotIn("epoch 1 steps", self.job.text(self.ranks[victim]))
            self.stop_all(range(3))

    def test_a_worker_that_joined_again_counts_like_any_other(self):
        self.start_all(3)
        self.ranks[0].send_signal(signal.SIGSTOP)
        self.continue_as([1, 2])
        self.ranks[0].send_signal(signal.SIGCONT)
        self.continue_as([1, 2, 0])
        self.ranks[1].kill()
        self.continue_as([2, 0])  # two of three, one of which joined again
        self.ranks[0].kill()
        self.continue_as([2])
        self.stop_all([2])

    def test_every_worker_in_turn_stops_and_joins_again(self):
        self.start_all(3)
        members = [0, 1, 2]
        for victim in (0, 2, 1):
            self.ranks[victim].send_signal(signal.SIGSTOP)
            members.remove(victim)
            self.continue_as(members)
            self.ranks[victim].send_signal(signal.SIGCONT)
            members.append(victim)
            self.continue_as(members)
        self.stop_all(members)

    def test_a_worker_that_wakes_after_the_others_have_ended_ends(self):
        self.start_all(2)
        self.ranks[1].send_signal(signal.SIGSTOP)
        self.continue_as([0])
        self.ranks[1].send_signal(signal.SIGCONT)
        self.job.wait_for(self.ranks[0], "steps with: 0 1\n", 2)
        self.ranks[1].send_signal(signal.SIGSTOP)
        self.job.wait_for(self.ranks[0], "steps with: 0\n", 2)
        self.stop_all([0])
        self.ranks[1].send_signal(signal.SIGCONT)
        self.job.wait_for(self.ranks[1], "paused on worker 1")
        self.ranks[1].send_signal(signal.SIGTERM)
        self.assertEqual(self.job.ends(self.ranks[1]), 130)

    def test_workers_that_all_stop_and_wake_lose_nobody(self):
        self.start_all(3)
        for process in self.ranks:
            process.send_signal(signal.SIGSTOP)
        time.sleep(2 * self.silence / 1000)
        for process in self.ranks:
            process.send_signal(signal.SIGCONT)
        self.stop_all([0, 1, 2])
        for process in self.ranks:
            self.assertNotIn("lost worker", self.job.text(process))


@unittest.skipUnless(NAMESPACES, "namespaces are not permitted here")
class ElasticAcrossHosts(ElasticCase):
    def test_a_worker_that_is_cut_off_pauses_and_the_others_continue(self):
        with Network(4) as network:
            self.start_all(4, network)
            network.isolate(0)
            self.continue_as([1, 2, 3])
            self.job.wait_for(self.ranks[0], "paused on worker 0")
            self.assertNotIn("epoch 1 steps", self.job.text(self.ranks[0]))
            network.heal(0, [1, 2, 3])
            self.continue_as([1, 2, 3, 0])
            self.stop_all(range(4))

    def test_of_two_workers_that_cannot_reach_each_other_one_stays(self):
        with Network(4) as network:
            self.start_all(4, network)
            network.separate(2, 3)
            # Either: the one that notices first reports the other one as lost.
            self.job.wait_for(self.ranks[0], "epoch 1 steps with: 0 1 ")
            stays = 3 if "steps with: 0 1 3" in self.job.text(self.ranks[0]) else 2
            self.continue_as([0, 1, stays])
            # The other one does not disturb them, as long as it could not be in a group with all of them.
            other = 5 - stays
            self.job.wait_for(self.ranks[other], "it asks to be added")
            self.stop_all([0, 1, stays])
            network.heal(2, [3])
            self.assertEqual(self.job.ends(self.ranks[other]), 5)
            self.assertIn("have ended since", self.last_line(self.ranks[other]))


if __name__ == "__main__":
    if not NAMESPACES:
        print("namespaces are not permitted here: 15 tests skipped")
    unittest.main(verbosity=2)
