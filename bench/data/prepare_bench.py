#!/usr/bin/env python3
"""Cleaning and encoding compared with SentencePiece's own spm_encode, on the same files and model.

    bench/data/prepare_bench.py [--source A.en --target A.de] [--vocab M.model] [--repeat 5]

Checks first that both return the same number of pieces, then alternates the two and reports medians.
Without files it uses the built-in corpus, whose few distinct words favour any cache: use real text
for a result worth quoting.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REIGEN = os.environ.get("REIGEN", os.path.join(ROOT, "build/release/reigen"))
LANGUAGES = ["--source", "en", "--target", "de"]


def timed(command, **kwargs):
    start = time.perf_counter()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, **kwargs)
    return time.perf_counter() - start


def spm_encode(files, model, out):
    seconds = 0
    for index, path in enumerate(files):
        with open(f"{out}.{index}", "wb") as ids:
            seconds += timed(["spm_encode", "--model", model, "--output_format", "id", path],
                             stdout=ids)
    return seconds


def prepare(files, model, out, *extra):
    return timed([REIGEN, "prepare", *LANGUAGES, "--train", *files, "--vocab", model, "--overwrite",
                  "--quiet", "--output", out, *extra])


def count_words(path):
    with open(path, "rb") as file:
        return sum(len(line.split()) for line in file)


def check(files, model, work):
    """With every rule off, our pieces must be spm_encode's."""
    spm_encode(files, model, f"{work}/ids")
    off = [f"--no-clean.{rule}" for rule in ("nfkc", "whitespace", "control", "utf8", "empty", "copy",
                                             "heldout", "duplicate")]
    prepare(files, model, f"{work}/check", *off, "--clean.max-ratio=0", "--clean.min-script=0",
            "--clean.max-pieces=0", "--clean.min-pieces=0")
    with open(f"{work}/check/manifest.json") as file:
        train = json.load(file)["train"][0]
    ours = [train[side]["pieces"] for side in ("source", "target")]
    theirs = [count_words(f"{work}/ids.{index}") for index in range(2)]
    if ours != theirs:
        sys.exit(f"pieces differ: reigen {ours}, spm_encode {theirs}")
    return sum(ours)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source")
    parser.add_argument("--target")
    parser.add_argument("--vocab")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", help="also write the figures to this file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reigen-bench-") as work:
        files = [args.source, args.target]
        if not args.source:
            subprocess.run([REIGEN, "corpus", "--pairs", "200000", "--output", f"{work}/text",
                            "--quiet"], check=True)
            files = [f"{work}/text/train.en", f"{work}/text/train.de"]
        model = args.vocab
        if not model:
            subprocess.run([REIGEN, "prepare", *LANGUAGES, "--train", *files, "--vocab-size", "4000",
                            "--quiet", "--output", f"{work}/vocab"], check=True)
            model = f"{work}/vocab/vocab.model"
        pieces = check(files, model, work)
        megabytes = sum(os.path.getsize(path) for path in files) / 1e6
        cases = {
            "spm_encode, both files": lambda: spm_encode(files, model, f"{work}/ids"),
            "reigen prepare, 1 thread": lambda: prepare(files, model, f"{work}/d", "--threads", "1"),
            "reigen prepare, all cores": lambda: prepare(files, model, f"{work}/d"),
        }
        seconds = {name: [] for name in cases}
        for _ in range(args.repeat):
            for name, case in cases.items():
                seconds[name].append(case())
    peer = statistics.median(seconds["spm_encode, both files"])
    rows = []
    for name, values in seconds.items():
        median = statistics.median(values)
        rows.append({"what": name, "median_s": round(median, 3), "min_s": round(min(values), 3),
                     "mb_per_s": round(megabytes / median, 2), "pieces_per_s": round(pieces / median),
                     "times_peer": round(peer / median, 2)})
    print(f"{megabytes:.1f} MB, {pieces:,} pieces, the same from both; {args.repeat} runs each")
    print(f"{'':<28}{'median s':>10}{'min s':>9}{'MB/s':>9}{'x spm_encode':>14}")
    for row in rows:
        print(f"{row['what']:<28}{row['median_s']:>10.2f}{row['min_s']:>9.2f}"
              f"{row['mb_per_s']:>9.2f}{row['times_peer']:>14.2f}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"megabytes": megabytes, "pieces": pieces, "rows": rows}, file, indent=2)


if __name__ == "__main__":
    main()
