#!/usr/bin/env python3
"""Runs the cases of planted.py and healthy.py side by side on a machine of many cores, each on two cores of its own.

    python3 bench/observe/side_by_side.py --reigen build/release/reigen --output DIR [--cores 2-15] [--within 480]

A case sees the machine that it believes to have: its workers and the other work that it plants may run on its two
cores only, and verdicts on who had the cores look at these alone. The scripts that start and watch the cases run on
the cores that are left (0 and 1). Cases that change figures of the whole host, or depend on its disk, run at the end,
one by one. A case that takes longer than --limit is ended. Rows are written after each case to DIR/PROGRAM.json, so
that a call that is stopped keeps what it has; tables as in bench/results are written to DIR/PROGRAM-table.json.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ("planted", "healthy")


def numbers(text):
    """The numbers of "2-5,8"."""
    found = []
    for part in text.split(","):
        ends = [int(end) for end in part.split("-")]
        found += range(ends[0], ends[-1] + 1)
    return found


def siblings(core):
    """The threads of a core's hardware, this one included."""
    try:
        with open(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list") as file:
            return numbers(file.read().strip())
    except (OSError, ValueError):
        return [core]


def pairs_of(cores):
    """Disjoint pairs; the two threads of one core of the hardware stay together."""
    ordered = sorted(cores, key=lambda core: (min(siblings(core)), core))
    return [f"{ordered[i]},{ordered[i + 1]}" for i in range(0, len(ordered) - 1, 2)]


class Running:
    """One case on its two cores."""

    def __init__(self, options, folder, number, case, cores):
        self.program, self.name, self.cause, self.cores = case["program"], case["name"], case["cause"], cores
        program = self.program
        self.begun = time.monotonic()
        self.rows = os.path.join(folder, f"{program}-{number}.json")
        self.log = os.path.join(folder, f"{program}-{number}.txt")
        command = ["taskset", "-c", options.others, sys.executable, os.path.join(HERE, f"{program}.py"),
                   "--reigen", options.reigen, "--work", os.path.join(folder, program), "--json", self.rows,
                   "--cores", cores, "--port", str(21000 + 20 * number), "--scale", str(options.scale)]
        if program == "planted" and options.real:
            command += ["--real", options.real]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([*command, self.name], stdout=log, stderr=log, start_new_session=True)

    def seconds(self):
        return time.monotonic() - self.begun

    def end(self):
        """Ends the case with everything that it started."""
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, how)
            except ProcessLookupError:
                pass
            time.sleep(0.5)
        self.process.wait()

    def row(self, ended):
        key = "case" if self.program == "planted" else "kind"
        if os.path.exists(self.rows):
            with open(self.rows) as file:
                return json.load(file)[0]
        with open(self.log) as file:
            last = file.read().strip().splitlines()[-1:]
        reason = f"ended after {self.seconds():.0f} s" if ended else " ".join(last)
        return {key: self.name, "planted": self.cause, "verdict": f"not run: {reason}", "right": None,
                "alarms": ["not run"], "step_seconds": 0, "seconds": 0}


def cases_of(program):
    listed = subprocess.run([sys.executable, os.path.join(HERE, f"{program}.py"), "--reigen", "none", "--list"],
                            check=True, capture_output=True, text=True).stdout
    return [case | {"program": program} for case in json.loads(listed)]


class Pool:
    """Keeps every pair of cores busy until no case is left, or the time is over."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.stop = time.monotonic() + options.within
        self.rows = {program: [] for program in PROGRAMS}
        self.started = 0

    def run(self, cases, pairs):
        waiting, free, running = list(cases), list(pairs), []
        while waiting or running:
            while waiting and free and time.monotonic() < self.stop:
                self.started += 1
                running.append(Running(self.options, self.folder, self.started, waiting.pop(0), free.pop(0)))
            if not running:
                return
            for case in running[:]:
                late = case.seconds() > self.options.limit or time.monotonic() > self.stop
                if case.process.poll() is None and not late:
                    continue
                if case.process.poll() is None:
                    case.end()
                running.remove(case)
                free.append(case.cores)
                self.keep(case, late)
            time.sleep(0.2)

    def keep(self, case, late):
        row = case.row(late) | {"cores": case.cores, "took": round(case.seconds(), 1)}
        self.rows[case.program].append(row)
        with open(os.path.join(self.options.output, f"{case.program}.json"), "w") as file:
            json.dump(self.rows[case.program], file, indent=1)
        with open(case.log) as log:
            print(f"[{case.cores}, {case.seconds():.0f} s] " + (log.read().strip() or row["verdict"]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reigen", required=True)
    parser.add_argument("--output", required=True, help="folder for rows and tables")
    parser.add_argument("--cores", help="cores of the cases; by default all but the first two")
    parser.add_argument("--real", default="", help="folder with train.en and train.de of a different domain")
    parser.add_argument("--limit", type=float, default=100, help="seconds of a case")
    parser.add_argument("--within", type=float, default=480, help="seconds of all of them")
    parser.add_argument("--scale", type=float, default=1, help="factor for the number of steps")
    parser.add_argument("--machine", default="")
    parser.add_argument("--commit", default="")
    parser.add_argument("cases", nargs="*", help="names of planted causes and healthy kinds; all by default")
    options = parser.parse_args()
    options.reigen = os.path.abspath(options.reigen)
    os.makedirs(options.output, exist_ok=True)
    allowed = os.sched_getaffinity(0)
    cores = [core for core in (numbers(options.cores) if options.cores else sorted(allowed)[2:]) if core in allowed]
    options.others = ",".join(str(core) for core in sorted(allowed - set(cores))) or ",".join(map(str, sorted(allowed)))
    pairs = pairs_of(cores)
    folder = tempfile.mkdtemp(prefix="reigen-side-by-side-")
    data = os.path.join(folder, "data")
    sys.path.insert(0, HERE)
    import planted_bench
    planted_bench.prepare(options.reigen, folder, planted_bench.corpus(options.reigen, folder))
    for program in PROGRAMS:
        os.makedirs(os.path.join(folder, program))
        os.symlink(data, os.path.join(folder, program, "data"))
    # The shortest last, those about learning, so that all pairs of cores are busy until the end.
    cases = sorted((case for program in PROGRAMS for case in cases_of(program)),
                   key=lambda case: case["about"] != "bottleneck")
    if options.cases:
        cases = [case for case in cases if case["name"] in options.cases]
    print(f"{len(cases)} cases on the cores {' '.join(pairs)}; everything else on {options.others}", flush=True)
    pool = Pool(options, folder)
    pool.run([case for case in cases if not case["alone"]], pairs)
    pool.run([case for case in cases if case["alone"]], pairs[:1])
    for program in PROGRAMS:
        rows = os.path.join(options.output, f"{program}.json")
        if os.path.exists(rows):
            table = os.path.join(options.output, f"{program}-table.json")
            subprocess.run([sys.executable, os.path.join(HERE, f"{program}.py"), "--reigen", "none", "--table",
                            "--json", rows, "--result", table, "--machine", options.machine, "--commit",
                            options.commit], check=True)
    shutil.rmtree(folder)
    right = [row["right"] for row in pool.rows["planted"]]
    print(f"planted: {right.count(True)} right, {right.count(False)} wrong, {right.count(None)} without a verdict; "
          f"healthy: {len(pool.rows['healthy'])} kinds, {sum(bool(r['alarms']) for r in pool.rows['healthy'])} with an "
          f"alarm; not begun: {len(cases) - pool.started}")


if __name__ == "__main__":
    main()
