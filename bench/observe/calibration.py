#!/usr/bin/env python3
"""How often the report's predictions of loss and BLEU are right, and how often "high" is wrong.

Real runs of nine regimes (calibration_runs.py) are trained to their end, seconds each on one thread. The log of
each is cut at a random evaluation, the report is made of the part, and its 80% intervals and its verdicts are held
against the rest: one report for each run. The exit status is 1 where a limit of docs/design/verdicts.md is missed.

    python3 bench/observe/calibration.py --reigen build/release/reigen --work DIR --real DIR --seed 2

--real has folders with train.en and train.de (Multi30k, Europarl); regimes that need them are left out without it.
Runs that are in --work are not trained again. With --minutes it stops training in time, and the table is of the runs that
are there; the next call continues.
"""

import argparse
import collections
import concurrent.futures
import json
import math
import os
import shutil
import sys
import time

import calibration_runs as runs

HORIZONS = [0.1, 0.5, 1.0]
WORSE = 0.01  # share of the loss, as in the report
MIN_PREDICTED = 0.7
FEWEST = 5  # runs without a turn, in a regime in which most runs turn
MAX_WRONG_HIGH = 0.02


def train_all(options, plans):
    """Trains what is missing; False when time is over before all are trained."""
    end = time.monotonic() + 60 * options.minutes if options.minutes else math.inf

    def one(plan):
        folder, settings = plan
        if os.path.exists(f"{folder}/done"):
            return True
        if time.monotonic() > end:
            return False
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        runs.train(options.reigen, folder, settings, options.real)
        open(f"{folder}/done", "w").close()
        return True

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        return all(list(pool.map(one, plans)))


def report_at(reigen, folder, stop):
    """The report of the log up to a step."""
    cut = f"{folder}/cut"
    shutil.rmtree(cut, ignore_errors=True)
    os.makedirs(f"{cut}/measurements")
    shutil.copy(f"{folder}/run/config.yaml", cut)
    shutil.copy(f"{folder}/run/measurements/manifest.json", f"{cut}/measurements")
    with open(f"{folder}/run/measurements/rank-0.jsonl", encoding="utf-8") as log, \
            open(f"{cut}/measurements/rank-0.jsonl", "w", encoding="utf-8") as part:
        part.writelines(line for line in log if json.loads(line)["step"] <= stop)
    report = json.loads(runs.call(reigen, "report", cut, "--json"))
    shutil.rmtree(cut)
    return report


def at(points, step):
    """A value between two evaluations; None after the last."""
    for (a, before), (b, after) in zip(points, points[1:]):
        if a <= step <= b + 0.5:
            return before + (after - before) * (step - a) / (b - a)
    return None


def compare(options, folder, plan):
    """A report against what came of its run."""
    evaluations, _ = runs.read_curve(folder)
    stop = plan["stop"]
    report = report_at(options.reigen, folder, stop)
    loss = [(e[0], e[1]) for e in evaluations]
    bleu = [(e[0], e[3]) for e in evaluations]
    ends = plan["train"]["schedule.kind"] == "wsd"  # the run ends with its decay

    def tally(gains, points, sign):
        rows = []
        for gain in gains:
            later = at(points, stop * (1 + gain["more"]))
            if later is None and ends:
                later = points[-1][1]
            if later is None:
                continue
            came = sign * (dict(points)[stop] - later)
            rows.append({**gain, "came": came, "inside": gain["low"] <= came <= gain["high"]})
        return rows

    before = [v for s, v in loss if s <= stop]
    after = [(s, v) for s, v in loss if s > stop]
    numbers = report["numbers"]
    return {"regime": plan["regime"], "run": os.path.basename(folder), "stop": stop, "loss": before[-1],
            "bend": min(v for _, v in loss) * (1 + WORSE) < loss[-1][1],
            "over": report["verdicts"]["trained"]["answer"] == "schedule-over",
            "gains": tally(numbers.get("expected_gains", []), loss, 1),
            "bleu": tally(numbers.get("expected_bleu_gains", []), bleu, -1),
            "trained": report["verdicts"]["trained"], "overfitting": report["verdicts"]["overfitting"],
            "wrong": [name for name, is_wrong in wrong_verdicts(report["verdicts"], before, after, stop) if is_wrong]}


def wrong_verdicts(verdicts, before, after, stop):
    """(verdict, whether it was wrong) for each verdict on learning with confidence high."""
    now, best = before[-1], min(before)
    half = [v for s, v in after if s <= 1.5 * stop + 0.5]
    lowest = min(v for _, v in after)
    judged = []
    trained, overfitting = verdicts["trained"], verdicts["overfitting"]
    if trained["confidence"] == "high":
        wrong = {"improving": half[-1] >= now,
                 "yes": min(half) < now * (1 - WORSE),
                 "past-its-best": lowest < best * (1 - WORSE),
                 "getting-worse": lowest < best * (1 - WORSE),
                 "schedule-over": max(abs(v - now) for _, v in after) > WORSE * now,
                 "useless": lowest < best * 0.9}
        judged.append((f"trained: {trained['answer']}", wrong[trained["answer"]]))
    if overfitting["confidence"] == "high":
        wrong = {"yes": lowest < best * (1 - WORSE),  # it was to become better still
                 "no": lowest > best * (1 + WORSE)}   # it had turned
        judged.append((f"overfitting: {overfitting['answer']}", wrong[overfitting["answer"]]))
    return judged


