#!/usr/bin/env python3
"""Does the report name the cause? Real runs with one planted cause each; only report.json is read.

    python3 bench/observe/planted.py --reigen build/release/reigen [--work DIR] [--json FILE] [CASE...]

Every case plants one cause (a shaped link, other work on a core, workers pinned to one core, checkpoints
after every third step, a kill), trains for some seconds and compares the verdict with the cause. A table
of cause, verdict, and right or wrong is printed; the exit status is the number of wrong verdicts. Cases
that need a permission that is missing (network namespaces, control groups) are skipped. Run it on a
machine without other load: other work on it is a cause, too. Needs two cores; side_by_side.py uses more.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

from planted_bench import (ABOUT, CASES, Bench, Skipped, add_output_options, begin, corpus, prepare, read_rows,
                           save_rows, write_result)

if "--gpu" in sys.argv:
    import planted_gpu  # noqa: F401 (registers its cases, as all of these)
else:
    import planted_host  # noqa: F401
    import planted_learning  # noqa: F401
    import planted_machine  # noqa: F401
    import planted_settings  # noqa: F401
    import planted_text  # noqa: F401


def by_number(case):
    digits = case.lstrip("g").rstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits), case


def plant(name, options, data, folder):
    """The row of a case: what was planted, the verdict, whether it is right."""
    cause, function = CASES[name]
    place = os.path.join(folder, f"case-{name}")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    # What a model learns in fewer steps is something else.
    scale = options.scale if ABOUT[name] == "bottleneck" else 1
    bench = Bench(options.reigen, data, place, scale, options.real)
    row = {"case": name, "planted": cause}
    try:
        report, right = function(bench)
        verdict = report["verdicts"][ABOUT[name]]
        since = f" {verdict['since']}" if verdict["since"] else ""
        confidence = f" ({verdict['confidence']})" if verdict["confidence"] else ""
        row |= {"verdict": f"{verdict['verdict']}{since}{confidence}", "right": bool(right),
                "because": verdict["because"], "advice": verdict["advice"]}
    except Skipped as reason:
        row |= {"verdict": f"skipped: {reason}", "right": None}
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:  # no verdict, right or wrong
        row |= {"verdict": f"not run: {error}", "right": None}
    finally:
        bench.close()
    return row


def run_cases(options, rows):
    """Adds a row for each case; the number of wrong verdicts."""
    folder = options.work or tempfile.mkdtemp(prefix="reigen-planted-")
    os.makedirs(folder, exist_ok=True)
    data = os.path.join(folder, "data")
    if not os.path.exists(data):
        prepare(options.reigen, folder, corpus(options.reigen, folder))
    wrong = 0
    for name in options.cases or CASES:
        row = plant(name, options, data, folder)
        rows[name] = row
        save_rows(options.json, list(rows.values()))
        wrong += row["right"] is False
        right = {True: "right", False: "WRONG", None: ""}[row["right"]]
        print(f"{row['case']:>4}  {right:<6} {row['planted']}\n             {row['verdict']}", flush=True)
    print(f"{wrong} of {len(options.cases or CASES)} wrong")
    if not options.work:
        shutil.rmtree(folder)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reigen", required=True)
    parser.add_argument("--real", default="", help="folder with train.en and train.de of a different domain (Multi30k)")
    parser.add_argument("--gpu", action="store_true", help="cases on the first GPU instead of the CPU")
    add_output_options(parser)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; all by default")
    options = parser.parse_args()
    options.reigen = os.path.abspath(options.reigen)
    for name in options.cases:
        if name not in CASES:
            parser.error(f"unknown case {name}")
    rows = {row["case"]: row for row in read_rows(options.json)}
    wrong = run_cases(options, rows) if begin(options) else 0
    table = [{**rows[name], "answer": {True: "right", False: "wrong", None: ""}[rows[name]["right"]]}
             for name in sorted(rows, key=by_number)]
    if options.result:
        write_result(options, "Planted causes and the verdicts on them", "bench/observe/planted.py",
                     "Real runs of seconds to minutes, one cause in each; only report.json is read.",
                     {"case": "case", "planted": "planted", "verdict": "verdict", "answer": "answer"}, table)
    return min(wrong, 100)


if __name__ == "__main__":
    sys.exit(main())
