"""Planted causes of slow steps: links, other work, shared cores, checkpoints, evaluations, stops."""

import json
import os
import signal
import subprocess
import time

from planted_bench import (MODEL, TOKEN, Bench, Skipped, bottleneck, case, cause_is, change_near, late,
                           on_this_machine, times_add_up)
from planted_limits import MemoryLimit, SmallDisk
from quota import Quota, thread_of


@case("1", "link of 100 Mbit/s in both directions")
def slow_link(b):
    b.hosts("100mbit")
    r = b.finish(b.workers("--threads", 1, "--compress", "none", "--max-steps", b.steps(60), cores=[0, 1],
                           network=True))
    links = {(l["from"], l["to"]): 8e-6 * l["bandwidth"] for l in r["numbers"]["links"]}
    return r, cause_is(r, "network") and all(70 < links[pair] < 130 for pair in ((0, 1), (1, 0)))


@case("2", "only rank 1 to rank 0 limited, to 40 Mbit/s")
def one_direction(b):
    b.hosts()
    b.shape(1, "tbf rate 40mbit burst 256kb latency 50ms")
    r = b.finish(b.workers("--threads", 1, "--compress", "none", "--max-steps", b.steps(40), cores=[0, 1],
                           network=True))
    text = bottleneck(r)["because"]
    return r, cause_is(r, "network") and "from rank 1 to rank 0" in text and "from rank 0 to rank 1" not in text


@case("3", "link degrades to 60 Mbit/s in mid-run")
def link_degrades(b):
    b.hosts()
    steps = b.steps(300)
    p = b.workers("--threads", 1, "--compress", "none", "--max-steps", steps, cores=[0, 1], network=True)
    b.at_step(0.8 * steps, p)
    b.network.shape("60mbit")
    begun = b.last_step()
    r = b.finish(p)
    return r, cause_is(r, "network") and change_near(r, begun)


@case("3b", "latency grows by 40 ms in mid-run")
def latency_grows(b):
    b.relayed_hosts()
    steps = b.steps(300)
    p = b.workers("--threads", 1, "--compress", "none", "--max-steps", steps, cores=[0, 1], network=True)
    b.at_step(0.7 * steps, p)
    for host in (0, 1):
        b.network.impair(host, delay=0.04)
    begun = b.last_step()
    r = b.finish(p)
    return r, cause_is(r, "network") and change_near(r, begun)


@case("3c", "link recovers in mid-run")
def link_recovers(b):
    b.hosts("60mbit")
    steps = b.steps(200)
    p = b.workers("--threads", 1, "--compress", "none", "--max-steps", steps, cores=[0, 1], network=True)
    b.at_step(0.3 * steps, p)
    b.network.shape(None)
    r = b.finish(p)
    changes = bottleneck(r)["changes"]
    return r, cause_is(r, "network") and len(changes) == 1 and changes[0]["after"] < changes[0]["before"]


