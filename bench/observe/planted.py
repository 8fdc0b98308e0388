#!/usr/bin/env python3
"""Does the report name the cause? Real runs with one planted cause each; only report.json is read.

    python3 bench/observe/planted.py --reigen build/release/reigen [--work DIR] [--json FILE] [CASE...]

Every case plants one cause (a shaped link, other work on a core, workers pinned to one core, checkpoints
after every third step, a kill), trains for some seconds and compares the verdict with the cause. A table
of cause, verdict, and right or wrong is printed; the exit status is the number of wrong verdicts. Cases
that need a permission that is missing (network namespaces, control groups) are skipped. Run it on a
machine without other load: other work on it is a cause, too. Needs two cores.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, "tests", "dist"))
sys.path.insert(0, os.path.join(SOURCE, "tests", "cli"))
import namespaces
from quota import Quota

TOKEN = "0123456789abcdef0123456789abcdef"
MODEL = ["--preset", "tiny", "--recipe", "classic", "--schedule.kind", "fixed", "--schedule.rate", "0.002",
         "--schedule.warmup-steps", "10", "--eval.every", "0", "--no-eval.bleu", "--device", "cpu", "--quiet"]
CASES = {}


class Skipped(Exception):
    """The machine does not permit what the case plants."""


def case(name, cause):
    """Registers a case: `cause` says what is planted."""
    def register(function):
        CASES[name] = (cause, function)
        return function
    return register


class Bench:
    """Starts the runs of one case and reads their report."""

    port = 29800

    def __init__(self, reigen, data, folder, steps):
        self.reigen, self.data, self.folder, self.scale = reigen, data, folder, steps
        self.run = os.path.join(folder, "run")
        self.others = []
        self.network = None

    def steps(self, count):
        """The number of steps of a run, shortened or lengthened by --scale."""
        return max(40, int(count * self.scale))

    def worker(self, *options, rank=0, size=1, cores=None, host=None, begin=None):
        Bench.port += 1 if rank == 0 else 0
        env = {**os.environ}
        if size > 1:
            place = self.network.address(0) if self.network else "127.0.0.1"
            env.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_PORT=str(Bench.port), MASTER_ADDR=place,
                       LOCAL_RANK="0" if self.network else str(rank),
                       LOCAL_WORLD_SIZE="1" if self.network else str(size))
            if self.network:
                env["REIGEN_TOKEN"] = TOKEN
        command = [self.reigen, "train", "--run", self.run, "--data", self.data, *MODEL, *map(str, options)]
        if cores is not None:
            command = ["taskset", "-c", str(cores), *command]
        if host is not None:
            command = self.network.command(host, *command)
        with open(os.path.join(self.folder, f"rank-{rank}.txt"), "a") as log:
            return subprocess.Popen(command, env=env, stdout=log, stderr=log, preexec_fn=begin)

    def workers(self, *options, cores=None, size=2, network=False, begin=None):
        cores = cores or [None] * size
        return [self.worker(*options, rank=rank, size=size, cores=cores[rank], host=rank if network else None,
                            begin=begin[rank] if begin else None) for rank in range(size)]

    def hosts(self, rate=None):
        if not namespaces.permitted():
            raise Skipped("network namespaces are not permitted")
        self.network = namespaces.Network(2, rate=rate)

    def shape(self, host, rate):
        """The outgoing rate of one host."""
        command = ["ip", "netns", "exec", self.network.names[host], "tc", "qdisc"]
        subprocess.run([*command, "del", "dev", "eth0", "root"], capture_output=True, check=False)
        subprocess.run([*command, "add", "dev", "eth0", "root", *rate.split()], check=True)

    def hog(self, cores):
        """A process that uses a core for as long as it is let."""
        self.others.append(subprocess.Popen(["taskset", "-c", str(cores), sys.executable, "-c",
                                             "while True: pass"]))

    def last_step(self):
        try:
            with open(f"{self.run}/measurements/rank-0.jsonl") as file:
                steps = [line for line in file if line.startswith('{"kind":"step"') and line.endswith("\n")]
            return json.loads(steps[-1])["step"] if steps else 0
        except FileNotFoundError:
            return 0

    def at_step(self, step, processes):
        while self.last_step() < step:
            if any(p.poll() not in (None, 0) for p in processes):
                raise RuntimeError(f"a worker failed; see {self.folder}/rank-*.txt")
            time.sleep(0.05)

    def finish(self, processes):
        for process in processes:
            if process.wait(timeout=600) != 0:
                raise RuntimeError(f"a worker failed; see {self.folder}/rank-*.txt")
        with open(f"{self.run}/report.json") as file:
            return json.load(file)

    def close(self):
        for process in self.others:
            process.kill()
            process.wait()
        self.others = []
        if self.network:
            self.network.close()


def bottleneck(report):
    return report["verdicts"]["bottleneck"]


def cause_is(report, *causes):
    return bottleneck(report)["cause"] in causes


def change_near(report, step, tolerance=0.1):
    """A change in the time of a step that made it longer, near the step at which the cause began."""
    last = report["numbers"]["steps"]
    return any(c["after"] > c["before"] and abs(c["step"] - step) <= tolerance * last + 5
               for c in bottleneck(report)["changes"])


def late(report):
    return {r["rank"]: r["reason"] for r in bottleneck(report)["late_ranks"]}


def times_add_up(report):
    t = report["numbers"]["time"]
    parts = [t[k] for k in ("steps", "evaluations", "stalls", "start_up", "repeated", "other")]
    return min(parts) >= 0 and abs(sum(parts) - t["wall"]) < 1e-3


@case("1", "link of 100 Mbit/s in both directions")
def slow_link(b):
    b.hosts("100mbit")
    r = b.finish(b.workers("--threads", 1, "--compress", "none", "--max-steps", b.steps(60), cores=[0, 1], network=True))
    links = {(l["from"], l["to"]): 8e-6 * l["bandwidth"] for l in r["numbers"]["links"]}
    return r, cause_is(r, "network") and all(70 < links[pair] < 130 for pair in ((0, 1), (1, 0)))


@case("2", "only rank 1 to rank 0 limited, to 40 Mbit/s")
def one_direction(b):
    b.hosts()
    b.shape(1, "tbf rate 40mbit burst 256kb latency 50ms")
    r = b.finish(b.workers("--threads", 1, "--compress", "none", "--max-steps", b.steps(40), cores=[0, 1], network=True))
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
    b.hosts()
    steps = b.steps(300)
    p = b.workers("--threads", 1, "--compress", "none", "--max-steps", steps, cores=[0, 1], network=True)
    b.at_step(0.7 * steps, p)
    for host in (0, 1):
        b.shape(host, "netem delay 40ms")
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


@case("6", "checkpoints every 3 steps, long steps: writing beside them takes the cores")
def checkpoints(b):
    r = b.finish([b.worker("--threads", 2, "--model.width", 384, "--batch.target-tokens", 600, "--max-steps",
                           b.steps(100), "--checkpoint.every", 3)])
    shares = bottleneck(r)["shares"]
    return r, shares.get("checkpoint", 0) > 0.1 and times_add_up(r)


@case("6b", "checkpoints every 3 steps, short steps")
def checkpoints_stall(b):
    r = b.finish([b.worker("--threads", 2, "--model.width", 512, "--batch.target-tokens", 60, "--max-steps",
                           b.steps(60), "--checkpoint.every", 3)])
    return r, cause_is(r, "checkpoint") and times_add_up(r)


@case("7", "evaluation with BLEU every 10 steps")
def evaluations(b):
    r = b.finish([b.worker("--threads", 2, "--max-steps", b.steps(150), "--eval.every", 10, "--eval.bleu",
                           "--eval.sentences", 200)])
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
    subprocess.run(["taskset", "-apc", "0", str(p[0].pid)], check=True, stdout=subprocess.DEVNULL)
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
        command = b.network.command(rank, "taskset", "-c", rank, b.reigen, "doctor", "--data", b.data, *MODEL[:-1],
                                    "--threads", 1, "--compress", "none", "--json")
        with open(output if rank == 0 else os.devnull, "w") as out:
            found.append(subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.DEVNULL))
    for process in found:
        if process.wait(timeout=300) != 0:
            raise RuntimeError("reigen doctor failed")
    r = b.finish(b.workers("--threads", 1, "--compress", "none", "--max-steps", b.steps(60), cores=[0, 1], network=True))
    with open(output) as file:
        predicted = json.load(file)["forecast"]["step_seconds"]
    return r, abs(r["numbers"]["mean_step_seconds"] / predicted - 1) < 0.1


def prepare(reigen, folder):
    text, data = os.path.join(folder, "text"), os.path.join(folder, "data")
    subprocess.run([reigen, "corpus", "--pairs", "40000", "--valid-pairs", "500", "--test-pairs", "1", "--output", text,
                    "--quiet"], check=True)
    subprocess.run([reigen, "prepare", "--source", "en", "--target", "de", "--train", f"{text}/train.en",
                    f"{text}/train.de", "--valid", f"{text}/valid.en", f"{text}/valid.de", "--vocab-size", "2000",
                    "--output", data, "--quiet"], check=True)
    return data


def plant(name, options, data, folder):
    """The row of a case: what was planted, the verdict, whether it is right."""
    cause, function = CASES[name]
    place = os.path.join(folder, f"case-{name}")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    bench = Bench(options.reigen, data, place, options.scale)
    row = {"case": name, "planted": cause}
    try:
        report, right = function(bench)
        verdict = bottleneck(report)
        since = f" {verdict['since']}" if verdict["since"] else ""
        row |= {"verdict": f"{verdict['verdict']}{since} ({verdict['confidence']})", "right": bool(right),
                "because": verdict["because"], "advice": verdict["advice"]}
    except Skipped as reason:
        row |= {"verdict": f"skipped: {reason}", "right": None}
    finally:
        bench.close()
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reigen", required=True)
    parser.add_argument("--work", help="folder for the runs, which is not removed")
    parser.add_argument("--json", help="file for all rows with evidence and advice")
    parser.add_argument("--scale", type=float, default=1, help="factor for the number of steps")
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; all by default")
    options = parser.parse_args()
    options.reigen = os.path.abspath(options.reigen)
    for name in options.cases:
        if name not in CASES:
            parser.error(f"unknown case {name}")
    folder = options.work or tempfile.mkdtemp(prefix="reigen-planted-")
    os.makedirs(folder, exist_ok=True)
    data = os.path.join(folder, "data")
    if not os.path.exists(data):
        prepare(options.reigen, folder)
    rows = []
    for name in options.cases or CASES:
        row = plant(name, options, data, folder)
        rows.append(row)
        right = {True: "right", False: "WRONG", None: ""}[row["right"]]
        print(f"{row['case']:>4}  {right:<6} {row['planted']}\n             {row['verdict']}", flush=True)
    judged = [row for row in rows if row["right"] is not None]
    wrong = sum(1 for row in judged if not row["right"])
    print(f"{len(judged) - wrong} of {len(judged)} right")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    if not options.work:
        shutil.rmtree(folder)
    return min(wrong, 100)


if __name__ == "__main__":
    sys.exit(main())
