#!/usr/bin/env python3
"""All-reduce against a raw TCP stream of the same bytes, over a shaped link between namespaces.

Needs root. Prints a table and, with --json FILE, writes the measurements. An all-reduce between two
machines sends the buffer once each way, so the ratio can reach 1; among n machines it sends it
2 (n - 1) / n times. With --flat, ranks do not know which of them share a machine.
"""

import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../tests/dist"))
from namespaces import Network, permitted  # noqa: E402

BINARY = os.path.join(HERE, "../../build/release/bench/link_bench")


def measure(rate, machines, on_each, flat, encrypt, sizes):
    ranks = machines * on_each
    with Network(machines, rate) as network:
        at = f"{network.address(0)}:4711"
        processes = [
            subprocess.Popen(network.command(r % machines, BINARY, r, ranks,
                                             f"rank{r}" if flat else f"vm{r % machines}", at,
                                             encrypt, *sizes),
                             stdout=subprocess.PIPE, text=True)
            for r in range(ranks)
        ]
        lines = [process.communicate(timeout=600)[0] for process in processes]
        if any(process.returncode != 0 for process in processes):
            sys.exit("a rank failed")
        return [{"rate": rate or "unshaped", "machines": machines, "flat": flat, **json.loads(line)}
                for line in lines[0].splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", nargs="*", default=["100mbit", "1gbit", "none"])
    parser.add_argument("--sizes", nargs="*", type=float, default=[1, 4, 16, 64])
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--on-each", type=int, default=1, help="ranks on each machine")
    parser.add_argument("--flat", action="store_true")
    parser.add_argument("--encrypt", nargs="*", default=["off", "auto"])
    parser.add_argument("--json")
    options = parser.parse_args()
    if not permitted():
        print("network namespaces are not permitted here: nothing was measured")
        return
    rows = []
    print("rate       encrypt ranks     MB   stream MB/s   all-reduce MB/s   of stream   bf16 MB/s")
    machines = options.machines
    for rate, encrypt in ((r, e) for r in options.rates for e in options.encrypt):
        for row in measure(None if rate == "none" else rate, machines, options.on_each,
                           options.flat, encrypt, options.sizes):
            row["encrypt"] = encrypt
            carried = row["megabytes"] * 2 * (machines - 1) / machines
            stream = row["megabytes"] / row["stream_seconds"]
            row["of_stream"] = carried / row["fp32_seconds"] / stream
            rows.append(row)
            print(f"{row['rate']:<10} {encrypt:>7} {row['ranks']:>5} {row['megabytes']:>6g} {stream:>13.1f}"
                  f" {carried / row['fp32_seconds']:>17.1f} {100 * row['of_stream']:>10.1f}%"
                  f" {carried / row['bf16_seconds']:>11.1f}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=2)


if __name__ == "__main__":
    main()
