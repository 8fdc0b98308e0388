"""Strangers on the network of a job, with the stock program and without the job's secret: they cannot join it, end it,
read it or change it. Through the real binary; tests/dist has the same for the parts."""

import os
import re
import socket
import subprocess
import sys
import time

import harness
import workers_test
from harness import free_port, run
from workers_test import TOKEN, Network, permitted

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dist"))
from middle import Middle, MiddleNetwork, inside, listening  # noqa: E402

SHORT = ["--max-steps", 10, "--eval.every", 0]

# Holds connections that say nothing, and opens a new one for each that is closed.
SILENT = """
import socket, sys, time
at, held = (sys.argv[1], int(sys.argv[2])), []
def closed(connection):
    try: return connection.recv(1) == b""
    except BlockingIOError: return False
    except OSError: return True
while True:
    try:
        while len(held) < 100:
            held.append(socket.create_connection(at, 1))
            held[-1].setblocking(False)
    except OSError: pass
    print("held", flush=True)
    time.sleep(0.01)
    held = [connection for connection in held if not closed(connection)]
"""

# Connects to every port of this machine as soon as it is listened on, with a frame of Gloo for a buffer that does not exist.
FIRST = """
import socket, struct, sys
print("ready", flush=True)
seen, held = set(), []
while True:
    with open("/proc/self/net/tcp") as table:
        listening = {line.split()[1] for line in table if line.split()[3] == "0A"}
    for place in listening - seen:
        seen.add(place)
        try:
            held.append(socket.create_connection(("127.0.0.1", int(place.split(":")[1], 16)), 1))
            if len(sys.argv) > 1: held[-1].sendall(struct.pack("<QQ", 112, 4) + bytes(96))
        except OSError: pass
    seen &= listening
"""


class StrangerCase(workers_test.WorkersCase):
    def setUp(self):
        super().setUp()
        if not permitted():
            self.skipTest("network namespaces are not permitted here")

    def rank(self, network, host, name, rank, size, port, *more, local=1, token=TOKEN, master=None, data=None,
             named=False):
        """A worker under the variables of torchrun; `named`: on a host with a name of its own."""
        env = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank % local, "LOCAL_WORLD_SIZE": local,
               "MASTER_ADDR": master or network.address(0), "MASTER_PORT": port}
        if token:
            env["REIGEN_TOKEN"] = token
        more = [*more, *(["--data", data] if data else [])]
        prefix = network.command(host, "env", *(f"{k}={v}" for k, v in env.items()))
        if named:
            prefix += ["unshare", "--uts", "sh", "-c", f'hostname vm{host} && exec "$@"', "sh"]
        return self.start(name, *more, prefix=prefix)

    def ended(self, *workers, within=60):
        """Exit codes and errors."""
        errors = [w.communicate(timeout=within)[1] for w in workers]
        return [w.returncode for w in workers], errors

    def script(self, network, host, program, *args):
        process = subprocess.Popen(network.command(host, sys.executable, "-c", program, *args),
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stdout.close()))
        return process

    def wait_for_listeners(self, network, host):
        deadline = time.time() + 30
        while not listening(network.names[host]):
            self.assertLess(time.time(), deadline, "nothing listens")
            time.sleep(0.01)
        return listening(network.names[host])


class Joining(StrangerCase):
    def test_a_job_of_one_machine_listens_on_loopback_only(self):
        with Network(2) as network:
            port = free_port()
            local = {"local": 2, "master": "127.0.0.1", "token": None}
            first = self.rank(network, 0, "run", 0, 2, port, *SHORT, **local)
            self.assertEqual({address for address, _ in self.wait_for_listeners(network, 0)}, {"127.0.0.1"})
            for _, at in self.wait_for_listeners(network, 0):
                with inside(network.names[1]), socket.socket() as stranger:
                    self.assertRaises(ConnectionRefusedError, stranger.connect, (network.address(0), at))
            second = self.rank(network, 0, "run", 1, 2, port, *SHORT, **local)
            codes, errors = self.ended(first, second)
            self.assertEqual(codes, [0, 0], errors)

    def test_a_guessed_token_does_not_join(self):
        with Network(2) as network:
            port = free_port()
            first = self.rank(network, 0, "run", 0, 2, port, *SHORT, local=2, master="127.0.0.1", token=None)
            self.wait_for_listeners(network, 0)
            # On the same machine, where the port can be reached: as a different user would, without the user's secret.
            name = f"torchrun 127.0.0.1 {port} none"
            strangers = [self.rank(network, 0, "run", 1, 2, port, *SHORT, local=2, master="127.0.0.1", token=guess)
                         for guess in (name, name.ljust(32))]
            time.sleep(2)  # they are first
            second = self.rank(network, 0, "run", 1, 2, port, *SHORT, local=2, master="127.0.0.1", token=None)
            codes, errors = self.ended(first)
            self.assertNotIn(0, [stranger.poll() for stranger in strangers])
            self.assertEqual(codes, [0], errors)
            self.assertEqual(self.ended(second)[0], [0])

    def test_several_hosts_without_a_secret_are_refused(self):
        with Network(2) as network:
            port = free_port()
            workers = [self.rank(network, r, "run", r, 2, port, *SHORT, token=None) for r in range(2)]
            codes, errors = self.ended(*workers)
            self.assertEqual(codes, [2, 2], errors)
            for error in errors:
                self.assertIn("REIGEN_TOKEN", error)


