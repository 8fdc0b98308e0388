#!/usr/bin/env python3
"""How often the 80% interval of "expected gain of more steps" contains the measured gain.

Twelve real runs, each with a corpus, a model, a batch and a schedule drawn from --seed. Each is stopped,
its report is read, and it is continued to twice its steps. The report's intervals are then compared with
the validation losses of the continuation. Each horizon is counted by itself.

    python3 bench/observe/calibration.py --reigen build/release/reigen --work DIR --seed 1

With --refit nothing is trained again: the logs in DIR up to the stop are read by the current binary.
"""

import argparse
import json
import os
import random
import shutil
import subprocess

HORIZONS = [0.1, 0.5, 1.0]


def draw(rng):
    """The settings of one run."""
    width = rng.choice([32, 48, 64])
    layers = rng.choice([1, 2])
    every = rng.choice([40, 50, 60])
    stop = every * rng.choice([10, 20])  # a tenth more falls on an evaluation
    kind = rng.choice(["fixed", "noam", "inverse-polynomial", "exponential", "cosine"])
    rate = rng.choice([0.001, 0.002, 0.004])
    schedule = {"schedule.kind": kind, "schedule.warmup-steps": rng.choice([30, 100, 200])}
    if kind == "noam":
        schedule["schedule.factor"] = rng.choice([0.15, 0.3])
    else:
        schedule["schedule.rate"] = rate
    if kind == "exponential":
        schedule["schedule.decay-steps"] = stop
    if kind == "cosine":
        schedule["schedule.decay-steps"] = 3 * stop
    return {
        "corpus": {"pairs": rng.choice([3000, 10000, 40000]), "seed": rng.randrange(1000),
                   "vocab": rng.choice([300, 600, 1000])},
        "every": every,
        "stop": stop,
        "train": {"model.width": width, "model.heads": 4, "model.ffn-width": 2 * width,
                  "model.encoder-layers": layers, "model.decoder-layers": layers,
                  "batch.target-tokens": rng.choice([200, 400, 600]), "dropout": rng.choice([0, 0.1, 0.3]),
                  "seed": rng.randrange(1000), "eval.every": every, **schedule},
    }


def call(reigen, *args):
    done = subprocess.run([reigen, *map(str, args)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"reigen {' '.join(map(str, args))}: {done.stderr}")
    return done.stdout


def train(reigen, folder, plan):
    """Trains to the stop, saves the report that was written there, and continues to twice its steps."""
    text, data, run = (os.path.join(folder, name) for name in ("text", "data", "run"))
    corpus = plan["corpus"]
    call(reigen, "corpus", "--pairs", corpus["pairs"], "--valid-pairs", 200, "--test-pairs", 1,
         "--seed", corpus["seed"], "--output", text, "--quiet")
    call(reigen, "prepare", "--source", "en", "--target", "de", "--train", f"{text}/train.en",
         f"{text}/train.de", "--valid", f"{text}/valid.en", f"{text}/valid.de",
         "--vocab-size", corpus["vocab"], "--output", data, "--quiet")
    options = [part for name, value in plan["train"].items() for part in (f"--{name}", value)]
    call(reigen, "train", "--data", data, "--run", run, "--preset", "tiny", *options, "--no-eval.bleu",
         "--recipe", "classic", "--checkpoint.every", 10**6, "--threads", 1, "--quiet", "--max-steps", plan["stop"])
    shutil.copy(f"{run}/report.json", f"{folder}/stopped.json")
    call(reigen, "train", "--run", run, "--quiet", "--max-steps", 2 * plan["stop"])


def refit(reigen, folder, plan):
    """The report of the current binary on the log as it was at the stop."""
    stopped = f"{folder}/stopped"
    shutil.rmtree(stopped, ignore_errors=True)
    os.makedirs(f"{stopped}/measurements")
    shutil.copy(f"{folder}/run/config.yaml", stopped)
    with open(f"{folder}/run/measurements/rank-0.jsonl") as log, \
            open(f"{stopped}/measurements/rank-0.jsonl", "w") as cut:
        cut.writelines(line for line in log if json.loads(line)["step"] <= plan["stop"])
    call(reigen, "report", stopped)
    shutil.copy(f"{stopped}/report.json", f"{folder}/stopped.json")


def losses(folder):
    with open(f"{folder}/run/measurements/rank-0.jsonl") as log:
        records = [json.loads(line) for line in log]
    return {r["step"]: r["nll"] for r in records if r["kind"] == "evaluation"}


def compare(folder, plan):
    """For each horizon: expected gain, its interval, measured gain, whether it was inside."""
    with open(f"{folder}/stopped.json") as file:
        report = json.load(file)
    found = losses(folder)
    stop = plan["stop"]
    rows = []
    for gain in report["numbers"].get("expected_gains", []):
        later = stop + round(gain["more"] * stop)
        came = found[stop] - found[later]
        rows.append({**gain, "came": came, "holds": gain["low"] <= came <= gain["high"]})
    return {"verdict": report["verdicts"]["trained"]["verdict"], "loss": found[stop], "rows": rows}


def describe(plan):
    t = plan["train"]
    return (f"{t['schedule.kind']}, width {t['model.width']}, {t['model.encoder-layers']}+"
            f"{t['model.decoder-layers']} layers, {plan['corpus']['pairs']} pairs, dropout {t['dropout']}, "
            f"{plan['stop'] // plan['every']} evaluations")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reigen", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--refit", action="store_true")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    inside = {more: 0 for more in HORIZONS}
    counted = 0
    print("| run | loss at the stop | +10%: expected (80% interval), came | +50% | +100% |")
    print("| --- | --- | --- | --- | --- |")
    for number in range(options.runs):
        plan = draw(rng)
        folder = os.path.join(options.work, f"seed-{options.seed}-run-{number}")
        if options.refit:
            refit(options.reigen, folder, plan)
        elif not os.path.exists(f"{folder}/done"):
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            train(options.reigen, folder, plan)
            open(f"{folder}/done", "w").close()
        result = compare(folder, plan)
        cells = []
        for row in result["rows"]:
            inside[row["more"]] += row["holds"]
            cells.append(f"{row['gain']:.3f} ({row['low']:.3f} to {row['high']:.3f}), {row['came']:.3f}"
                         f"{'' if row['holds'] else ' **out**'}")
        counted += bool(result["rows"])
        print(f"| {describe(plan)} | {result['loss']:.3f} | {' | '.join(cells)} |", flush=True)
    print()
    for more in HORIZONS:
        print(f"+{100 * more:.0f}%: {inside[more]} of {counted} inside")


if __name__ == "__main__":
    main()
