#!/usr/bin/env python3
"""Whole training runs of two workers on two hosts, encrypted and in clear.

    bench/dist/encryption_bench.py --data DIR [--preset NAME] [--steps N] [--rounds N] [--json FILE]

The hosts are network namespaces connected directly, with and without a limit of 1 Gbit/s. Runs with `--encrypt on`
and `--encrypt off` alternate, the first of each pair in turn, so that other load affects both equally. The losses of
all runs must be equal to the bit. Medians over the steps of a run, then over runs, and the first decile of all steps,
which other load affects least; CPU time is that of both workers over all steps, the first ones included. `--json` writes rows for bench/results/encryption-runs.json.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "dist"))
from namespaces import Network, permitted  # noqa: E402

REIGEN = os.environ.get("REIGEN", os.path.join(HERE, "..", "..", "build", "release", "reigen"))
SKIPPED = 5  # steps at the start
LINKS = {"not shaped": None, "1 Gbit/s": "1gbit"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def train(a, network, run, encrypt):
    """The step records of rank 0, and the CPU seconds of both workers."""
    port = free_port()
    workers = []
    for rank in range(2):
        env = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1,
               "MASTER_ADDR": network.address(0), "MASTER_PORT": port,
               "REIGEN_TOKEN": "0123456789abcdef0123456789abcdef"}
        command = network.command(
            rank, "env", *(f"{k}={v}" for k, v in env.items()), REIGEN, "train", "--recipe", "classic",
            "--preset", a.preset, "--data", a.data, "--run", run, "--max-steps", a.steps, "--batch.target-tokens", a.tokens, "--eval.every", 0,
            "--eval.sentences", 1, "--threads", 1, "--compress", "none", "--encrypt", encrypt, "--quiet")
        workers.append(subprocess.Popen(command))
    cpu = 0
    for worker in workers:
        _, status, usage = os.wait4(worker.pid, 0)
        worker.returncode = os.waitstatus_to_exitcode(status)
        cpu += usage.ru_utime + usage.ru_stime
    if any(worker.returncode != 0 for worker in workers):
        sys.exit("a worker failed")
    with open(f"{run}/measurements/rank-0.jsonl", encoding="utf-8") as log:
        records = [json.loads(line) for line in log]
    start = next(r for r in records if r["kind"] == "start")
    expected = {"on": "TLS 1.3", "off": "none (--encrypt off)"}[encrypt]
    if start["encryption"] != expected:
        sys.exit(f"the run recorded encryption '{start['encryption']}', not '{expected}'")
    return [r for r in records if r["kind"] == "step"], cpu


def undisturbed(seconds):
    """The first decile of all steps: other load on the cores makes steps longer, never shorter."""
    return statistics.quantiles(seconds, n=10)[0]


def measure(a, folder, link, rate):
    seconds, waits, cpus, pooled = ({"on": [], "off": []} for _ in range(4))
    losses = set()
    with Network(2, rate) as network:
        for i in range(a.rounds):
            for encrypt in ("on", "off") if i % 2 == 0 else ("off", "on"):
                steps, cpu = train(a, network, f"{folder}/{rate}-{encrypt}{i}", encrypt)
                losses.add(tuple(r["loss"] for r in steps))
                steps = steps[SKIPPED:]
                seconds[encrypt].append(statistics.median(r["seconds"] for r in steps))
                waits[encrypt].append(statistics.median(r["spans"]["communication"] for r in steps))
                cpus[encrypt].append(cpu)
                pooled[encrypt] += [r["seconds"] for r in steps]
                print(f"{link}, {encrypt:>3}: step {seconds[encrypt][-1] * 1e3:7.1f} ms, exposed communication "
                      f"{waits[encrypt][-1] * 1e3:6.1f} ms, {cpu:5.1f} s of CPU", flush=True)
    if len(losses) != 1:
        sys.exit("encryption changed a loss")
    middle = lambda values, mode: statistics.median(values[mode])
    # Each pair of runs shares the load of its time; the median of their ratios is steadier than a ratio of medians.
    ratios = [on / off - 1 for on, off in zip(seconds["on"], seconds["off"], strict=True)]
    return [link, round(middle(seconds, "off") * 1e3, 1), round(middle(seconds, "on") * 1e3, 1),
            round(statistics.median(ratios) * 100, 1), round(min(ratios) * 100, 1), round(max(ratios) * 100, 1),
            round(undisturbed(pooled["off"]) * 1e3, 1), round(undisturbed(pooled["on"]) * 1e3, 1),
            round(middle(waits, "off") * 1e3, 1), round(middle(waits, "on") * 1e3, 1),
            round(middle(cpus, "off"), 1), round(middle(cpus, "on"), 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--link", choices=LINKS, help="this link only")
    parser.add_argument("--json")
    a = parser.parse_args()
    if not permitted():
        sys.exit("network namespaces are not permitted here: needs root")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for link, rate in LINKS.items():
            if a.link in (None, link):
                rows.append(measure(a, folder, link, rate))
                print(rows[-1], flush=True)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as out:
            json.dump(rows, out)


if __name__ == "__main__":
    main()
