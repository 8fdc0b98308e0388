"""The measurement log of a run for the trackers beside this file: records as they are written, and options."""

import json
import math
import os
import stat
import time


def is_number(value):
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:  # an integer above all floats
        return False


def is_log(path):
    """Whether it is a regular file: no link to a different file, and no FIFO, which would wait."""
    return os.path.lexists(path) and stat.S_ISREG(os.lstat(path).st_mode)


def parsed(line):
    """A record, or None for a line that is none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str) or not is_number(record.get("time", 0)):
        return None
    return record if type(record.get("step")) is int and type(record.get("attempt", 0)) is int else None


def follow(run, once=False, every=2.0):
    """Yields each record of rank 0 once, in order, until the run has ended; with `once`, None whenever there are no
    more, instead of waiting.

    A resume removes the records after its checkpoint: those steps come again, and are left out here."""
    path = os.path.join(run, "measurements", "rank-0.jsonl")
    at, newest, ended = 0, {}, False
    while once or not ended:
        if is_log(path):
            at = at if os.path.getsize(path) >= at else 0
            with open(path, "rb") as log:
                log.seek(at)
                for line in log:
                    if not line.endswith(b"\n"):
                        break  # still being written
                    at += len(line)
                    record = parsed(line)
                    if record is None:
                        continue
                    kind, number = record["kind"], record.get("attempt", record.get("step", 0))
                    ended = kind == "end"
                    if number > newest.get(kind, -1):
                        newest[kind] = number
                        yield record
        if once:
            yield None
        elif not ended:
            time.sleep(every)


def metrics(record):
    """The numbers of a step or an evaluation under the names that the log gives them, as train/NAME or eval/NAME."""
    place = {"step": "train/", "evaluation": "eval/"}.get(record["kind"])
    numbers = {place + k: v for k, v in record.items() if is_number(v) and k not in ("step", "time")} if place else {}
    if numbers.get("train/seconds", 0) > 0:
        numbers["train/target_tokens_per_second"] = numbers.get("train/target_tokens", 0) / numbers["train/seconds"]
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
