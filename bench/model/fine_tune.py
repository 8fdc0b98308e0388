#!/usr/bin/env python3
"""Compares fine-tuning on a second domain (`train --from`) with training from nothing on it.

    bench/model/fine_tune.py --reigen build/release/reigen --work /tmp/ft --old europarl/train europarl/valid \
        --new multi30k/train multi30k/valid --base-steps 1500 --steps 400 --seeds 1 2 3 --mix 0.015 0.15

Each path is the part of a pair of files before .en and .de. One model is trained on the old domain, with its own
vocabulary. With each seed, the new domain is then trained in that vocabulary, with the same steps, rate and schedule, once
from that model and once from random weights. With --mix, the model is also trained on the new domain and a share of the
old one, by each of the weights. Printed as JSON: BLEU and loss on the new validation set, and on the old one.
"""

import argparse
import json
import os
import subprocess


def call(reigen, *args):
    done = subprocess.run([reigen, *map(str, args)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"reigen {' '.join(map(str, args))}: {done.stderr}")


def records(run, kind):
    with open(f"{run}/measurements/rank-0.jsonl") as log:
        return [r for r in map(json.loads, log) if r["kind"] == kind]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reigen", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--old", nargs=2, required=True, metavar=("TRAIN", "VALID"))
    parser.add_argument("--new", nargs=2, required=True, metavar=("TRAIN", "VALID"))
    parser.add_argument("--base-steps", type=int, default=1500)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--rate", type=float, default=0.001)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--mix", nargs="*", default=[], metavar="WEIGHT", help="weights of the old pairs in a mix")
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    place = lambda name: os.path.join(o.work, name)
    os.makedirs(o.work, exist_ok=True)

    def prepare(name, files, *more):
        if not os.path.exists(place(name)):
            (train, valid) = files
            call(o.reigen, "prepare", "--source", "en", "--target", "de", "--train", f"{train}.en", f"{train}.de",
                 "--valid", f"{valid}.en", f"{valid}.de", "--max-pieces", 100, *more, "--output", place(name),
                 "--quiet")

    common = ["--recipe", "classic", "--optimizer.kind", "adam", "--batch.target-tokens", 2000,
              "--eval.sentences", o.sentences, "--schedule.kind", "wsd", "--schedule.rate", o.rate,
              "--schedule.warmup-steps", o.warmup, "--threads", o.threads, "--quiet"]

    def train(name, *more):
        if not os.path.exists(place(name) + "/report.json"):
            call(o.reigen, "train", "--run", place(name), *common, *more)
        return place(name)

    prepare("old", o.old, "--vocab-size", o.vocab_size)
    base = train("base", "--preset", "tiny", "--data", place("old"), "--max-steps", o.base_steps, "--eval.every", 0)
    prepare("new", o.new, "--vocab", base)
    for weight in o.mix:
        # As a test set, the old validation pairs stay out of training.
        prepare(f"mix-{weight}", o.new, "--vocab", base, "--train", f"{o.old[0]}.en", f"{o.old[0]}.de", f"weight={weight}",
                "--test", f"{o.old[1]}.en", f"{o.old[1]}.de")
    rows = []
    for seed in o.seeds:
        steps = ["--data", place("new"), "--max-steps", o.steps, "--eval.every", 0, "--seed", seed]
        tuned = train(f"tuned-{seed}", "--from", base, *steps)
        fresh = train(f"fresh-{seed}", "--preset", "tiny", "--eval.old-data", place("old"), *steps)
        mixed = [(f"from the old domain, old pairs by {weight}",
                  train(f"mixed-{weight}-{seed}", "--from", base, "--eval.old-data", place("old"),
                        "--data", place(f"mix-{weight}"), *steps[2:])) for weight in o.mix]
        start = records(tuned, "starting_point")[-1]
        for name, run in (("from the old domain", tuned), ("from nothing", fresh), *mixed):
            last = records(run, "evaluation")[-1]
            rows.append([seed, name, *(round(last[key], 3) for key in ("bleu", "nll", "old_bleu", "old_nll"))])
    rows.append([0, "the old domain's model itself",
                 *(round(start[key], 3) for key in ("bleu", "nll", "old_bleu", "old_nll"))])
    print(json.dumps(rows, indent=1))


main()