@case("4", "other work on the core of rank 1 from mid-run on")
def hog_on_rank_1(b):
    steps = b.steps(400)
    p = b.workers("--threads", 1, "--max-steps", steps, cores=[0, 1])
    b.at_step(steps // 2, p)
    b.hog(1)
    begun = b.last_step()
    r = b.finish(p)
    return r, (cause_is(r, "interference") and bottleneck(r)["rank"] == 1 and late(r) == {1: "other processes"}
               and change_near(r, begun))


@case("4b", "other work on the core of rank 0 from the start on")
def hog_on_rank_0(b):
    b.hog(0)
    r = b.finish(b.workers("--threads", 1, "--max-steps", b.steps(200), cores=[0, 1]))
    return r, cause_is(r, "interference") and late(r) == {0: "other processes"}


def hogs_beside_one(b, count, from_step, steps):
    p = [b.worker("--threads", 2, "--max-steps", steps)]
    b.at_step(from_step, p)
    for _ in range(count):
        b.hog("0-1")
    begun = b.last_step()
    r = b.finish(p)
    return r, cause_is(r, "interference") and change_near(r, begun)


@case("5", "two busy processes beside one worker from mid-run on")
def two_hogs(b):
    steps = b.steps(300)
    return hogs_beside_one(b, 2, 0.6 * steps, steps)


@case("5b", "four busy processes beside one worker for the last fifth")
def four_hogs(b):
    steps = b.steps(300)
    return hogs_beside_one(b, 4, 0.8 * steps, steps)


@case("5c", "one busy process beside one worker of one thread: a core is free")
def harmless_hog(b):
    b.hog(1)
    r = b.finish([b.worker("--threads", 1, "--max-steps", b.steps(150), cores=0)])
    return r, cause_is(r, "compute") and not bottleneck(r)["changes"]


@case("6", "checkpoints every 3 steps, long steps: writing beside them takes the cores", alone=True)
def checkpoints(b):
    r = b.finish([b.worker("--threads", 2, "--model.width", 384, "--batch.target-tokens", 600, "--max-steps",
                           b.steps(100), "--checkpoint.every", 3)])
    shares = bottleneck(r)["shares"]
    return r, shares.get("checkpoint", 0) > 0.1 and times_add_up(r)


@case("6b", "checkpoints every 3 steps, short steps", alone=True)
def checkpoints_stall(b):
    r = b.finish([b.worker("--threads", 2, "--model.width", 512, "--batch.target-tokens", 60, "--max-steps",
                           b.steps(60), "--checkpoint.every", 3)])
    return r, cause_is(r, "checkpoint") and times_add_up(r)


@case("7", "evaluation with BLEU every 10 steps")
def evaluations(b):
    r = b.finish([b.worker("--threads", 2, "--batch.target-tokens", 1000, "--max-steps", b.steps(150), "--eval.every",
                           10, "--eval.bleu", "--eval.sentences", 200)])
    return r, cause_is(r, "evaluation") and "--eval.every 20" in bottleneck(r)["advice"]


@case("13", "killed three times, with a pause before each resume")
def killed(b):
    steps = b.steps(400)
    for share in (0.38, 0.49, 0.72):
        p = b.worker("--threads", 2, "--checkpoint.every", steps // 4, "--max-steps", steps)
        b.at_step(share * steps, [p])
        p.send_signal(signal.SIGKILL)
        p.wait()
        time.sleep(1)
    r = b.finish([b.worker("--threads", 2, "--checkpoint.every", steps // 4, "--max-steps", steps)])
    t = r["numbers"]["time"]
    answer = next(q["answer"] for q in r["questions"] if q["id"] == "how-long")
    return r, times_add_up(r) and t["repeated"] > 0.1 * t["wall"] and t["paused"] >= 2 and "worthless" in answer


@case("14a", "both workers on core 0")
def one_core(b):
    r = b.finish(b.workers("--threads", 1, "--max-steps", b.steps(150), cores=[0, 0]))
    return r, cause_is(r, "shared cores")


@case("14b", "rank 0 on core 0, ranks 1 and 2 on core 1")
def two_on_one(b):
    r = b.finish(b.workers("--threads", 1, "--max-steps", b.steps(200), cores=[0, 1, 1], size=3))
    return r, cause_is(r, "shared cores") and late(r) == {1: "shared cores", 2: "shared cores"}


@case("14d", "three workers on two cores")
def three_workers(b):
    r = b.finish(b.workers("--threads", 1, "--max-steps", b.steps(200), cores=["0-1"] * 3, size=3))
    return r, cause_is(r, "shared cores") and "ranks 0, 1 and 2 share 2 cores" in bottleneck(r)["because"]


@case("14e", "one worker of two threads on one core")
def two_threads(b):
    r = b.finish([b.worker("--threads", 2, "--max-steps", b.steps(150), cores=0)])
    return r, cause_is(r, "shared cores")


@case("14f", "moved to one core in mid-run (taskset)")
def repinned(b):
    steps = b.steps(300)
    p = [b.worker("--threads", 2, "--max-steps", steps)]
    b.at_step(steps // 2, p)
    subprocess.run(["taskset", "-apc", on_this_machine(0), str(p[0].pid)], check=True, stdout=subprocess.DEVNULL)
    begun = b.last_step()
    r = b.finish(p)
    return r, cause_is(r, "shared cores") and change_near(r, begun)


@case("18", "a CPU quota of a third of a core on rank 1")
def quota(b):
    try:
        limit = Quota(0.33)
    except PermissionError as error:
        raise Skipped(str(error)) from error
    with limit:
        r = b.finish(b.workers("--threads", 1, "--max-steps", b.steps(100), begin=[None, limit.limit_this_process]))
    return r, cause_is(r, "straggler") and late(r).get(1) == "quota"


@case("18b", "a CPU quota of half a core on a single worker, from mid-run on")
def quota_of_one(b):
    try:
        limit = Quota(0.5)
    except PermissionError as error:
        raise Skipped(str(error)) from error
    with limit:
        steps = b.steps(200)
        p = [b.worker("--threads", 1, "--max-steps", steps, cores=0)]
        b.at_step(steps // 2, p)
        limit.limit_process(p[0].pid)
        begun = b.last_step()
        r = b.finish(p)
    return r, cause_is(r, "cpu quota") and change_near(r, begun)


@case("16", "nothing: one worker")
def healthy(b):
    r = b.finish([b.worker("--threads", 2, "--max-steps", b.steps(300), "--eval.every", 150)])
    return r, cause_is(r, "compute") and not bottleneck(r)["changes"] and times_add_up(r)


@case("16b", "nothing: two workers with a core each")
def healthy_two(b):
    r = b.finish(b.workers("--threads", 1, "--max-steps", b.steps(300), cores=[0, 1]))
    return r, cause_is(r, "compute") and not bottleneck(r)["changes"] and times_add_up(r)


@case("17", "doctor's prediction over a link of 100 Mbit/s")
def doctor(b):
    b.hosts("100mbit")
    size = 2
    output = os.path.join(b.folder, "doctor.json")
    Bench.port += 1
    found = []
    for rank in range(size):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_PORT": str(Bench.port),
               "MASTER_ADDR": b.network.address(0), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "REIGEN_TOKEN": TOKEN}
        command = b.network.command(rank, "taskset", "-c", on_this_machine(rank), b.reigen, "doctor", "--data", b.data,
                                    *MODEL[:-1], "--device", "cpu", "--threads", 1, "--compress", "none", "--json")
        with open(output if rank == 0 else os.devnull, "w") as out:
            found.append(subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.DEVNULL))
    for process in found:
        if process.wait(timeout=300) != 0:
            raise RuntimeError("reigen doctor failed")
    r = b.finish(b.workers("--threads", 1, "--compress", "none", "--max-steps", b.steps(60), cores=[0, 1],
                           network=True))
    with open(output) as file:
        predicted = json.load(file)["forecast"]["step_seconds"]
    return r, abs(r["numbers"]["mean_step_seconds"] / predicted - 1) < 0.1


@case("19", "a link that is slow for two seconds out of every five")
def flapping_link(b):
    b.hosts()
    p = b.workers("--threads", 1, "--compress", "none", "--max-steps", b.steps(200), cores=[0, 1], network=True)
    b.at_step(5, p)
    while p[0].poll() is None:
        b.network.shape("30mbit")
        time.sleep(2)
        b.network.shape(None)
        time.sleep(3)
    r = b.finish(p)
    return r, cause_is(r, "network")


@case("20", "a link that loses 2% of its packets")
def lossy_link(b):
    b.relayed_hosts()
    for host in (0, 1):
        b.network.impair(host, delay=0.01, loss=0.02)
    r = b.finish(b.workers("--threads", 1, "--compress", "none", "--max-steps", b.steps(40), cores=[0, 1],
                           network=True))
    return r, cause_is(r, "network")


@case("21", "other work on the core of rank 1 for two seconds out of every six")
def periodic_load(b):
    p = b.workers("--threads", 1, "--max-steps", b.steps(300), cores=[0, 1])
    while p[0].poll() is None:
        b.hog(1)
        time.sleep(2)
        b.end_others()
        time.sleep(4)
    r = b.finish(p)
    # A sixth of the time: named or mentioned, and nothing else is.
    slow = bottleneck(r)["because"]
    return r, cause_is(r, "interference") or (cause_is(r, "compute") and "other processes had" in slow)


@case("22", "rank 1 stopped for half a second of every two (a VM that pauses)")
def stopped_now_and_then(b):
    p = b.workers("--threads", 1, "--max-steps", b.steps(200), cores=[0, 1])
    b.at_step(5, p)
    while p[0].poll() is None:
        p[1].send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        p[1].send_signal(signal.SIGCONT)
        time.sleep(1.5)
    r = b.finish(p)
    return r, cause_is(r, "straggler") and late(r) == {1: "quota"}


@case("23", "a disk that is full after the first checkpoints", alone=True)
def full_disk(b):
    with SmallDisk(b.folder, 24) as disk:
        b.run = os.path.join(disk.path, "run")
        r = b.finish([b.worker("--threads", 2, "--max-steps", b.steps(200), "--checkpoint.every", 40)], stopped=True)
    return r, "No space left" in json.dumps(r["notes"])


@case("24", "batches of 30 tokens for a wide model")
def tiny_batch(b):
    r = b.finish([b.worker("--threads", 2, "--model.width", 512, "--batch.target-tokens", 30, "--max-steps",
                           b.steps(100))])
    return r, cause_is(r, "compute") and "larger --batch.target-tokens" in bottleneck(r)["advice"]


@case("25", "latency of 40 ms from the start, and short steps")
def far_apart(b):
    b.relayed_hosts()
    for host in (0, 1):
        b.network.impair(host, delay=0.02)
    r = b.finish(b.workers("--threads", 1, "--compress", "none", "--model.width", 32, "--model.ffn-width", 64,
                           "--batch.target-tokens", 500, "--max-steps", b.steps(150), cores=[0, 1], network=True))
    return r, cause_is(r, "network")


@case("26", "a control group with too little memory for the data and the model", alone=True)
def little_memory(b):
    with MemoryLimit(36) as limit:
        r = b.finish([b.worker("--threads", 2, "--model.width", 512, "--batch.target-tokens", 200, "--max-steps",
                               b.steps(60), begin=limit.limit_this_process)])
    return r, cause_is(r, "memory")


@case("27", "the thread that reads has a thousandth of a core")
def slow_reader(b):
    try:
        limit = Quota(0.001, period=1_000_000)
    except PermissionError as error:
        raise Skipped(str(error)) from error
    with limit:
        p = [b.worker("--threads", 1, "--model.width", 16, "--model.heads", 2, "--model.ffn-width", 16,
                      "--batch.target-tokens", 400, "--max-time", "20s")]
        while p[0].poll() is None:
            thread = thread_of(p[0].pid, "reigen-input")
            if thread is not None:
                limit.limit(thread)
                break
        r = b.finish(p)
    return r, cause_is(r, "input") and "leave a core free" in bottleneck(r)["advice"]


@case("28", "one thread beside an idle core")
def few_threads(b):
    r = b.finish([b.worker("--threads", 1, "--max-steps", b.steps(100))])
    return r, cause_is(r, "compute") and "--threads 2" in bottleneck(r)["advice"]
