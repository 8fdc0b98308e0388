"""The measurement log of a run for the trackers beside this file: records as they are written, and options."""

import json
import os
import time


def follow(run, once=False, every=2.0):
    """Yields each record of rank 0 once, in order, until the run has ended; with `once` those that are there now.

    A resume removes the records after its checkpoint: those steps come again, and are left out here."""
    path = os.path.join(run, "measurements", "rank-0.jsonl")
    at, newest, ended = 0, {}, False
    while not ended:
        if os.path.exists(path):
            at = at if os.path.getsize(path) >= at else 0
            with open(path, "rb") as log:
                log.seek(at)
                for line in log:
                    if not line.endswith(b"\n"):
                        break  # still being written
                    at += len(line)
                    record = json.loads(line)
                    kind, number = record["kind"], record.get("attempt", record.get("step", 0))
                    ended = kind == "end"
                    if number > newest.get(kind, -1):
                        newest[kind] = number
                        yield record
        if once or ended:
            return
        time.sleep(every)


def metrics(record):
    """The numbers of a step or an evaluation under the names that the log gives them, as train/NAME or eval/NAME."""
    place = {"step": "train/", "evaluation": "eval/"}.get(record["kind"])
    numbers = {place + k: v for k, v in record.items() if type(v) in (int, float) and k not in ("step", "time")} if place else {}
    if record["kind"] == "step" and record["seconds"] > 0:
        numbers["train/target_tokens_per_second"] = record["target_tokens"] / record["seconds"]
    return numbers


def options(run):
    """The options of the run as a flat dictionary, such as {"model.width": "512"}."""
    flat, section = {}, ""
    with open(os.path.join(run, "config.yaml"), encoding="utf-8") as file:
        for line in file:
            key, _, value = line.strip().partition(": ")
            if line.strip().endswith(":") and not line.startswith(" "):
                section = line.strip()[:-1] + "."
            else:
                section = section if line.startswith(" ") else ""
                flat[section + key] = value
    return flat
