#!/usr/bin/env python3
"""Wall time of `reigen translate` on a GPU for 1, 100, 1,000 and 100,000 lines, beside a program that only opens
CUDA and cuBLASLt and copies the weights (bare_gpu.cpp).

    gpu_lines.py --model RUN --input TEXT [--reigen build/cuda/reigen] [--bare build/cuda/bench/bare_gpu]

Checks first that a line is translated the same among few and among many others, up to rounding, then prints medians
as a table and as a line of JSON."""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time

COUNTS = (1, 100, 1000, 100_000)
REPEATS = {1: 5, 100: 5, 1000: 5, 100_000: 2}


def seconds(*command):
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return time.monotonic() - start, done.stderr


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read().split("\n")[:-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", required=True, help="checkpoint")
    parser.add_argument("--input", required=True, help="text of at least 100,000 lines")
    parser.add_argument("--reigen", default="build/cuda/reigen")
    parser.add_argument("--bare", default="build/cuda/bench/bare_gpu")
    options = parser.parse_args()
    text = lines_of(options.input)[:max(COUNTS)]
    with tempfile.TemporaryDirectory() as folder:
        def translate(count):
            source, target = os.path.join(folder, f"{count}.in"), os.path.join(folder, f"{count}.out")
            with open(source, "w", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in text[:count])
            wall, notes = seconds(options.reigen, "translate", "--model", options.model, "--device", "cuda",
                                  "--input", source, "--output", target)
            found = re.search(r"lines? in .*?, ([\d,]+) tokens/s", notes)
            return wall, int(found[1].replace(",", "")), lines_of(target)

        few, many = translate(1000)[2], translate(max(COUNTS))[2]
        if (len(few), len(many)) != (1000, min(max(COUNTS), len(text))):
            raise SystemExit(f"{len(few)} and {len(many)} lines came back")
        same = sum(a == b for a, b in zip(few, many))
        if same < 900:
            raise SystemExit(f"only {same} of 1,000 lines are translated the same among 100,000 lines")
        weights = os.path.join(options.model, "model.safetensors")
        bare = statistics.median(seconds(options.bare, weights)[0] for _ in range(7))
        rows = []
        for count in COUNTS:
            runs = [translate(count) for _ in range(REPEATS[count])]
            wall = statistics.median(run[0] for run in runs)
            rows.append({"lines": count, "seconds": round(wall, 3), "beyond bare": round(wall - bare, 3),
                         "tokens/s": int(statistics.median(run[1] for run in runs))})
    print(f"bare program: {bare:.3f} s; {same} of 1,000 lines the same in both")
    print(f"{'lines':>8} {'seconds':>8} {'beyond':>8} {'tokens/s':>9}")
    for row in rows:
        print(f"{row['lines']:8,} {row['seconds']:8.3f} {row['beyond bare']:8.3f} {row['tokens/s']:9,}")
    print(json.dumps({"bare": round(bare, 3), "same": same, "rows": rows}))


main()
