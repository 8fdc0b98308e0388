"""Planted causes on a GPU: other programs on it, a busy host, small steps; and the predictions of reigen doctor."""

import importlib.util
import json
import signal
import subprocess
import sys
import time

from planted_bench import MODEL, Bench, Skipped, bottleneck, case, cause_is, change_near, times_add_up, trained
from quota import Quota, thread_of

Bench.device = "cuda"
STEPS = ["--preset", "small", "--batch.target-tokens", 8192]
OWN_WORK = ("compute", "several causes", "input", "exchange between workers of one machine")
# A program of others: matrix products without end, or memory that is only held.
PRODUCTS = """
import torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
while True:
    for _ in range(20):
        b = a @ a
    torch.cuda.synchronize()
"""
HOLDS = """
import time, torch
a = torch.zeros(1 << 30, device="cuda", dtype=torch.uint8)
torch.cuda.synchronize()
time.sleep(3600)
"""


def other_program(b, text):
    if importlib.util.find_spec("torch") is None:
        raise Skipped("there is no PyTorch for the other program")
    b.others.append(subprocess.Popen([sys.executable, "-c", text]))


def train(b, *options, seconds=12):
    return b.finish([b.worker(*options, "--max-time", f"{seconds}s")])


@case("g1", "nothing: small, batches of 8,192 tokens")
def healthy(b):
    r = train(b, *STEPS)
    return r, cause_is(r, "compute") and not bottleneck(r)["changes"] and times_add_up(r)


@case("g1b", "nothing: tiny, steps of milliseconds")
def healthy_short(b):
    r = train(b, "--batch.target-tokens", 2000, seconds=8)
    return r, cause_is(r, *OWN_WORK) and not bottleneck(r)["changes"]


@case("g1c", "nothing: big, batches of 25,000 tokens")
def healthy_long(b):
    r = train(b, "--preset", "big", "--batch.target-tokens", 25000)
    return r, cause_is(r, "compute") and not bottleneck(r)["changes"]


def doctor_of(b, *options):
    found = subprocess.run([b.reigen, "doctor", "--data", b.data, *MODEL[:-1], "--device", "cuda", *map(str, options),
                            "--seconds", "10s", "--json"], capture_output=True, text=True, timeout=120, check=True)
    predicted = json.loads(found.stdout)["forecast"]["step_seconds"]
    r = train(b, *options, seconds=10)
    with open(f"{b.folder}/doctor.json", "w") as file:
        file.write(found.stdout)
    off = r["numbers"]["mean_step_seconds"] / predicted - 1
    bottleneck(r)["verdict"] += f"; predicted {1e3 * predicted:.2f} ms a step, mean {100 * off:+.1f}%, median " \
        f"{100 * (r['numbers']['median_step_seconds'] / predicted - 1):+.1f}%"
    return r, abs(off) < 0.1


@case("g2a", "doctor's prediction: tiny, 4,096 tokens")
def doctor_tiny(b):
    return doctor_of(b, "--batch.target-tokens", 4096)


@case("g2b", "doctor's prediction: small, 8,192 tokens")
def doctor_small(b):
    return doctor_of(b, *STEPS)


@case("g2c", "doctor's prediction: base, 25,000 tokens")
def doctor_base(b):
    return doctor_of(b, "--preset", "base", "--batch.target-tokens", 25000)


def with_other(b, begin, seconds=16):
    """A run beside which another program begins to use the GPU in the middle."""
    p = b.worker(*STEPS, "--max-time", f"{seconds}s")
    b.at_step(1, [p])
    time.sleep(seconds / 2)
    begin()
    time.sleep(2)  # until it computes
    begun = b.last_step()
    r = b.finish([p])
    b.end_others()
    return r, begun


@case("g3", "another program computes on the GPU from mid-run on")
def other_from_mid_run(b):
    r, begun = with_other(b, lambda: other_program(b, PRODUCTS))
    return r, cause_is(r, "shared GPU") and change_near(r, begun, 0.2)


