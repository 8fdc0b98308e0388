#!/usr/bin/env python3
"""Several workers against one, and the share of their communication hidden behind backward.

    bench/dist/workers_bench.py --data DIR [--steps N] [--rounds N] [--json FILE]

First one process with two threads against two processes with one thread each, alternating, so that other load
affects both equally. Then, where network namespaces are permitted, two workers across a link of 1 Gbit/s: hidden
communication, and the most that could be hidden. Medians over steps and rounds; the first steps are skipped.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "dist"))
from namespaces import Network, permitted  # noqa: E402

REIGEN = os.environ.get("REIGEN", os.path.join(HERE, "..", "..", "build", "release", "reigen"))
SKIPPED = 5


def arguments(a, run):
    return ["train", "--recipe", "classic", "--preset", a.preset, "--data", a.data, "--run", run,
            "--max-steps", a.steps, "--batch.target-tokens", a.tokens, "--eval.every", 0, "--eval.sentences", 1, "--quiet"]


def steps_of(run):
    with open(f"{run}/measurements/rank-0.jsonl", encoding="utf-8") as f:
        records = [json.loads(line) for line in f]
    return [r for r in records if r["kind"] == "step" and r["step"] > SKIPPED]


def rate(run):
    steps = steps_of(run)
    return statistics.median(r["target_tokens"] / r["seconds"] for r in steps)


def train(a, folder, name, *more):
    run = f"{folder}/{name}"
    subprocess.run([REIGEN, *map(str, arguments(a, run)), *map(str, more)], check=True)
    return run


def local(a, folder):
    rates = {"one worker, two threads": [], "two workers, one thread each": []}
    for i in range(a.rounds):
        rates["one worker, two threads"].append(rate(train(a, folder, f"one{i}", "--threads", 2)))
        two = train(a, folder, f"two{i}", "--threads", 1, "--workers", 2)
        rates["two workers, one thread each"].append(rate(two))
    return {name: statistics.median(values) for name, values in rates.items()}


def across(a, folder, link):
    run = f"{folder}/link"
    with Network(2, link) as network:
        workers = []
        for rank in range(2):
            env = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1,
                   "MASTER_ADDR": network.address(0), "MASTER_PORT": 29400,
                   "REIGEN_TOKEN": "0123456789abcdef0123456789abcdef"}
            command = network.command(rank, "env", *(f"{k}={v}" for k, v in env.items()), REIGEN,
                                      *arguments(a, run), "--threads", 1)
            workers.append(subprocess.Popen(command))
        if any(w.wait() != 0 for w in workers):
            sys.exit("a worker failed")
    steps = [r for r in steps_of(run) if "communication" in r]
    middle = lambda key: statistics.median(r["communication"][key] for r in steps)
    exposed = statistics.median(r["spans"]["communication"] for r in steps)
    return {"busy_s": middle("busy"), "hidden_s": middle("hidden"), "hideable_s": middle("hidden_at_best"),
            "exposed_s": exposed, "step_s": statistics.median(r["seconds"] for r in steps)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--link", default="1gbit")
    parser.add_argument("--json")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = {"local": local(a, folder)}
        one, two = result["local"].values()
        for name, value in result["local"].items():
            print(f"{name:<32} {value:8,.0f} target tok/s")
        print(f"{'two workers / one worker':<32} {two / one:8.0%}")
        if permitted():
            link = result["link"] = across(a, folder, a.link)
            print(f"\n{a.link}: step {link['step_s']:.3f} s, communication {link['busy_s']:.3f} s, exposed "
                  f"{link['exposed_s']:.3f} s; hidden {link['hidden_s']:.3f} s, at best {link['hideable_s']:.3f} s "
                  f"({link['hidden_s'] / max(link['hideable_s'], 1e-9):.0%})")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as out:
            json.dump(result, out, indent=2)


if __name__ == "__main__":
    main()
