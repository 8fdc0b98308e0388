"""The common parts of the cases of planted.py: a run in a folder, hosts, links, other work, and its report."""

import json
import os
import subprocess
import sys
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, "tests", "dist"))
sys.path.insert(0, os.path.join(SOURCE, "tests", "cli"))
import namespaces
from relay import Relay

# The two cores of every case, as numbers of this machine (--cores), and the command prefix of programs that may use
# both. Other cases may run beside, on other cores.
CORES = (0, 1)
ON_CORES = []
TOKEN = "0123456789abcdef0123456789abcdef"
MODEL = ["--preset", "tiny", "--recipe", "classic", "--schedule.kind", "fixed", "--schedule.rate", "0.002",
         "--schedule.warmup-steps", "10", "--eval.every", "0", "--no-eval.bleu", "--quiet"]
CASES = {}
ABOUT = {}
ALONE = set()  # cases that change figures of the whole host (memory pressure), or depend on its disk


class Skipped(Exception):
    """The machine does not permit what the case plants."""


def case(name, cause, alone=False, about="bottleneck"):
    """Registers a case: `cause` says what is planted, `about` which verdict the table shows (its key in report.json).
    Nothing runs beside a case that is `alone`."""
    def register(function):
        CASES[name] = (cause, function)
        ABOUT[name] = about
        if alone:
            ALONE.add(name)
        return function
    return register


def use_cores(text):
    """Two cores of this machine ("6,7") take the place of cores 0 and 1."""
    global CORES
    CORES = tuple(int(core) for core in text.split(","))
    ON_CORES[:] = ["taskset", "-c", text]


def on_this_machine(cores):
    """The numbers that cores of a case (0, "0-1") have on this machine."""
    ends = [int(core) for core in str(cores).split("-")]
    return ",".join(str(CORES[core]) for core in range(ends[0], ends[-1] + 1))


class Bench:
    """Starts the runs of one case and reads their report."""

    port = 29800
    device = "cpu"

    def __init__(self, reigen, data, folder, steps, real=""):
        self.reigen, self.data, self.folder, self.scale, self.real = reigen, data, folder, steps, real
        self.run = os.path.join(folder, "run")
        self.others = []
        self.started = []  # workers
        self.network = None

    def steps(self, count):
        """The number of steps of a run, shortened or lengthened by --scale."""
        return max(40, int(count * self.scale))

    def worker(self, *options, rank=0, size=1, cores=None, host=None, begin=None):
        Bench.port += 1 if rank == 0 else 0
        env = {**os.environ}
        if size > 1:
            place = self.network.address(0) if self.network else "127.0.0.1"
            env.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_PORT=str(Bench.port), MASTER_ADDR=place,
                       LOCAL_RANK="0" if self.network else str(rank),
                       LOCAL_WORLD_SIZE="1" if self.network else str(size))
            if self.network:
                env["REIGEN_TOKEN"] = TOKEN
        command = [self.reigen, "train", "--run", self.run, "--data", self.data, *MODEL, "--device", self.device,
                   *map(str, options)]
        if cores is not None:
            command = ["taskset", "-c", on_this_machine(cores), *command]
        else:
            command = [*ON_CORES, *command]
        if host is not None:
            command = self.network.command(host, *command)
        os.makedirs(self.folder, exist_ok=True)
        with open(os.path.join(self.folder, f"rank-{rank}.txt"), "a") as log:
            self.started.append(subprocess.Popen(command, env=env, stdout=log, stderr=log, preexec_fn=begin))
        return self.started[-1]

    def workers(self, *options, cores=None, size=2, network=False, begin=None):
        cores = cores or [None] * size
        return [self.worker(*options, rank=rank, size=size, cores=cores[rank], host=rank if network else None,
                            begin=begin[rank] if begin else None) for rank in range(size)]

    def hosts(self, rate=None):
        if not namespaces.permitted():
            raise Skipped("network namespaces are not permitted")
        self.network = namespaces.Network(2, rate=rate)

    def relayed_hosts(self):
        """Two hosts whose link can be impaired (latency, loss)."""
        if not namespaces.permitted():
            raise Skipped("network namespaces are not permitted")
        self.network = Relay()

    def shape(self, host, rate):
        """The outgoing rate of one host."""
        command = ["ip", "netns", "exec", self.network.names[host], "tc", "qdisc"]
        subprocess.run([*command, "del", "dev", "eth0", "root"], capture_output=True, check=False)
        subprocess.run([*command, "add", "dev", "eth0", "root", *rate.split()], check=True)

    def hog(self, cores):
        """A process that uses a core for as long as it is let."""
        self.others.append(subprocess.Popen(["taskset", "-c", on_this_machine(cores), sys.executable, "-c",
                                             "while True: pass"]))

    def last_step(self):
        try:
            with open(f"{self.run}/measurements/rank-0.jsonl") as file:
                steps = [line for line in file if line.startswith('{"kind":"step"') and line.endswith("\n")]
            return json.loads(steps[-1])["step"] if steps else 0
        except FileNotFoundError:
            return 0

    def at_step(self, step, processes):
        while self.last_step() < step:
            if any(p.poll() not in (None, 0) for p in processes):
                raise RuntimeError(f"a worker failed; see {self.folder}/rank-*.txt")
            time.sleep(0.05)

    def finish(self, processes, stopped=False):
        for process in processes:
            if process.wait(timeout=600) != 0 and not stopped:
                raise RuntimeError(f"a worker failed; see {self.folder}/rank-*.txt")
        with open(f"{self.run}/report.json") as file:
            return json.load(file)

    def end_others(self):
        for process in self.others:
            process.kill()
            process.wait()
        self.others = []

    def close(self):
        """Also after an error: nothing of this case may run beside the next one."""
        self.end_others()
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        if self.network:
            self.network.close()


