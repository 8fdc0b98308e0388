"""Trains the runs of calibration.py side by side, one on each core, and keeps the log of each in one small archive.

An archive is complete or absent: a call that ends early, or is killed, goes on later with the runs that are missing.
Archives of several calls, seeds and machines may lie in one folder, and reports are made of them elsewhere.
"""

import collections
import io
import json
import multiprocessing
import os
import resource
import shutil
import sys
import tarfile
import tempfile
import time

import calibration_runs as runs

TICKS = os.sysconf("SC_CLK_TCK")
KEPT = ("config.yaml", "measurements/rank-0.jsonl", "measurements/manifest.json")  # of a run


def busy_seconds(core):
    """Time in which a core ran any process; None where the system does not tell."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            fields = next((line.split()[1:] for line in file if line.startswith(f"cpu{core} ")), None)
    except OSError:
        return None
    if not fields:
        return None
    user, nice, system, _, _, irq, soft = map(int, fields[:7])
    return (user + nice + system + irq + soft) / TICKS


def own_seconds():
    """CPU time of the programs that this process has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Pool:
    """Worker processes with a core each."""

    core = None  # of this process
    longest = None  # seconds of the longest run so far, of all workers
    end = None  # no run begins that may not be over by then

    @staticmethod
    def begin(cores, longest, end):
        Pool.core = cores.get()
        os.sched_setaffinity(0, {Pool.core})
        Pool.longest, Pool.end = longest, end


def train_one(task):
    """Trains a run and writes its archive; its name, or None where time is short."""
    options, name, plan = task
    if Pool.end is not None and time.monotonic() + Pool.longest.value > Pool.end:
        return None
    folder = os.path.join(options.work, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    begin, own = time.monotonic(), own_seconds()
    try:
        runs.train(options.reigen, folder, plan, options.real, lambda: Watch(Pool.core))
    except RuntimeError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return None
    facts = {"name": name, "plan": plan, "machine": options.machine, "date": time.strftime("%Y-%m-%d"),
             "cpu_seconds": own_seconds() - own, "others": Watch.others}
    write_archive(os.path.join(options.logs, f"{name}.tar.xz"), facts, f"{folder}/run")
    shutil.rmtree(folder)
    with Pool.longest.get_lock():
        Pool.longest.value = max(Pool.longest.value, time.monotonic() - begin)
    return name


class Watch:
    """Around the training of a run: the share of a core that other processes had."""

    others = None  # None: the system does not tell

    def __init__(self, core):
        self.core = core

    def __enter__(self):
        self.begin, self.own, self.busy = time.monotonic(), own_seconds(), busy_seconds(self.core)

    def __exit__(self, *_):
        busy = busy_seconds(self.core)
        if busy is None or self.busy is None:
            Watch.others = None
            return
        others = busy - self.busy - (own_seconds() - self.own)
        Watch.others = max(0.0, others) / max(1e-9, time.monotonic() - self.begin)


def write_archive(path, facts, run):
    with tarfile.open(f"{path}.partial", "w:xz", preset=3) as archive:
        text = json.dumps(facts).encode()
        entry = tarfile.TarInfo("facts.json")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
        for name in KEPT:
            archive.add(f"{run}/{name}", name)
    os.replace(f"{path}.partial", path)


def read_facts(path):
    with tarfile.open(path) as archive:
        return json.load(archive.extractfile("facts.json"))


def unpack(path, folder):
    """The log of an archive as FOLDER/run."""
    os.makedirs(f"{folder}/run/measurements", exist_ok=True)
    with tarfile.open(path) as archive:
        for name in KEPT:
            with open(f"{folder}/run/{name}", "wb") as file:
                shutil.copyfileobj(archive.extractfile(name), file)


def write_curves(path, archives):
    """The curves of runs as compact text, which gain_fit reads."""
    with open(path, "w", encoding="utf-8") as file:
        for archive in archives:
            facts = read_facts(archive)
            with tempfile.TemporaryDirectory() as folder:
                unpack(archive, folder)
                if runs.diverged(folder):
                    continue
                evaluations, rates = runs.read_curve(folder)
            file.write(f"{facts['name']} {facts['plan']['regime']} {len(evaluations)} {len(rates)}\n")
            for step, valid, train, bleu, epochs in evaluations:
                file.write(f"{step} {valid:.6g} {train:.6g} {bleu:.4g} {epochs:.5g}\n")
            file.write(" ".join(f"{rate:.4g}" for rate in rates) + "\n")


def costs(logs, names):
    """CPU seconds of each run by regime, of those of `names` that are there."""
    by_regime = collections.defaultdict(list)
    for name in names:
        path = os.path.join(logs, f"{name}.tar.xz")
        if os.path.exists(path):
            facts = read_facts(path)
            by_regime[facts["plan"]["regime"]].append(facts["cpu_seconds"])
    return by_regime


def print_costs(logs, plans, jobs):
    """What the runs that are there took, and what those that are missing are expected to take."""
    found = costs(logs, [name for name, _ in plans])
    every = [seconds for some in found.values() for seconds in some]
    left = 0.0
    for regime in dict.fromkeys(plan["regime"] for _, plan in plans):
        some = found.get(regime, [])
        missing = sum(p["regime"] == regime for _, p in plans) - len(some)
        mean = sum(some or every) / max(1, len(some or every))
        left += missing * mean
        if some:
            print(f"{regime}: {len(some)} runs, {mean:.1f} CPU-seconds each; {missing} are missing", file=sys.stderr)
    if every:
        print(f"all: {sum(every):.0f} CPU-seconds; about {left:.0f} are left, {left / jobs / 60:.1f} minutes on "
              f"{jobs} cores", file=sys.stderr)


def train_all(options, plans):
    """Trains the runs that are missing; False when time is over before all are trained."""
    os.makedirs(options.logs, exist_ok=True)
    os.makedirs(options.work, exist_ok=True)
    missing = [(options, name, plan) for name, plan in plans
               if not os.path.exists(os.path.join(options.logs, f"{name}.tar.xz"))]
    if not missing:
        return True
    available = sorted(os.sched_getaffinity(0))
    jobs = min(options.jobs or len(available), len(available))
    print_costs(options.logs, plans, jobs)
    cores = multiprocessing.Queue()
    for core in available[:jobs]:
        cores.put(core)
    longest = multiprocessing.Value("d", 0.0)
    end = time.monotonic() + 60 * options.minutes if options.minutes else None
    with multiprocessing.Pool(jobs, Pool.begin, (cores, longest, end)) as pool:
        trained = list(pool.imap_unordered(train_one, missing))
    print_costs(options.logs, plans, jobs)
    return None not in trained
