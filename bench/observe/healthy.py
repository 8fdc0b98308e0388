#!/usr/bin/env python3
"""Does the report stay calm? Healthy runs of different kinds; a report of any of them must raise no alarm.

    python3 bench/observe/healthy.py --reigen build/release/reigen [--work DIR] [--json FILE] [KIND...]

Sizes, steps from a millisecond to a second, one and two workers, compressions, recipes, schedules, evaluations and
checkpoints now and then, a stop and a resume: nothing is wrong with them. An alarm is a bottleneck outside of the run's
own work, a change of step time, a slow rank, a note, or a verdict on learning that something is wrong. A table of kind,
verdict and alarms is printed; the exit status is the number of kinds with an alarm. Run it on a machine without other
load: other work on it is a cause, and the report names it. Needs two cores; about twenty seconds a kind.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile

from planted_bench import (CASES, Bench, add_output_options, begin, bottleneck, case, corpus, late, prepare, read_rows,
                           save_rows, times_add_up, trained, write_result)

SHORT = ["--model.width", 32, "--model.ffn-width", 64, "--batch.target-tokens", 200]
OWN_WORK = ("compute", "exchange between workers of one machine", "evaluation", "checkpoint", "compression")
WRONG = ("past-its-best", "getting-worse", "useless", "diverged")


def alarms(report):
    found = []
    cause = bottleneck(report)
    if cause["cause"] not in OWN_WORK:
        found.append(f"bottleneck {cause['verdict']}")
    found += [f"change: {change['text']}" for change in cause["changes"]]
    found += [f"slow rank {rank}: {reason}" for rank, reason in late(report).items()]
    found += [f"note: {name}: {text}" for name, text in report["notes"].items()]
    if trained(report)["answer"] in WRONG:
        found.append(f"trained: {trained(report)['verdict']}")
    if trained(report)["level"] != "none" or trained(report)["validation_unlike_training"]:
        found.append(f"level: {trained(report)['because']}")
    found += [f"data: {fault}" for fault in report["verdicts"]["data"]["faults"]]
    found += [f"training loss rose at step {rise['step']:.0f}" for rise in trained(report).get("rises", [])]
    if report["verdicts"]["overfitting"]["answer"] in ("yes", "near"):
        found.append(f"overfitting: {report['verdicts']['overfitting']['verdict']}")
    if not times_add_up(report):
        found.append("times do not add up")
    return found


def one(name, steps, *options, threads=2):
    @case(name, " ".join(map(str, options)))
    def run(b):
        return b.finish([b.worker("--threads", threads, "--max-steps", b.steps(steps), *options)])
    return run


def two(name, steps, *options):
    @case(name, "two workers " + " ".join(map(str, options)))
    def run(b):
        return b.finish(b.workers("--threads", 1, "--max-steps", b.steps(steps), *options, cores=[0, 1]))
    return run


one("one thread", 150, threads=1)
one("two threads", 200)
one("short steps", 2500, *SHORT)
one("very short steps", 4000, "--model.width", 16, "--model.ffn-width", 32, "--batch.target-tokens", 50, threads=1)
one("long steps", 40, "--batch.target-tokens", 8000)
one("wide", 40, "--model.width", 512, "--model.ffn-width", 2048, "--batch.target-tokens", 600)
one("deep", 100, "--model.encoder-layers", 8, "--model.decoder-layers", 8, "--model.width", 64)
one("many micro-batches", 60, "--batch.target-tokens", 4000, "--micro-tokens", 500)
one("evaluations", 300, "--eval.every", 60)
one("BLEU", 300, "--eval.every", 150, "--eval.bleu", "--eval.sentences", 20)
one("checkpoints", 300, "--checkpoint.every", 75)
one("recipe best", 300, "--recipe", "best", "--eval.every", 75)
one("wsd", 300, "--schedule.kind", "wsd", "--eval.every", 50)
one("average of the weights", 200, "--ema.decay", 0.99)
two("two workers", 200)
two("two workers, short steps", 2500, *SHORT)
two("bf16", 200, "--compress", "bf16")
two("int8", 200, "--compress", "int8")
two("int4", 200, "--compress", "int4")
two("powersgd", 200, "--compress", "powersgd:4")
two("topk", 200, "--compress", "topk:0.01")
two("local steps", 300, "--compress", "local:20")


@case("stopped and resumed", "a stop by SIGINT and a resume")
def resumed(b):
    options = ["--threads", 2, "--max-steps", b.steps(300)]
    p = b.worker(*options)
    b.at_step(b.steps(150), [p])
    p.send_signal(signal.SIGINT)
    p.wait()
    return b.finish([b.worker(*options)])


def run_kinds(options, rows):
    """Adds a row for each kind; the number of kinds with an alarm."""
    folder = options.work or tempfile.mkdtemp(prefix="reigen-healthy-")
    os.makedirs(folder, exist_ok=True)
    reigen = os.path.abspath(options.reigen)
    data = os.path.join(folder, "data")
    if not os.path.exists(data):
        prepare(reigen, folder, corpus(reigen, folder))
    alarmed = 0
    for name in options.kinds or CASES:
        place = os.path.join(folder, name.replace(" ", "-"))
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place)
        bench = Bench(reigen, data, place, options.scale)
        try:
            report = CASES[name][1](bench)
        finally:
            bench.close()
        row = {"kind": name, "verdict": bottleneck(report)["verdict"], "alarms": alarms(report),
               "step_seconds": report["numbers"]["mean_step_seconds"], "seconds": report["numbers"]["seconds"]}
        rows[name] = row
        save_rows(options.json, list(rows.values()))
        alarmed += bool(row["alarms"])
        print(f"{name:26} {row['seconds']:5.0f} s  {1e3 * row['step_seconds']:8.1f} ms a step  {row['verdict']}",
              *(f"\n    ALARM {alarm}" for alarm in row["alarms"]), flush=True)
    print(f"{alarmed} of {len(options.kinds or CASES)} with an alarm")
    if not options.work:
        shutil.rmtree(folder)
    return alarmed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reigen", required=True)
    add_output_options(parser)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(CASES)}; all by default")
    options = parser.parse_args()
    rows = {row["kind"]: row for row in read_rows(options.json)}
    alarmed = run_kinds(options, rows) if begin(options) else 0
    if options.result:
        table = [{"kind": row["kind"], "step": f"{1e3 * row['step_seconds']:.2g} ms", "time": f"{row['seconds']:.0f} s",
                  "verdict": row["verdict"], "alarms": "; ".join(row["alarms"]) or "none"} for row in rows.values()]
        write_result(options, "Healthy runs and the alarms of their reports", "bench/observe/healthy.py",
                     "Real runs in which nothing is wrong; only report.json is read.",
                     {"kind": "kind", "step": "mean step", "time": "time", "verdict": "bottleneck", "alarms": "alarms"},
                     table)
    return min(alarmed, 100)


if __name__ == "__main__":
    sys.exit(main())
