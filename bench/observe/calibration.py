#!/usr/bin/env python3
"""How often the report's predictions of loss and BLEU are right, and how often "high" is wrong.

Real runs of ten regimes (calibration_runs.py) are trained to their end, seconds each on one core, and their logs are
kept in --logs, one archive each. A log is cut at a random evaluation, the report is made of the part, and its 80%
intervals and its verdicts are held against the rest: one report for each run. The exit status is 1 where a limit of
docs/design/verdicts.md is missed.

    python3 bench/observe/calibration.py --reigen build/release/reigen --logs DIR --real DIR --seed 5

Runs whose archive is there are not trained again. With --minutes no run begins that would end later; the next call
continues, also on a different machine, with the same --logs. --train-only makes no reports. --real has folders with
train.en and train.de (Multi30k, Europarl); without it, regimes that need them are left out. Nothing but Python's own
library and the program is needed.
"""

import argparse
import collections
import concurrent.futures
import json
import math
import os
import shutil
import sys
import tempfile
import time

import calibration_pool as pool
import calibration_runs as runs

HORIZONS = [0.1, 0.5, 1.0]
WORSE = 0.01  # share of the loss, as in the report
MIN_PREDICTED = 0.7
FEWEST = 5  # runs without a turn, in a regime in which most runs turn
MAX_WRONG_HIGH = 0.02


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


def compare(options, path):
    """A report against what came of its run; only the name of a run that diverged."""
    facts = pool.read_facts(path)
    folder = tempfile.mkdtemp(prefix="reigen-calibration-")
    try:
        pool.unpack(path, folder)
        if runs.diverged(folder):  # it has no later losses
            return {"diverged": facts["name"]}
        return {"machine": facts["machine"], **compare_run(options, folder, facts)}
    finally:
        shutil.rmtree(folder)


def compare_run(options, folder, facts):
    plan = facts["plan"]
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

    verdicts = report["verdicts"]
    before = [v for s, v in loss if s <= stop]
    after = [(s, v) for s, v in loss if s > stop]
    high = [name for name in ("bottleneck", "trained", "overfitting") if verdicts[name]["confidence"] == "high"]
    wrong = [*wrong_learning(verdicts, before, after, stop),
             *wrong_bottleneck(verdicts["bottleneck"], pauses(folder, stop), facts["others"])]
    return {"regime": plan["regime"], "run": facts["name"], "stop": stop, "loss": before[-1],
            "bend": min(v for _, v in loss) * (1 + WORSE) < loss[-1][1],
            "over": verdicts["trained"]["answer"] == "schedule-over",
            "gains": tally(report["numbers"].get("expected_gains", []), loss, 1),
            "bleu": tally(report["numbers"].get("expected_bleu_gains", []), bleu, -1),
            "bleu_now": dict(bleu)[stop], "others": facts["others"], "verdicts": verdicts, "high": high,
            "wrong": [name for name in wrong if name.split(":")[0] in high]}


def pauses(folder, stop):
    """Shares of evaluations and of checkpoint stalls in the time of both and of the steps."""
    seconds = collections.Counter()
    with open(f"{folder}/run/measurements/rank-0.jsonl", encoding="utf-8") as log:
        for record in map(json.loads, log):
            if record["kind"] in ("step", "evaluation", "checkpoint") and 1 < record["step"] <= stop:
                seconds[record["kind"]] += record["stall_seconds" if record["kind"] == "checkpoint" else "seconds"]
    total = max(1e-9, sum(seconds.values()))
    return {kind: seconds[kind] / total for kind in ("evaluation", "checkpoint")}


def wrong_learning(verdicts, before, after, stop):
    """Verdicts on learning that what came does not bear out."""
    now, best = before[-1], min(before)
    half = [v for s, v in after if s <= 1.5 * stop + 0.5]
    lowest = min(v for _, v in after)
    trained, overfitting = verdicts["trained"]["answer"], verdicts["overfitting"]["answer"]
    wrong = {"improving": half[-1] >= now,
             "yes": min(half) < now * (1 - WORSE),
             "near-its-best": min(half) < now * (1 - 3 * WORSE),
             "past-its-best": lowest < best * (1 - WORSE),
             "getting-worse": lowest < best * (1 - WORSE),
             "schedule-over": max(abs(v - now) for _, v in after) > WORSE * now,
             "useless": lowest < best * 0.9}.get(trained, False)
    over = {"yes": lowest < best * (1 - WORSE),  # it was to become better still
            "no": lowest > best * (1 + WORSE)}.get(overfitting, False)  # it had turned
    return ([f"trained: {trained}"] if wrong else []) + ([f"overfitting: {overfitting}"] if over else [])


