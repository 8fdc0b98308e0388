#!/usr/bin/env python3
"""Sends a run to Weights & Biases while it trains: to_wandb.py RUN [PROJECT]

Needs the package wandb (pip install wandb) and a login (wandb login, or WANDB_API_KEY). Start it again after a
stop: it continues the same run there, which has the name of the directory.
"""

import os
import sys

import wandb

from records import follow, metrics, options

run = os.path.abspath(sys.argv[1])
project = sys.argv[2] if len(sys.argv) > 2 else "reigen"
name = os.path.basename(run)
tracked = wandb.init(project=project, name=name, id=name, resume="allow", config=options(run))
sent = int(tracked.summary.get("train/sent_step", -1))  # W&B refuses steps that go back
for record in follow(run):
    if record["kind"] == "evaluation":  # in the same row as the step before it
        tracked.log(metrics(record), step=max(record["step"], sent, 0))
    elif record["kind"] == "step" and record["step"] > sent:
        tracked.log({**metrics(record), "train/sent_step": record["step"]}, step=record["step"])
    elif record["kind"] == "end":
        tracked.summary["reason"] = record.get("reason", "")
tracked.finish()
