#!/usr/bin/env python3
"""runs.py REIGEN CONCURRENT SECONDS LOGS NAME...: trains named runs side by side; prints last nll."""
import json, os, subprocess, sys, time, shutil, gzip, re
reigen, n, limit, logs = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
names = sys.argv[5:]
start = time.time()
def command(name):
    # corpus-steps-variant-seed
    corpus, steps, variant, seed = name.split("-")
    preset = {"ep": "base", "m30": "small"}[corpus]
    more = {"one": [], "two": ["--workers", "2", "--device", "cuda:0"], "int4": ["--workers", "2", "--device", "cuda:0", "--compress", "int4"],
            "topk": ["--workers", "2", "--device", "cuda:0", "--compress", "topk"], "psgd": ["--workers", "2", "--device", "cuda:0", "--compress", "powersgd:16"],
            "local": ["--workers", "2", "--device", "cuda:0", "--compress", "local:4"], "full": []}[variant]
    steps_options = [] if steps == "0" else ["--max-steps", steps]
    every = {"ep": "500", "m30": "200"}[corpus]
    bleu = [] if variant == "full" else ["--eval.sentences", "20"]
    if variant in ("one", "full"): more = more + ["--device", "cuda:0"]
    return [reigen, "train", "--preset", preset, "--data", corpus, "--run", name, "--seed", seed, "--memory", "30GB", "--eval.every", every, *bleu, *steps_options, *more]
live, waiting = {}, list(names)
def done(name, p, began):
    took = time.time() - began
    try:
        rows = [json.loads(l) for l in open(f"{name}/measurements/rank-0.jsonl")]
        ev = [(r["step"], round(r["nll"], 4), round(r.get("bleu") or 0, 2)) for r in rows if r["kind"] == "evaluation"]
        st = sorted(r["seconds"] if "seconds" in r else 0 for r in rows if r["kind"] == "step")
        print(f"{name} rc {p.returncode} {took:.1f} s best {min(e[1] for e in ev)} last {ev[-1]} all {ev} median step {st[len(st)//2]:.4f}", flush=True)
    except Exception as e:
        print(f"{name} rc {p.returncode} {took:.1f} s: {e!r}", flush=True)
    for f in (f"{name}.log",):
        shutil.copy(f, logs)
while waiting or live:
    while waiting and len(live) < n and time.time() - start < limit - 40:
        name = waiting.pop(0)
        live[name] = (subprocess.Popen(command(name), stdout=open(f"{name}.log", "w"), stderr=subprocess.STDOUT), time.time())
    if not live: break
    for name, (p, began) in list(live.items()):
        if p.poll() is not None:
            done(name, p, began); del live[name]
    if time.time() - start > limit:
        for name, (p, b) in live.items(): p.terminate(); print(f"{name} ended at the limit", flush=True)
        break
    time.sleep(0.1)
for w in waiting: print(w, "not started")
