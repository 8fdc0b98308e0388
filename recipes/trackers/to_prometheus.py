#!/usr/bin/env python3
"""Serves the latest numbers of runs for Prometheus: to_prometheus.py RUN... [--port 9110]

A scrape of http://HOST:9110/metrics reads what the logs have since the last one. Python alone; listens on loopback,
unless --address says otherwise. Names are those of the measurement log: reigen_train_loss{run="first"}.
"""

import argparse
import http.server
import os
import re
import threading

from records import follow, metrics

parser = argparse.ArgumentParser()
parser.add_argument("runs", nargs="+")
parser.add_argument("--port", type=int, default=9110)
parser.add_argument("--address", default="127.0.0.1")
arguments = parser.parse_args()


class Run:
    """The latest numbers of a run."""

    def __init__(self, path):
        name = os.path.basename(os.path.abspath(path))
        self.label = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        self.records, self.latest = follow(path, once=True), {}

    def numbers(self):
        for record in iter(lambda: next(self.records), None):
            self.latest.update(metrics(record))
            self.latest["step"], self.latest["ended"] = record["step"], int(record["kind"] == "end")
        return self.latest


runs = [Run(path) for path in arguments.runs]
one_at_a_time = threading.Lock()


def page():
    values = {}  # name: [(run, value)]
    for run in runs:
        for name, value in run.numbers().items():
            values.setdefault("reigen_" + re.sub(r"\W", "_", name, flags=re.ASCII), []).append((run.label, value))
    return "".join(f"# TYPE {name} gauge\n" + "".join(f'{name}{{run="{run}"}} {value}\n' for run, value in rows) for name, rows in values.items())


class Handler(http.server.BaseHTTPRequestHandler):
    timeout = 10  # seconds for a client that does not go on

    def do_GET(self):
        with one_at_a_time:
            body = page().encode(errors="replace")
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer((arguments.address, arguments.port), Handler).serve_forever()
