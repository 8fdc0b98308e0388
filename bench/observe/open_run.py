#!/usr/bin/env python3
"""Time to open a long run: its report, `top` and the live page, with and without rollup.json.

Makes the logs of 300,000 steps on 64 ranks (bench/observe/long_run.cpp; 1.5 GB) by default, checks that both give the
same answers, and prints a table and a line of JSON."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.insert(0, os.path.join(ROOT, "tests/cli"))
import browser  # noqa: E402


def seconds(*command):
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return time.monotonic() - start, done.stdout


class Dashboard:
    def __init__(self, reigen, run):
        self.start = time.monotonic()
        self.process = subprocess.Popen([reigen, "dashboard", run], stderr=subprocess.PIPE, text=True)
        self.url = re.search(r"http://[^\s;]+", self.process.stderr.readline()).group()

    def close(self):
        self.process.terminate()
        self.process.stderr.read()
        self.process.stderr.close()
        self.process.wait()

    def first_data(self):
        """Seconds from the command to the first answer, and to the whole of it."""
        first = None
        while True:
            with urllib.request.urlopen(self.url.replace("/?", "/live.json?")) as answer:
                data = json.load(answer)
            passed = time.monotonic() - self.start
            first = first or passed
            if data["charts"]:
                return first, passed


def page(dashboard, tab):
    """Seconds from the address to charts that are drawn."""
    start = time.monotonic()
    tab.open(dashboard.url)
    tab.wait("document.querySelectorAll('#chart-list canvas').length > 5", seconds=120)
    tab.js("new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    return time.monotonic() - start


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    options.add_argument("--steps", default="300000")
    options.add_argument("--ranks", default="64")
    options.add_argument("--ranks-per-host", default="8")
    options.add_argument("--seconds-per-step", default="0.15")
    given = options.parse_args()
    reigen = os.path.join(given.build, "reigen")
    result = {"steps": int(given.steps), "ranks": int(given.ranks)}
    with tempfile.TemporaryDirectory(prefix="reigen-long-") as run:
        seconds(os.path.join(given.build, "bench/long_run"), run, given.steps, given.ranks, given.ranks_per_host,
                given.seconds_per_step)
        logs, rollup = os.path.join(run, "measurements"), os.path.join(run, "measurements/rollup.json")
        result["bytes"] = sum(entry.stat().st_size for entry in os.scandir(logs))

        result["report_from_logs"], cold = seconds(reigen, "report", run)
        result["report_rolled_up"], warm = seconds(reigen, "report", run)
        if cold != warm or f"{int(given.steps):,} steps" not in cold:
            sys.exit("the two reports differ, or the steps are not all there")
        result["top_rolled_up"], _ = seconds(reigen, "top", run, "--once")

        tab = browser.Browser() if browser.PROGRAM else None
        for name in ("rolled_up", "from_logs"):
            if name == "from_logs":
                os.remove(rollup)
            dashboard = Dashboard(reigen, run)
            if tab:
                result[f"page_{name}"] = page(dashboard, tab)
            else:
                result[f"first_answer_{name}"], result[f"page_data_{name}"] = dashboard.first_data()
            dashboard.close()
        if tab:
            tab.close()
    for name, value in result.items():
        print(f"  {name:24} {value:.2f} s" if isinstance(value, float) else f"  {name:24} {value:,}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