@case("g3b", "another program computes on the GPU from the start on")
def other_from_start(b):
    other_program(b, PRODUCTS)
    time.sleep(8)
    r = train(b, *STEPS)
    return r, cause_is(r, "shared GPU") or (cause_is(r, "compute") and bottleneck(r)["confidence"] == "low")


@case("g3c", "another program holds memory of the GPU and computes nothing")
def idle_other(b):
    other_program(b, HOLDS)
    time.sleep(6)
    r = train(b, *STEPS)
    return r, cause_is(r, "compute") and not bottleneck(r)["changes"]


@case("g3d", "another run of reigen on the same GPU from mid-run on")
def other_run(b):
    def begin():
        mine, b.run = b.run, b.run + "-other"
        b.others.append(b.worker("--preset", "base", "--batch.target-tokens", 25000, "--max-time", "60s"))
        b.run = mine
    r, begun = with_other(b, begin)
    return r, cause_is(r, "shared GPU") and change_near(r, begun, 0.3)


@case("g4", "two workers on one GPU")
def two_workers(b):
    r = b.finish([b.worker(*STEPS, "--workers", 2, "--device", "cuda:0", "--max-time", "12s")])
    return r, cause_is(r, "exchange between workers of one machine") and \
        "one worker for each GPU" in bottleneck(r)["advice"]


@case("g5", "three busy processes on the only core of the host that feeds the GPU")
def busy_host(b):
    for _ in range(3):
        b.hog(0)
    r = b.finish([b.worker("--threads", 1, "--max-time", "12s", cores=0)])
    sure = bottleneck(r)["confidence"] in ("medium", "high")
    return r, cause_is(r, "interference") or not (cause_is(r, "compute") and sure)


@case("g6", "evaluation with BLEU every 20 steps")
def evaluations(b):
    r = train(b, "--eval.every", 20, "--eval.bleu", "--eval.sentences", 200)
    return r, cause_is(r, "evaluation") and "--eval.every 40" in bottleneck(r)["advice"]


@case("g7", "a checkpoint after every third step")
def checkpoints(b):
    r = train(b, "--preset", "base", "--batch.target-tokens", 2000, "--checkpoint.every", 3)
    return r, cause_is(r, "checkpoint") and times_add_up(r)


@case("g8", "the thread that reads has a hundredth of a core")
def slow_reader(b):
    try:
        limit = Quota(0.01, period=1_000_000)
    except PermissionError as error:
        raise Skipped(str(error)) from error
    with limit:
        p = b.worker("--max-time", "12s")
        while p.poll() is None:
            thread = thread_of(p.pid, "reigen-input")
            if thread is not None:
                limit.limit(thread)
                break
        r = b.finish([p])
    return r, cause_is(r, "input") and "leave a core free" in bottleneck(r)["advice"]


@case("g9", "batches of 60 tokens for a big model")
def tiny_batch(b):
    r = train(b, "--preset", "big", "--batch.target-tokens", 60)
    return r, cause_is(r, "compute") and "larger --batch.target-tokens" in bottleneck(r)["advice"]


@case("g10", "stopped for half of the time (Ctrl-Z, a paused machine)")
def stopped(b):
    p = b.worker(*STEPS, "--max-time", "16s")
    b.at_step(1, [p])
    while p.poll() is None:
        p.send_signal(signal.SIGSTOP)
        time.sleep(1)
        p.send_signal(signal.SIGCONT)
        time.sleep(1)
    r = b.finish([p])
    sure = bottleneck(r)["confidence"] in ("medium", "high")
    return r, cause_is(r, "stopped", "other") or not (cause_is(r, "compute") and sure)


@case("g11", "learning rate 50 times too high in fp16", about="trained")
def high_rate(b):
    r = b.finish([b.worker("--precision", "fp16", "--schedule.rate", 0.1, "--model.norm", "post", "--max-steps", 600,
                           "--eval.every", 60)], stopped=True)
    return r, trained(r)["answer"] in ("useless", "diverged", "getting-worse")


@case("g12", "nothing: evaluations and checkpoints now and then")
def own_work(b):
    r = train(b, *STEPS, "--checkpoint.every", 500, "--eval.every", 500)
    return r, cause_is(r, *OWN_WORK) and times_add_up(r)
