#!/usr/bin/env python3
"""Two workers of which one has half the speed: the loss of --shares measured against the sum of their speeds.

    bench/dist/shares_bench.py --data DIR [--steps N] [--json FILE]

Each worker has a processor of its own; a busy loop beside the slow one takes half of it. First each trains alone, both
at once; then together, with equal and with measured shares. Target tokens per second over the second half of the steps.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
REIGEN = os.environ.get("REIGEN", os.path.join(HERE, "..", "..", "build", "release", "reigen"))
SLOW = 1  # the processor, and the rank on it


def arguments(a, run):
    return ["train", "--recipe", "classic", "--preset", a.preset, "--data", a.data, "--run", run, "--threads", "1",
            "--max-steps", a.steps, "--batch.target-tokens", a.tokens, "--eval.every", 0, "--eval.sentences", 1, "--quiet",
            "--checkpoint.every", 1000000, "--preflight", 1]


def start(a, cpu, run, *more, **env):
    command = ["taskset", "-c", cpu, REIGEN, *arguments(a, run), *more]
    return subprocess.Popen([str(c) for c in command], env={**os.environ, **env})


def wait(processes):
    for process in processes:
        if process.wait() != 0:
            sys.exit(f"a worker ended with status {process.returncode}")


def rate(run, steps):
    with open(f"{run}/measurements/rank-0.jsonl", encoding="utf-8") as f:
        records = [r for r in map(json.loads, f) if r["kind"] == "step" and r["step"] > steps // 2]
    return sum(r["target_tokens"] for r in records) / sum(r["seconds"] for r in records)


def together(a, cpus, folder, name, *more):
    run = f"{folder}/{name}"
    env = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(a.port)}
    wait([start(a, cpus[r], run, *more, **env, RANK=str(r), LOCAL_RANK=str(r)) for r in range(2)])
    return rate(run, a.steps)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", required=True)
    p.add_argument("--preset", default="small")
    p.add_argument("--tokens", type=int, default=2048)
    p.add_argument("--steps", type=int, default=160)
    p.add_argument("--port", type=int, default=29517)
    p.add_argument("--json")
    a = p.parse_args()
    cpus = sorted(os.sched_getaffinity(0))[:2]
    load = subprocess.Popen(["taskset", "-c", str(cpus[SLOW]), sys.executable, "-c", "while True: pass"])
    try:
        with tempfile.TemporaryDirectory() as folder:
            wait([start(a, cpus[r], f"{folder}/alone{r}") for r in range(2)])
            alone = [rate(f"{folder}/alone{r}", a.steps) for r in range(2)]
            equal = together(a, cpus, folder, "equal")
            measured = together(a, cpus, folder, "measured", "--shares", "measured")
            with open(f"{folder}/measured/measurements/rank-0.jsonl", encoding="utf-8") as f:
                changes = [r for r in map(json.loads, f) if r["kind"] == "shares"]
    finally:
        load.kill()
        load.wait()
    row = {"fast": alone[0], "slow": alone[1], "sum": sum(alone), "equal": equal, "measured": measured,
           "shares": changes[-1]["shares"] if changes else [], "changes": len(changes)}
    row["loss_equal"] = 1 - equal / row["sum"]
    row["loss_measured"] = 1 - measured / row["sum"]
    for key, value in row.items():
        print(f"{key:14} {value:,.3f}" if isinstance(value, float) else f"{key:14} {value}")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(row, f, indent=1)


if __name__ == "__main__":
    main()