def wrong_bottleneck(verdict, pause, others):
    """Nothing slow is planted in these runs: one worker on a core of its own, with evaluations close to each other, after
    which the best is saved. What other processes had of that core is measured beside the program; None is not known."""
    cause = verdict["cause"]
    right = {"compute": max(pause.values()) < 0.5 and (others or 0) < 0.5,
             "evaluation": pause["evaluation"] > 0.1, "checkpoint": pause["checkpoint"] > 0.1,
             "interference": others is not None and others > 0.1}.get(cause, False)
    return [] if right else [f"bottleneck: {cause}"]


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
        high = sum(len(r["high"]) for r in some)
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
    if sum(len(r["wrong"]) for r in results) > MAX_WRONG_HIGH * sum(len(r["high"]) for r in results):
        missed.append("verdicts with confidence high that were wrong")
    return rows, missed


COLUMNS = [("regime", "regime"), ("runs", "runs"), ("bend", "turn"), ("given", "predicted, of runs without a turn"),
           *[(f"plus{100 * m:.0f}", f"loss +{100 * m:.0f}%") for m in HORIZONS],
           *[(f"bleu{100 * m:.0f}", f"BLEU +{100 * m:.0f}%") for m in HORIZONS], ("high", "high and wrong")]


def write_result(options, results, rows):
    machines = ", ".join(sorted({r["machine"] for r in results}))
    result = {"title": "How often what came was inside the predicted 80% interval, by regime",
              "machine": machines, "commit": options.commit, "date": time.strftime("%Y-%m-%d"),
              "program": "bench/observe/calibration.py",
              "setting": f"Seed {options.seed}: {len(results)} runs of seconds each, their logs cut at a random "
                         "evaluation, one report for each. In brackets the 95% interval of the share. "
                         "High and wrong: of all verdicts (bottleneck, trained, overfitting) with confidence high.",
              "columns": [{"key": key, "head": head} for key, head in COLUMNS], "rows": rows}
    with open(options.result, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


def make_reports(options, plans):
    """Holds the reports of the runs that are there against what came; the exit status."""
    paths = [f"{options.logs}/{name}.tar.xz" for name, _ in plans]
    paths = [path for path in paths if os.path.exists(path)]
    if options.curves:
        pool.write_curves(options.curves, paths)
        return
    with concurrent.futures.ThreadPoolExecutor(options.jobs or os.cpu_count()) as threads:
        results = list(threads.map(lambda path: compare(options, path), paths))
    lost = [result["diverged"] for result in results if "diverged" in result]
    if lost:
        print(f"diverged and left out: {' '.join(lost)}", file=sys.stderr)
    results = [result for result in results if "diverged" not in result]
    results.sort(key=lambda r: runs.REGIMES.index(r["regime"]))
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reigen", required=True)
    parser.add_argument("--logs", required=True, help="folder of the archives, one for each run")
    parser.add_argument("--work", help="folder for runs while they train")
    parser.add_argument("--real", default="")
    parser.add_argument("--seed", default="1", help="or several, as in 1,2")
    parser.add_argument("--runs", type=int, default=30, help="of each regime")
    parser.add_argument("--regimes", default=",".join(runs.REGIMES))
    parser.add_argument("--jobs", type=int, default=0, help="runs at a time; by default one for each core")
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--train-only", action="store_true")
    parser.add_argument("--no-train", action="store_true", help="reports of the archives that are there")
    parser.add_argument("--curves", help="file for the curves of the runs, for gain_fit")
    parser.add_argument("--result", help="file for the table, as in bench/results")
    parser.add_argument("--details", help="file for every report and what came")
    parser.add_argument("--machine", default="two cores", help="that trains, for the table")
    parser.add_argument("--commit", default="", help="of the program that reports, for the table")
    options = parser.parse_args()
    options.work = options.work or tempfile.mkdtemp(prefix="reigen-calibration-")
    folders = sorted(os.listdir(options.real)) if options.real else []
    # Which runs need text is part of the drawing: archives are read without it.
    regimes = [r for r in options.regimes.split(",") if folders or options.no_train or r not in runs.NEED_TEXT]
    plans = [(f"{seed}-{regime}-{number}", None if options.no_train else runs.draw(int(seed), regime, number, folders))
             for number in range(options.runs) for seed in options.seed.split(",") for regime in regimes]
    complete = options.no_train or pool.train_all(options, plans)
    if not options.train_only:
        make_reports(options, plans)
    if not complete:
        sys.exit("not all runs are trained; call it again for the others")


if __name__ == "__main__":
    main()
