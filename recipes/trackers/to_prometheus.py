#!/usr/bin/env python3
"""Serves the latest numbers of runs for Prometheus: to_prometheus.py RUN... [--port 9110]

A scrape of http://HOST:9110/metrics reads what the logs have since the last one. Python alone; listens on loopback,
unless --address says otherwise. Names are those of the measurement log: reigen_train_loss{run="first"}.
"""

import argparse
import http.server
import os
import re

from records import follow, metrics

parser = argparse.ArgumentParser()
parser.add_argument("runs", nargs="+")
parser.add_argument("--port", type=int, default=9110)
parser.add_argument("--address", default="127.0.0.1")
arguments = parser.parse_args()


def page():
    values = {}  # name: [(run, value)]
    for run in arguments.runs:
        latest = {}
        for record in follow(run, once=True):
            latest.update(metrics(record))
            latest["step"], latest["ended"] = record["step"], int(record["kind"] == "end")
        for name, value in latest.items():
            values.setdefault("reigen_" + re.sub(r"\W", "_", name), []).append((os.path.basename(os.path.abspath(run)), value))
    return "".join(f"# TYPE {name} gauge\n" + "".join(f'{name}{{run="{run}"}} {value}\n' for run, value in rows) for name, rows in values.items())


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = page().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer((arguments.address, arguments.port), Handler).serve_forever()
