"""An elastic job whose workers a test starts, stops, kills and cuts off, and what must hold after it.

The workers are started by the variables of `--workers` and `--hosts` (docs/environment.md), so that no launcher
reacts to their end. Each may be in a network namespace of its own (tests/dist/namespaces.py).
"""

import json
import os
import re
import signal
import socket
import subprocess
import time

TOKEN = "0123456789abcdef0123456789abcdef"
TOLERANCE = 1e-4  # of a loss, relative to that of an undisturbed run


class Broken(AssertionError):
    """Something that must hold does not."""


def steps_in(run):
    """The step records of a run, in the order of the log; a line that is being written is left out."""
    path = os.path.join(run, "measurements/rank-0.jsonl")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as log:
        lines = [line for line in log if line.endswith("\n")]
    return [json.loads(line) for line in lines if '"kind":"step"' in line]


def all_records_in(run):
    with open(os.path.join(run, "measurements/rank-0.jsonl"), encoding="utf-8") as log:
        return [json.loads(line) for line in log if line.endswith("\n")]


def records_in(run, kind):
    return [r for r in all_records_in(run) if r["kind"] == kind]


class ElasticJob:
    """`workers` processes of one job; `arguments` are those of all of them, without --elastic. `prefixes`: what
    the command of a worker begins with, by number. `clocks`: their wall clocks can jump (skew.Clocks)."""

    def __init__(self, reigen, arguments, run, workers, network=None, prefixes=None, clocks=None):
        self.reigen = reigen
        self.arguments = arguments
        self.run = run
        self.network = network
        self.prefixes = prefixes or {}
        self.clocks = clocks
        self.workers = {}
        self.stopped = set()
        self.outputs = {}
        self.earlier = ""  # output of workers before a restart
        self.start(workers)

    def start(self, workers):
        # Namespaces have ports of their own; on loopback rank 0 inherits a socket, so that no port is taken twice.
        network = self.network
        listener = None if network else socket.create_server(("127.0.0.1", 0), backlog=64)
        if listener:
            listener.setblocking(False)
        at = f"{network.address(0)}:29400" if network else f"127.0.0.1:{listener.getsockname()[1]}"
        for rank in range(workers):
            inherited = [listener.fileno()] if listener and rank == 0 else []
            environment = {
                **os.environ, "REIGEN_RANK": str(rank), "REIGEN_SIZE": str(workers), "REIGEN_TOKEN": TOKEN,
                "REIGEN_RENDEZVOUS": at, "REIGEN_LAUNCH_DEPTH": "1",
                "REIGEN_LOCAL_RANK": str(0 if network else rank),
                "REIGEN_LOCAL_SIZE": str(1 if network else workers),
                "REIGEN_HOSTS": ",".join(f"h{i}" for i in range(workers)) if network else "",
                **{"REIGEN_LISTEN_FD": str(fd) for fd in inherited},
                **(self.clocks.variables(rank) if self.clocks else {})}
            output = open(f"{self.run}.worker-{rank}.txt", "w+", encoding="utf-8")
            command = [*self.prefixes.get(rank, []), self.reigen, "train", *map(str, self.arguments), "--run", self.run,
                       "--elastic"]
            self.workers[rank] = subprocess.Popen(
                network.command(rank, *command) if network else command, env=environment, stdout=output, stderr=output,
                stdin=subprocess.DEVNULL, pass_fds=inherited)
            self.outputs[rank] = output
        if listener:
            listener.close()

    def restart(self, workers):
        """Ends all workers; as many as given resume from the last checkpoint. Returns when they train."""
        attempts = len(records_in(self.run, "start"))
        self.close()
        self.earlier += self.all_output() + "\n--- restart\n"
        self.workers, self.outputs, self.stopped = {}, {}, set()
        self.start(workers)
        deadline = time.monotonic() + 120
        while len(records_in(self.run, "start")) == attempts:
            if not self.alive() or time.monotonic() > deadline:
                raise Broken(f"the job does not start again\n{self.all_output()}")
            time.sleep(0.02)

    def join(self, number, *arguments, token=TOKEN, host=None):
        """Starts one more process, which asks to be added, at the address that the log names. `host`: its namespace."""
        with open(os.path.join(self.run, "log.txt"), encoding="utf-8") as log:
            at = re.findall(r"`reigen join (\S+)`", log.read())[-1]
        command = [self.reigen, "join", at, *map(str, arguments)]
        output = open(f"{self.run}.worker-{number}.txt", "w+", encoding="utf-8")
        self.workers[number] = subprocess.Popen(
            self.network.command(host, *command) if self.network else command,
            env={**os.environ, "REIGEN_TOKEN": token}, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        self.outputs[number] = output

    def output(self, rank):
        with open(self.outputs[rank].name, encoding="utf-8", errors="replace") as text:
            return text.read()

    def all_output(self):
        return self.earlier + "\n".join(f"--- worker {rank} (exit {process.poll()}):\n{self.output(rank)}"
                         for rank, process in self.workers.items())

    def alive(self):
        return [rank for rank, process in self.workers.items() if process.poll() is None]

    # Faults. Each is without effect on a worker that has ended.

    def _signal(self, rank, number):
        if self.workers[rank].poll() is None:
            self.workers[rank].send_signal(number)

    def kill(self, rank):
        self._signal(rank, signal.SIGKILL)

    def drain(self, rank):
        self._signal(rank, signal.SIGTERM)

    def stop(self, rank):
        self.stopped.add(rank)
        self._signal(rank, signal.SIGSTOP)

    def resume(self, rank):
        self.stopped.discard(rank)
        self._signal(rank, signal.SIGCONT)

    # Progress.

    def changes(self):
        """The records of the memberships of the last attempt."""
        found = []
        for record in all_records_in(self.run):
            if record["kind"] == "start":
                found = []
            elif record["kind"] == "membership":
                found.append(record)
        return found

    def last_step(self):
        steps = steps_in(self.run)
        return steps[-1]["step"] if steps else 0

    def wait_for_step(self, step, within=120):
        deadline = time.monotonic() + within
        while self.last_step() < step:
            if not self.alive():
                raise Broken(f"all workers ended before step {step}\n{self.all_output()}")
            if time.monotonic() > deadline:
                raise Broken(f"step {step} was not reached within {within} s\n{self.all_output()}")
            time.sleep(0.01)

    def wait(self, ranks=None, within=180):
        """Waits for workers to end, all by default; their exit codes by rank."""
        deadline = time.monotonic() + within
        for rank in self.workers if ranks is None else ranks:
            try:
                self.workers[rank].wait(max(0.01, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise Broken(f"worker {rank} did not end within {within} s\n{self.all_output()}") from None
        return {rank: process.poll() for rank, process in self.workers.items()}

    def close(self):
        for process in self.workers.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        for output in self.outputs.values():
            output.close()

    # What must hold.

    def check_steps(self, reference, last, tolerance=TOLERANCE):
        """Every step is in the log once, and its loss is that of the undisturbed run."""
        steps = steps_in(self.run)
        numbers = [r["step"] for r in steps]
        if numbers != list(range(1, last + 1)):
            wrong = [n for n in range(1, last + 1) if numbers.count(n) != 1]
            raise Broken(f"steps in the log {len(numbers)}, wanted {last}; not there once: {wrong[:20]}\n"
                         f"{self.all_output()}")
        for record in steps:
            wanted = reference[record["step"]]
            off = abs(record["loss"] - wanted) / wanted
            if not off <= tolerance:
                raise Broken(f"step {record['step']}: loss {record['loss']}, wanted {wanted}\n{self.all_output()}")

    def check_last_checkpoint(self, last):
        """The run directory has the state after the last step."""
        found = os.readlink(os.path.join(self.run, "last"))
        if int(found[-8:]) != last:
            raise Broken(f"the last checkpoint is {found}, wanted step {last}\n{self.all_output()}")

    def check_ended(self):
        if self.alive():
            raise Broken(f"workers {self.alive()} are alive\n{self.all_output()}")


def reference_losses(reigen, arguments, run):
    """Losses by step of a single worker to which nothing happens."""
    done = subprocess.run([reigen, "train", *map(str, arguments), "--run", run], capture_output=True, text=True,
                          check=False, timeout=600)
    if done.returncode != 0:
        raise Broken(f"the undisturbed run ended with {done.returncode}: {done.stderr}")
    return {r["step"]: r["loss"] for r in steps_in(run)}
