"""Planted causes of slow steps that people meet: stopped processes, priorities, slow disks, costly habits, links."""

import os
import signal
import subprocess
import sys
import time

from planted_bench import ON_CORES, Skipped, bottleneck, case, cause_is, late, times_add_up
from planted_limits import SmallDisk, SlowWrites
from quota import Quota


@case("60", "a single worker stopped for half of the time (Ctrl-Z, a laptop that sleeps)")
def stopped_alone(b):
    p = b.worker("--threads", 2, "--max-steps", b.steps(150))
    b.at_step(5, [p])
    while p.poll() is None:
        p.send_signal(signal.SIGSTOP)
        time.sleep(1)
        p.send_signal(signal.SIGCONT)
        time.sleep(1)
    r = b.finish([p])
    return r, cause_is(r, "stopped")


@case("61", "eight threads on two cores")
def many_threads(b):
    r = b.finish([b.worker("--threads", 8, "--max-steps", b.steps(60))])
    return r, cause_is(r, "shared cores") and "--threads" in bottleneck(r)["advice"]


@case("62", "a checkpoint after every step", alone=True)
def save_always(b):
    r = b.finish([b.worker("--threads", 2, "--model.width", 256, "--batch.target-tokens", 500, "--max-steps",
                           b.steps(60), "--checkpoint.every", 1)])
    return r, cause_is(r, "checkpoint") and times_add_up(r)


@case("63", "a metric of one second (eval.command) after every tenth step")
def slow_metric(b):
    r = b.finish([b.worker("--threads", 2, "--max-steps", b.steps(60), "--eval.every", 10, "--eval.bleu",
                           "--eval.sentences", 5, "--eval.command", "sleep 1; echo score 1")])
    return r, cause_is(r, "evaluation") and times_add_up(r)


@case("64", "lowest priority (nice 19) beside a busy process on the same cores")
def nice(b):
    b.hog("0-1")
    b.hog("0-1")
    r = b.finish([b.worker("--threads", 2, "--max-time", "15s", begin=lambda: os.nice(19))])
    return r, cause_is(r, "interference")


@case("65", "micro-batches of 60 tokens")
def tiny_micro(b):
    r = b.finish([b.worker("--threads", 2, "--micro-tokens", 60, "--max-steps", b.steps(60))])
    return r, cause_is(r, "compute") and not bottleneck(r)["changes"]


@case("66", "costly compression (powersgd:64) between workers of one host")
def costly_compression(b):
    r = b.finish(b.workers("--threads", 1, "--compress", "powersgd:64", "--compress-warmup", 0,
                           "--batch.target-tokens", 200, "--max-steps", b.steps(60), cores=[0, 1]))
    return r, cause_is(r, "compression") and "--compress bf16" in bottleneck(r)["advice"]


@case("67", "a run directory on a disk of 4 MB/s, and checkpoints every 10 steps", alone=True)
def slow_disk(b):
    with SlowWrites(b.folder, 200, 4_000_000) as disk:
        b.run = f"{disk.path}/run"
        r = b.finish([b.worker("--threads", 2, "--model.width", 256, "--batch.target-tokens", 500, "--checkpoint.keep",
                               1, "--max-steps", b.steps(40), "--checkpoint.every", 10)])
    return r, cause_is(r, "checkpoint") and times_add_up(r)


@case("68", "another process writes to the disk of the run all the time", alone=True)
def busy_disk(b):
    with SmallDisk(b.folder, 400) as disk:
        b.run = f"{disk.path}/run"
        b.others.append(subprocess.Popen([*ON_CORES, sys.executable, "-c", f"""
import os
while True:
    with open({disk.path!r} + "/other", "wb") as file:
        file.write(b"x" * 50_000_000)
        os.fsync(file.fileno())
"""]))
        r = b.finish([b.worker("--threads", 2, "--model.width", 256, "--batch.target-tokens", 300, "--max-steps",
                               b.steps(60), "--checkpoint.every", 5)])
        b.end_others()
    return r, cause_is(r, "checkpoint", "interference") and times_add_up(r)


@case("69", "nothing: two hosts without a limit, encrypted")
def encrypted(b):
    b.hosts()
    r = b.finish(b.workers("--threads", 1, "--compress", "none", "--max-steps", b.steps(150), cores=[0, 1],
                           network=True))
    return r, cause_is(r, "compute") and not bottleneck(r)["changes"] and not late(r)


@case("70", "short steps between two hosts: the exchange takes processors, not the link")
def short_steps(b):
    b.hosts()
    r = b.finish(b.workers("--threads", 1, "--compress", "none", "--model.width", 256, "--batch.target-tokens", 60,
                           "--max-steps", b.steps(100), cores=[0, 1], network=True))
    return r, cause_is(r, "exchange work", "contention") or (cause_is(r, "network") and
                                                          bottleneck(r)["confidence"] != "high")


@case("71", "latency of 60 ms in one direction only")
def one_way_latency(b):
    b.relayed_hosts()
    b.network.impair(1, delay=0.06)
    r = b.finish(b.workers("--threads", 1, "--compress", "none", "--model.width", 32, "--model.ffn-width", 64,
                           "--batch.target-tokens", 500, "--max-steps", b.steps(100), cores=[0, 1], network=True))
    return r, cause_is(r, "network")


@case("72", "a link that delivers a quarter of its packets late, in a different order")
def reordered(b):
    b.relayed_hosts()
    for host in (0, 1):
        b.network.impair(host, delay=0.01, reorder=0.25)
    r = b.finish(b.workers("--threads", 1, "--compress", "none", "--max-steps", b.steps(60), cores=[0, 1],
                           network=True))
    return r, cause_is(r, "network")


@case("73", "rank 1 under a quota of half a core, as a host with half of the cores")
def half_host(b):
    try:
        limit = Quota(0.5)
    except PermissionError as error:
        raise Skipped(str(error)) from error
    with limit:
        r = b.finish(b.workers("--threads", 1, "--max-steps", b.steps(80), cores=[0, 1],
                               begin=[None, limit.limit_this_process]))
    return r, late(r).get(1) == "quota"


@case("74", "killed every few seconds, with checkpoints far apart")
def killed_often(b):
    p = None
    for _ in range(3):
        p = b.worker("--threads", 2, "--max-steps", 100000, "--checkpoint.every", 40)
        time.sleep(4)
        p.send_signal(signal.SIGKILL)
        p.wait()
    r = b.finish([b.worker("--threads", 2, "--max-time", "12s", "--max-steps", 100000, "--checkpoint.every", 40)])
    return r, times_add_up(r) and cause_is(r, "compute")
