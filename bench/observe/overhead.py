#!/usr/bin/env python3
"""The cost of observing a run: a sample per second, and the live page with a reader every two seconds.

Trains the same run with and without the page, alternating. The CPU time of the observing threads is exact under
any load: with all cores busy it is the most that steps can lose, sampling_percent_at_most together with the time
between steps in which records are written. The ratio of median step times is given too.
Prints a table and a line of JSON."""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))


def thread_seconds(process):
    """Processor seconds of a process's threads by name."""
    total = {}
    for task in os.listdir(f"/proc/{process}/task"):
        try:
            with open(f"/proc/{process}/task/{task}/schedstat") as file:
                used = int(file.read().split()[0]) / 1e9
            with open(f"/proc/{process}/task/{task}/comm") as file:
                name = file.read().strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total[name] = total.get(name, 0) + used
    return total


def page_seconds(process):
    """CPU time of the process that serves the page."""
    total = 0
    for task in os.listdir(f"/proc/{process}/task"):
        try:
            with open(f"/proc/{process}/task/{task}/children") as file:
                total += sum(sum(thread_seconds(int(child)).values()) for child in file.read().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


def train(reigen, data, run, options, page):
    command = [reigen, "train", "--data", data, "--run", run, "--preset", options.preset, "--recipe",
               "classic", "--max-time", f"{options.seconds}s", "--batch.target-tokens", options.tokens, "--eval.every", "0",
               "--checkpoint.every", "1000000", "--no-eval.bleu", *(["--dashboard"] if page else [])]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    said, used, page_used, asked = [], {}, 0, 0
    reader = threading.Thread(target=lambda: said.extend(process.stderr))
    reader.start()
    next_ask = 0
    while process.poll() is None:
        try:
            for name, seconds in thread_seconds(process.pid).items():
                used[name] = max(used.get(name, 0), seconds)  # threads that observe end before the run does
            page_used = page_seconds(process.pid) or page_used
        except FileNotFoundError:
            break
        if page and os.path.exists(f"{run}/dashboard.url") and time.monotonic() >= next_ask:
            next_ask = time.monotonic() + 2  # as the page does
            try:
                with open(f"{run}/dashboard.url") as link:
                    url = link.read().strip().replace("/?", "/live.json?")
                with urllib.request.urlopen(url, timeout=10) as answer:
                    asked += bool(json.load(answer)["charts"])
            except OSError:
                pass  # it has ended
        time.sleep(0.1)
    reader.join()
    process.stderr.close()
    if process.wait() != 0:
        raise SystemExit("".join(said))
    with open(f"{run}/measurements/rank-0.jsonl") as log:
        steps = [r for r in map(json.loads, log) if r["kind"] == "step"][1:]
    wall = sum(s["seconds"] for s in steps)
    return {"median": statistics.median(s["seconds"] for s in steps), "steps": len(steps), "asked": asked,
            "telling": sum(s["spans"].get("observe", 0) for s in steps) / wall,
            "sampler": used.get("sampler", 0) / wall, "watch": used.get("schedule watch", 0) / wall,
            "page": page_used / wall}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reigen", default=os.path.join(ROOT, "build/release/reigen"))
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--tokens", default="4096")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    reigen = os.path.abspath(options.reigen)
    runs = {False: [], True: []}
    with tempfile.TemporaryDirectory(prefix="reigen-overhead-") as folder:
        text, data = f"{folder}/text", f"{folder}/data"
        subprocess.run([reigen, "corpus", "--pairs", "20000", "--output", text, "--quiet"], check=True)
        pair = [f"{text}/train.en", f"{text}/train.de"]
        subprocess.run([reigen, "prepare", "--source", "en", "--target", "de", "--train", *pair, "--valid",
                        f"{text}/valid.en", f"{text}/valid.de", "--vocab-size", "4000", "--output", data, "--quiet"],
                       check=True)
        for i in range(options.rounds):
            for page in (False, True):
                runs[page].append(train(reigen, data, f"{folder}/run-{i}-{page}", options, page))
    if not all(r["asked"] > 1 for r in runs[True]):
        raise SystemExit("the page was not served")
    mean = lambda page, key: statistics.mean(r[key] for r in runs[page])
    without, beside = (statistics.median(r["median"] for r in runs[page]) for page in (False, True))
    result = {"cores": os.cpu_count(), "step_ms": 1000 * without, "step_ms_with_page": 1000 * beside,
              "ratio": beside / without,
              "sampling_percent_at_most": 100 * sum(mean(False, part) for part in ("telling", "sampler", "watch")),
              "telling_percent_of_step": 100 * mean(True, "telling"),
              "sampler_percent_of_one_core": 100 * mean(True, "sampler"),
              "watch_percent_of_one_core": 100 * mean(True, "watch"),
              "page_percent_of_one_core": 100 * mean(True, "page")}
    for name, value in result.items():
        print(f"  {name:30} {value:.4g}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