class Disturbing(StrangerCase):
    def test_silent_connections_do_not_keep_workers_out(self):
        with Network(2) as network:
            port = free_port()
            first = self.rank(network, 0, "run", 0, 2, port, *SHORT)
            for _, at in self.wait_for_listeners(network, 0):
                silent = self.script(network, 1, SILENT, network.address(0), at)
                self.assertEqual(silent.stdout.readline(), "held\n")
            second = self.rank(network, 1, "run", 1, 2, port, *SHORT)
            codes, errors = self.ended(first, second)
            self.assertEqual(codes, [0, 0], errors)

    def test_a_stranger_that_connects_first_does_not_end_the_job(self):
        for arguments in ((), ("junk",)):
            with Network(2) as network:
                racer = self.script(network, 0, FIRST, *arguments)
                self.assertEqual(racer.stdout.readline(), "ready\n")
                process = self.start(f"run{len(arguments)}", *SHORT, "--workers", 3, "--start-within", "30s",
                                     prefix=network.command(0))
                codes, errors = self.ended(process)
                self.assertEqual(codes, [0], errors)

    def test_two_workers_that_cannot_reach_each_other_are_named(self):
        with Network(3) as network:
            port = free_port()
            workers = [self.rank(network, r, "run", r, 3, port, "--max-steps", 100000, "--eval.every", 0,
                                 "--silence", "3s", "--stall", "10m") for r in range(3)]
            self.wait_for_step("run", 15, workers[0])
            network.separate(1, 2)
            codes, errors = self.ended(*workers)
            self.assertEqual(codes, [5, 5, 5], errors)
            self.assertTrue(any(re.search(r"rank 1\b.*rank 2\b|rank 2\b.*rank 1\b", e) for e in errors), errors)


class OnTheWay(StrangerCase):
    """Somebody between two hosts."""

    def job(self, name, change=None, after=0, *more):
        with MiddleNetwork(2) as network, Middle(network, change, after) as middle:
            port = free_port()
            workers = [self.rank(network, r, name, r, 2, port, "--max-steps", 30, "--eval.every", 0, *more,
                                 "--silence", "5s", "--stall", "10s") for r in range(2)]
            codes, errors = self.ended(*workers, within=90)
        return middle, codes, errors

    def test_bytes_that_are_changed_repeated_or_dropped_end_the_job(self):
        def flipped(data):
            if len(data) < 2000:
                return None
            middle = len(data) // 2
            return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1:]

        middle, codes, errors = self.job("passed")
        self.assertEqual(codes, [0, 0], errors)
        self.assertGreater(len(middle.seen), 1_000_000)
        changes = {"flipped": flipped, "dropped": lambda data: b""}
        if harness.TEST_ALL:
            changes |= {"repeated": lambda data: data + data, "cut": lambda data: data[:-1]}
        for name, change in changes.items():
            middle, codes, errors = self.job(name, change, 300_000)
            self.assertEqual(middle.changed, 1, name)
            self.assertEqual(codes, [5, 5], (name, errors))

    def test_the_name_of_a_sent_file_cannot_be_changed(self):
        change = lambda data: data.replace(b"valid.de", b"../pw.de") if b"valid.de" in data else None
        os.mkdir(self.path("in"))
        with MiddleNetwork(2) as network, Middle(network, change) as middle:
            port = free_port()
            workers = [self.rank(network, r, "run", r, 2, port, *SHORT, "--send-data", data=data, named=True)
                       for r, data in enumerate([self.data, self.path("in/sent")])]
            codes, errors = self.ended(*workers)
        self.assertFalse(os.path.exists(self.path("in/pw.de")))
        self.assertEqual(codes, [0, 0], errors)
        self.assertEqual(middle.changed, 0)

    def test_nothing_readable_is_on_the_way(self):
        with open(os.path.join(self.data, "vocab.model"), "rb") as file:
            known = file.read()[1000:1064]
        with MiddleNetwork(2) as network, Middle(network) as middle:
            port = free_port()
            workers = [self.rank(network, r, "run", r, 2, port, *SHORT, "--send-data", data=data)
                       for r, data in enumerate([self.data, self.path("sent")])]
            codes, errors = self.ended(*workers)
        self.assertNotIn(b'"kind"', bytes(middle.seen))
        self.assertNotIn(known, bytes(middle.seen))
        self.assertEqual(codes, [0, 0], errors)
        run("inspect", self.path("sent"), "--verify")


if __name__ == "__main__":
    harness.main()