def binomial_interval(inside, count):
    """Clopper and Pearson, 95%."""
    def tail(p, least):
        return sum(math.comb(count, k) * p**k * (1 - p)**(count - k) for k in range(least, count + 1))

    def solve(condition):
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if condition(middle) else (low, middle)
        return low

    low = 0.0 if inside == 0 else solve(lambda p: tail(p, inside) < 0.025)
    high = 1.0 if inside == count else solve(lambda p: 1 - tail(p, inside + 1) > 0.025)
    return low, high


def coverage(rows, kind, more):
    found = [row["inside"] for result in rows for row in result[kind] if row["more"] == more]
    return sum(found), len(found)


def cell(inside, count):
    if count == 0:
        return ""
    low, high = binomial_interval(inside, count)
    return f"{inside} of {count} ({100 * low:.0f} to {100 * high:.0f}%)"


def summarise(results):
    """Rows of the table and the limits that are missed."""
    rows, missed = [], []
    by_regime = collections.defaultdict(list)
    for result in results:
        by_regime[result["regime"]].append(result)
    for regime, some in [*by_regime.items(), ("all", results)]:
        straight = [r for r in some if not r["bend"] and not r["over"]]
        given = sum(bool(r["gains"]) for r in straight)
        high = sum((r["trained"]["confidence"] == "high") + (r["overfitting"]["confidence"] == "high") for r in some)
        wrong = sum(len(r["wrong"]) for r in some)
        row = [regime, len(some), sum(r["bend"] for r in some), f"{given} of {len(straight)}"]
        for kind in ("gains", "bleu"):
            for more in HORIZONS:
                inside, count = coverage(some, kind, more)
                row.append(cell(inside, count))
                low, high_end = binomial_interval(inside, count) if count else (0, 1)
                if not low <= 0.8 <= high_end:
                    name = "BLEU" if kind == "bleu" else "loss"
                    missed.append(f"{regime}: {name}: {inside} of {count} at +{100 * more:.0f}%")
        rows.append([*row, f"{wrong} of {high}"])
        if len(straight) >= FEWEST and given < MIN_PREDICTED * len(straight):
            missed.append(f"{regime}: a prediction for {given} of {len(straight)} runs without a bend")
    if sum(len(r["wrong"]) for r in results) > MAX_WRONG_HIGH * 2 * len(results):
        missed.append("verdicts with confidence high that were wrong")
    return rows, missed


COLUMNS = [("regime", "regime"), ("runs", "runs"), ("bend", "turn"), ("given", "predicted, of runs without a turn"),
           *[(f"plus{100 * m:.0f}", f"loss +{100 * m:.0f}%") for m in HORIZONS],
           *[(f"bleu{100 * m:.0f}", f"BLEU +{100 * m:.0f}%") for m in HORIZONS], ("high", "high and wrong")]


def write_result(options, results, rows):
    result = {"title": "How often what came was inside the predicted 80% interval, by regime",
              "machine": options.machine, "commit": options.commit, "date": time.strftime("%Y-%m-%d"),
              "program": "bench/observe/calibration.py",
              "setting": f"Seed {options.seed}: {len(results)} runs of seconds each, their logs cut at a random "
                         "evaluation, one report for each. In brackets the 95% interval of the share. "
                         "High and wrong: of the verdicts on learning with confidence high.",
              "columns": [{"key": key, "head": head} for key, head in COLUMNS], "rows": rows}
    with open(options.result, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reigen", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--real", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=30, help="of each regime")
    parser.add_argument("--regimes", default=",".join(runs.REGIMES))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--curves", help="file for the curves of the runs, for gain_fit")
    parser.add_argument("--result", help="file for the table, as in bench/results")
    parser.add_argument("--details", help="file for every report and what came")
    parser.add_argument("--machine", default="two cores")
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    folders = sorted(os.listdir(options.real)) if options.real else []
    regimes = [r for r in options.regimes.split(",") if folders or r not in runs.NEED_TEXT]
    plans = []
    for number in range(options.runs):
        for regime in regimes:
            folder = os.path.join(options.work, f"{options.seed}-{regime}-{number}")
            plans.append((folder, runs.draw(options.seed, regime, number, folders)))
    complete = train_all(options, plans)
    drawn = len(plans)
    plans = [plan for plan in plans if os.path.exists(f"{plan[0]}/done")]
    lost = [folder for folder, _ in plans if runs.diverged(folder)]
    if lost:
        print(f"diverged and left out: {' '.join(map(os.path.basename, lost))}", file=sys.stderr)
    plans = [plan for plan in plans if plan[0] not in lost]
    if options.curves:
        runs.write_curves(options.curves, [(os.path.basename(f), p["regime"], f) for f, p in plans])
        return
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda plan: compare(options, *plan), plans))
    results.sort(key=lambda r: regimes.index(r["regime"]))
    rows, missed = summarise(results)
    print("| " + " | ".join(head for _, head in COLUMNS) + " |")
    print("|" + " --- |" * len(COLUMNS))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    for result in results:
        for name in result["wrong"]:
            print(f"wrong: {result['run']} at step {result['stop']}: {name}")
    if options.details:
        with open(options.details, "w", encoding="utf-8") as file:
            json.dump(results, file)
    if options.result:
        write_result(options, results, rows)
    if missed:
        sys.exit("missed: " + "; ".join(missed))
    if not complete:
        sys.exit(f"{len(plans)} of {drawn} runs are trained; call it again for the others")


if __name__ == "__main__":
    main()
