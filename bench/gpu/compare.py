#!/usr/bin/env python3
"""One GPU, one run, one table: the tests of every CUDA operation against its double-precision reference,
then the training step timed by operation, beside the same step in PyTorch.

    bench/gpu/compare.py [--build build/cuda] [--peers DIR] [--seed N] [--json FILE]

--peers names a folder with gpu_step.py (the step in PyTorch, eager and compiled) and gpu_floor.py (its
matrix products alone); without it only Reigen is measured. Exit status 1 when a test failed.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys

SMALL = ["--tokens", "1000", "1000", "--steps", "400"]


def run(command, **options):
    print("+", " ".join(command), flush=True)
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    return done.returncode, done.stdout


def step_time(build, *arguments):
    code, out = run([f"{build}/bench/step_time", *arguments, "--json"])
    if code != 0:
        sys.exit(f"step_time failed:\n{out}")
    return json.loads(out.strip().splitlines()[-1])


def number(pattern, text):
    found = re.search(pattern, text)
    return float(found.group(1).replace(",", "")) if found else None


def peer_steps(peers, budget=25000):
    """ms a step, source and target tokens a second: eager and compiled."""
    _, out = run([sys.executable, "gpu_step.py", str(budget)], cwd=peers)
    rows = {}
    for name in ("eager", "compile"):
        found = re.search(name + r"[^:]*: ([\d,]+) src\+tgt tok/s, ([\d,]+) tgt tok/s, ([\d.]+) ms", out)
        if found:
            rows[name] = {
                "tokens_per_second": float(found.group(1).replace(",", "")),
                "target_tokens_per_second": float(found.group(2).replace(",", "")),
                "ms_per_step": float(found.group(3)),
            }
    if "compile" in rows:
        rows["compile"]["peak_gib"] = number(r"max mem GiB ([\d.]+)", out)
    return rows


def table(rows):
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(str(cell).ljust(w) if i == 0 else str(cell).rjust(w) for i, (cell, w) in enumerate(zip(row, widths))))


def figures(name, r, against):
    ratio = f"{r['tokens_per_second'] / against:.2f}x" if against else "-"
    peak = f"{r['peak_gib']:.1f}" if r.get("peak_gib") else "-"
    return [name, f"{r['ms_per_step']:.2f}", f"{r['tokens_per_second']:,.0f}", ratio, peak]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/cuda")
    parser.add_argument("--peers")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--json")
    a = parser.parse_args()
    build = os.path.abspath(a.build)

    code, checks = run([f"{build}/tests/ops_tests", "--gtest_filter=*cuda*:GpuStep.*", "--gtest_brief=1"])
    print(checks)
    if "SKIPPED" in checks:
        sys.exit("there is no GPU to test")
    code_steps, steps = run([f"{build}/bench/step_time", "--seed", str(a.seed)])
    print(steps)
    base = step_time(build, "--seed", str(a.seed))
    small = step_time(build, "--seed", str(a.seed), *SMALL)
    result = {"seed": a.seed, "checks_passed": code == 0, "base": base, "small": small}
    peer, peer_small, floor = {}, {}, None
    if a.peers:
        _, out = run([sys.executable, "gpu_floor.py"], cwd=a.peers)
        floor = number(r"total ([\d.]+)", out)
        peer = peer_steps(a.peers)
        peer_small = peer_steps(a.peers, 1200)
        result.update({"peer": peer, "peer_small": peer_small, "floor_ms": floor})

    compiled = peer.get("compile", {}).get("tokens_per_second")
    eager_small = peer_small.get("eager", {}).get("tokens_per_second")
    rows = [["step", "ms", "src+tgt tok/s", "of the peer", "GiB"]]
    rows.append(figures("Reigen, base, 42,000 tokens", base, compiled))
    for name, r in peer.items():
        rows.append(figures(f"PyTorch, {name}", r, compiled))
    if floor:
        rows.append(["matrix products alone", f"{floor:.2f}", "-", "-", "-"])
    rows.append(figures("Reigen, base, 2,000 tokens", small, eager_small))
    for name, r in peer_small.items():
        rows.append(figures(f"PyTorch, {name}", r, eager_small))
    print()
    table(rows)
    print(f"\ntests {'passed' if code == 0 else 'FAILED'}; batches of seed {a.seed}")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as out:
            json.dump(result, out, indent=2)
    return 0 if code == 0 and code_steps == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
