#!/usr/bin/env python3
"""Sends a run to an MLflow tracking server while it trains: to_mlflow.py RUN [EXPERIMENT]

Speaks MLflow's REST interface (2.0) with Python alone. MLFLOW_TRACKING_URI is the server, http://127.0.0.1:5000 if
it is not set; MLFLOW_TRACKING_TOKEN, if set, is sent as a bearer token.
"""

import json
import os
import sys
import time
import urllib.request

from records import follow, metrics, options

SERVER = os.environ.get("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")


def call(method, path, body=None):
    headers = {"Content-Type": "application/json"}
    if os.environ.get("MLFLOW_TRACKING_TOKEN"):
        headers["Authorization"] = "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"]
    request = urllib.request.Request(f"{SERVER}/api/2.0/mlflow/{path}", json.dumps(body).encode() if body else None, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


run = os.path.abspath(sys.argv[1])
experiment = sys.argv[2] if len(sys.argv) > 2 else "reigen"
found = call("POST", "experiments/search", {"max_results": 1, "filter": f"name = '{experiment}'"}).get("experiments")
experiment_id = found[0]["experiment_id"] if found else call("POST", "experiments/create", {"name": experiment})["experiment_id"]
started = call("POST", "runs/create", {"experiment_id": experiment_id, "run_name": os.path.basename(run), "start_time": int(1000 * time.time())})
run_id, waiting = started["run"]["info"]["run_id"], []
parameters = [{"key": key, "value": value[:500]} for key, value in options(run).items()]
for first in range(0, len(parameters), 100):  # the most of a request
    call("POST", "runs/log-batch", {"run_id": run_id, "params": parameters[first:first + 100]})
for record in follow(run):
    at = {"timestamp": int(1000 * record.get("time", 0)), "step": record["step"]}
    waiting += [{"key": key, "value": value, **at} for key, value in metrics(record).items()]
    if waiting and (len(waiting) > 900 or record["kind"] in ("evaluation", "end")):
        call("POST", "runs/log-batch", {"run_id": run_id, "metrics": waiting[:1000]})
        waiting = waiting[1000:]
call("POST", "runs/update", {"run_id": run_id, "status": "FINISHED", "end_time": int(1000 * time.time())})