def read_rows(path):
    """The rows that a call before has written to --json."""
    if not path or not os.path.exists(path):
        return []
    with open(path) as file:
        return json.load(file)


def save_rows(path, rows):
    """After each case, so that a call that is stopped loses only the case that it was at."""
    if path:
        with open(path, "w") as file:
            json.dump(rows, file, indent=1)


def write_result(options, title, program, setting, columns, rows):
    """A table as in bench/results; `columns`: key to head."""
    result = {"title": title, "machine": options.machine, "commit": options.commit, "date": time.strftime("%Y-%m-%d"),
              "program": program, "setting": setting,
              "columns": [{"key": key, "head": head} for key, head in columns.items()],
              "rows": [[row[key] for key in columns] for row in rows]}
    with open(options.result, "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


def add_output_options(parser):
    parser.add_argument("--work", help="folder for the runs, which is not removed")
    parser.add_argument("--json", help="file for all rows; rows of cases that are not run now stay in it")
    parser.add_argument("--result", help="file for the table, as in bench/results; of all rows in --json")
    parser.add_argument("--machine", default="two cores")
    parser.add_argument("--commit", default="")
    parser.add_argument("--scale", type=float, default=1, help="factor for the number of steps")
    parser.add_argument("--cores", help="the two cores of the runs, such as 6,7; 0,1 by default")
    parser.add_argument("--port", type=int, default=Bench.port, help="first TCP port of jobs of several workers")
    parser.add_argument("--list", action="store_true", help="print the names of all cases, and which of them run alone")
    parser.add_argument("--table", action="store_true", help="run nothing: write --result of the rows in --json")


def begin(options):
    """What these options ask for before the first case; false where that is all."""
    Bench.port = options.port
    if options.cores:
        use_cores(options.cores)
    if options.list:
        print(json.dumps([{"name": name, "cause": cause, "alone": name in ALONE, "about": ABOUT[name]}
                          for name, (cause, _) in CASES.items()]))
    return not (options.list or options.table)


def trained(report):
    return report["verdicts"]["trained"]


def bottleneck(report):
    return report["verdicts"]["bottleneck"]


def cause_is(report, *causes):
    return bottleneck(report)["cause"] in causes


def change_near(report, step, tolerance=0.1):
    """A change in the time of a step that made it longer, near the step at which the cause began."""
    last = report["numbers"]["steps"]
    return any(c["after"] > c["before"] and abs(c["step"] - step) <= tolerance * last + 5
               for c in bottleneck(report)["changes"])


def late(report):
    return {r["rank"]: r["reason"] for r in bottleneck(report)["late_ranks"]}


def times_add_up(report):
    t = report["numbers"]["time"]
    parts = [t[k] for k in ("steps", "evaluations", "stalls", "start_up", "repeated", "other")]
    return min(parts) >= 0 and abs(sum(parts) - t["wall"]) < 1e-3


def corpus(reigen, folder, pairs=40000, seed=1):
    """Text of the built-in corpus: train.en, train.de, valid.en, valid.de."""
    text = os.path.join(folder, "text")
    subprocess.run([*ON_CORES, reigen, "corpus", "--pairs", str(pairs), "--valid-pairs", "500", "--test-pairs", "1",
                    "--seed", str(seed), "--output", text, "--quiet", "--overwrite"], check=True)
    return text


def prepare(reigen, folder, text, vocabulary=2000, train=("train.en", "train.de"), valid=("valid.en", "valid.de"),
            more=()):
    """A dataset of text files, which are relative to `text` or absolute; `more` options of reigen prepare."""
    data = os.path.join(folder, "data")
    subprocess.run([*ON_CORES, reigen, "prepare", "--source", "en", "--target", "de",
                    "--train", *(os.path.join(text, name) for name in train),
                    "--valid", *(os.path.join(text, name) for name in valid), "--vocab-size", str(vocabulary),
                    "--output", data, "--quiet", "--overwrite", *more], check=True)
    return data
