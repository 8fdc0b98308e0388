#!/usr/bin/env python3
"""Elastic jobs under random schedules of faults: python3 chaos.py --reigen PATH --seeds 100 [--first N].

Prints each schedule that breaks something, with the output of its workers; the exit code is the number of them.
"""

import argparse
import concurrent.futures
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [HERE, os.path.join(HERE, "..", "dist")]
from elastic_job import TOLERANCE, Broken, ElasticJob, reference_losses, steps_in  # noqa: E402
from namespaces import Network, permitted  # noqa: E402
from schedule import NOTICED_AT_ONCE, schedule_of  # noqa: E402
from skew import Clocks, Disk, shim_in  # noqa: E402

STEPS = 100
SILENCE = 1  # seconds
PAUSE = 8  # seconds, of a worker that was cut off
JOIN_EVERY = 1  # seconds
JOINS_WITHIN = 10  # seconds, for the first answer of the job
LEAVES_WITHIN = 20  # seconds, of a worker that is told to leave
STOPPED = 130  # exit code of a worker that is told to leave while too few others are there
SMALL_BATCH, LARGE_BATCH = 800, 9000  # tokens: with the large ones a run takes long enough for workers to join again
# Losses of lossy methods depend on the shares of the workers: as far as different seeds of them are apart, from
# an undisturbed run of two workers.
LOSSY = 0.05
# Of the next step after a kill; after a cut or a stop --silence is added.
NEXT_STEP = 2  # seconds
# Left on a disk that is full: room for logs, and for their copies when the writer changes, but for no checkpoint.
ROOM_FOR_LOGS = 300_000

MODEL = ["--preset", "tiny", "--recipe", "classic", "--model.width", 32, "--model.heads", 2, "--model.ffn-width", 64,
         "--model.encoder-layers", 1, "--model.decoder-layers", 1,
         "--schedule.kind", "fixed", "--schedule.rate", "0.002", "--schedule.warmup-steps", 10,
         "--eval.every", 35, "--eval.sentences", 2, "--eval.samples", 0, "--checkpoint.every", 15,
         "--threads", 1, "--preflight", "0.1", "--log-every", 5, "--max-steps", STEPS]


def prepare(reigen, folder):
    """A small dataset; returns its path."""
    def run(*args):
        subprocess.run([reigen, *map(str, args)], check=True, capture_output=True)
    text, data = os.path.join(folder, "text"), os.path.join(folder, "data")
    run("corpus", "--pairs", 3000, "--valid-pairs", 50, "--test-pairs", 50, "--output", text, "--quiet")
    pair = lambda split: (f"{text}/{split}.en", f"{text}/{split}.de")
    run("prepare", "--source", "en", "--target", "de", "--train", *pair("train"), "--valid", *pair("valid"),
        "--vocab-size", 400, "--output", data, "--quiet")
    return data


class Player:
    """Plays schedules against the binary."""

    def __init__(self, reigen, folder, data, may_lose_writer, slack=None):
        self.reigen = reigen
        self.folder = folder
        self.data = data
        self.may_lose_writer = may_lose_writer
        self.shim = shim_in(folder)
        self.able = {name for name, possible in (("namespaces", permitted()), ("clocks", self.shim is not None),
                                                 ("disk", Disk.permitted(folder))) if possible}
        self.slack = slack
        self.lock = threading.Lock()
        self.references = {}
        self.joined = self.left = 0  # workers
        self.times = {"kill": [], "silence": []}  # until the next step, after the fault or after --silence

    def _arguments(self, schedule):
        return ["--data", self.data, *MODEL, "--batch.target-tokens", LARGE_BATCH if schedule.slow else SMALL_BATCH,
                "--optimizer.kind", schedule.optimizer, "--compress", schedule.compress, "--silence", SILENCE,
                "--pause", PAUSE, "--join-every", JOIN_EVERY]

    def _reference(self, schedule):
        with self.lock:
            known = (schedule.optimizer, schedule.compress, schedule.slow)
            if known not in self.references:
                self.references[known] = self._undisturbed(schedule)
            return self.references[known]

    def _undisturbed(self, schedule):
        arguments = self._arguments(schedule)
        run = os.path.join(self.folder, f"{schedule.optimizer}-{schedule.compress}-{schedule.slow}")
        if schedule.compress == "none":
            return reference_losses(self.reigen, arguments, run)
        job = ElasticJob(self.reigen, arguments, run, 2)
        try:
            job.wait()
            return {r["step"]: r["loss"] for r in steps_in(job.run)}
        finally:
            job.close()

    def schedule(self, seed):
        return schedule_of(seed, self.able, self.may_lose_writer, STEPS, SILENCE)

    def play(self, schedule):
        """Raises Broken if something that must hold does not."""
        at = os.path.join(self.folder, f"schedule-{schedule.seed}")
        disk = Disk(at) if schedule.disk else None
        if not disk:
            os.mkdir(at)
        network = Network(schedule.workers + 1) if schedule.namespaces else None
        clocks = Clocks(self.shim, os.path.join(self.folder, f"schedule-{schedule.seed}")) if self.shim else None
        job = ElasticJob(self.reigen, self._arguments(schedule), os.path.join(at, "run"), schedule.workers, network,
                         clocks=clocks)
        try:
            faults = Faults(job, network, disk, clocks)
            faults.inflict(schedule)
            self._judge(faults.times)
            own = [w for w in job.workers if w not in faults.joining]
            survivors = [w for w in own if w not in schedule.lost or w in schedule.drained]
            accepted = {w: (0, STOPPED) if w in schedule.drained else (0,) for w in survivors}
            codes = job.wait(survivors)
            for worker in list(job.stopped):
                job.resume(worker)
            job.wait(within=60 + PAUSE)
            job.check_ended()
            wrong = {w: codes[w] for w in survivors if codes[w] not in accepted[w]}
            if wrong:
                raise Broken(f"survivors ended with {wrong}\n{job.all_output()}")
            job.check_steps(self._reference(schedule), STEPS, TOLERANCE if schedule.compress == "none" else LOSSY)
            job.check_last_checkpoint(STEPS)
            self._check_members(job)
        finally:
            job.close()
            if disk:
                disk.close()
            if network:
                network.close()

    def _check_members(self, job):
        """Workers that joined, and were not lost again, end with 0."""
        members = set()
        for change in job.changes():
            members -= {entry["worker"] for entry in change.get("lost", []) + change.get("left", [])}
            members |= {entry["worker"] for entry in change.get("joined", [])}
            self.joined += len(change.get("joined", []))
            self.left += len(change.get("left", []))
        wrong = {w: code for w in members if (code := job.workers[w].poll()) != 0}
        if wrong:
            raise Broken(f"members of the last membership ended with {wrong}\n{job.all_output()}")

    def _judge(self, times):
        for kind, seconds in times:
            self.times[kind].append(seconds)
            if self.slack is not None and seconds > NEXT_STEP + self.slack:
                raise Broken(f"the next step came {seconds:.1f} s after the {'kill' if kind == 'kill' else 'silence'}")

    def summary(self):
        texts = [f"{self.joined} workers joined again, {self.left} left"]
        for kind, after in (("kill", "a kill"), ("silence", "the silence limit")):
            times = sorted(self.times[kind])
            if times:
                texts.append(f"next step after {after}: median {statistics.median(times):.2f} s, 95% within "
                             f"{times[int(0.95 * (len(times) - 1))]:.2f} s, at most {times[-1]:.2f} s ({len(times)})")
        return "; ".join(texts)


class Faults:
    """Inflicts the faults of a schedule on a job."""

    def __init__(self, job, network, disk, clocks):
        self.job = job
        self.network = network
        self.disk = disk
        self.clocks = clocks
        self.timers = []
        self.leaving = set()
        self.joining = set()  # those of them that join are members, and judged as such

    def inflict(self, schedule):
        step = recovered = 0  # a later step shows that the job continued after the faults so far
        self.times = []
        for moment, after in zip(schedule.moments, [*schedule.moments[1:], None]):
            if not moment.follows:
                self.job.wait_for_step(max(moment.step, recovered))
                self._wait_for_leavers()
                if recovered >= STEPS and step >= STEPS:
                    break  # no further step can show that the job continued without those it lost
            time.sleep(moment.delay)
            begin, step = time.monotonic(), self.job.last_step()
            for fault in moment.faults:
                getattr(self, fault.kind)(fault)
            if moment.faults[0].kind == "restart":
                recovered = 0
                continue
            recovered = min(self.job.last_step() + 6, STEPS)
            if not (after and after.follows):
                self._measure(moment, step, begin)

    def _measure(self, moment, step, begin):
        """The time until the next step, unless other faults prolong it. The step that was under way may be that of
        the workers before."""
        kinds = {fault.kind for fault in moment.faults}
        if step + 2 > STEPS or moment.follows or not kinds <= {"kill", "stop", "wake", "isolate", "link_down", "clock"}:
            return
        lossy = kinds - {"clock"}
        if not lossy:
            return
        self.job.wait_for_step(step + 2)
        seconds = time.monotonic() - begin
        self.times.append(("kill", seconds) if lossy <= set(NOTICED_AT_ONCE) else ("silence", seconds - SILENCE))

    def _later(self, seconds, call, *arguments):
        timer = threading.Timer(seconds, call, arguments)
        timer.daemon = True
        timer.start()
        self.timers.append(timer)

    def kill(self, fault):
        self.job.kill(fault.worker)

    def stop(self, fault):
        self.job.stop(fault.worker)

    def pause(self, fault):
        self.job.stop(fault.worker)
        self._later(fault.seconds, self.job.resume, fault.worker)

    def wake(self, fault):
        self.pause(fault)

    def drain(self, fault):
        self.leaving.add(fault.worker)
        self.job.drain(fault.worker)

    def join(self, fault):
        host = len(self.network.names) - 1 if self.network else None
        self.joining.add(fault.worker)
        self.job.join(fault.worker, "--threads", 1, "--start-within", JOINS_WITHIN, host=host)

    def _wait_for_leavers(self):
        for worker in self.leaving:
            self.job.wait([worker], LEAVES_WITHIN)
        self.leaving.clear()

    def isolate(self, fault):
        self.network.isolate(fault.worker)
        if fault.seconds:
            self._later(fault.seconds, self.network.heal, fault.worker, fault.far)

    def link_down(self, fault):
        self.network.cut(fault.worker)
        if fault.seconds:
            self._later(fault.seconds, self.network.uncut, fault.worker)

    def restart(self, fault):
        for timer in self.timers:
            timer.cancel()
        self.leaving.clear()
        self.joining.clear()
        if self.network:
            hosts = range(len(self.network.names))
            for host in hosts:
                self.network.uncut(host)
                self.network.heal(host, [other for other in hosts if other != host])
        if self.disk:
            self.disk.make_room()
        self.job.restart(fault.worker)

    def cut(self, fault):
        for other in fault.far:
            self.network.separate(fault.worker, other)
        self._later(fault.seconds, self.network.heal, fault.worker, fault.far)

    def one_way(self, fault):
        self.network.drop(fault.worker, fault.other)

    def separate(self, fault):
        self.network.separate(fault.worker, fault.other)

    def fill(self, fault):
        self.disk.fill(ROOM_FOR_LOGS)
        self._later(fault.seconds, self.disk.make_room)

    def clock(self, fault):
        self.clocks.jump(fault.worker, fault.seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reigen", required=True)
    parser.add_argument("--seeds", type=int, default=20, help="number of schedules")
    parser.add_argument("--first", type=int, default=1, help="seed of the first one")
    parser.add_argument("--jobs", type=int, default=1, help="schedules that are played at once")
    parser.add_argument("--minutes", type=float, default=0, help="begin no schedule after this time; 0: no limit")
    parser.add_argument("--slack", type=float, help="seconds in addition to those that the next step after a fault may "
                        "take; without it they are only measured")
    parser.add_argument("--keep-writer", action="store_true", help="no faults of the worker that writes the run")
    options = parser.parse_args()
    begin = time.monotonic()
    broken = []
    with tempfile.TemporaryDirectory(prefix="reigen-chaos-") as folder:
        player = Player(os.path.abspath(options.reigen), folder, prepare(options.reigen, folder),
                        not options.keep_writer, options.slack)

        def play(seed):
            if options.minutes and time.monotonic() - begin > 60 * options.minutes:
                return 0
            schedule = player.schedule(seed)
            try:
                player.play(schedule)
            except Broken as problem:
                broken.append(seed)
                print(f"BROKEN {schedule}\n{problem}\n", flush=True)
            return 1

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            played = sum(pool.map(play, range(options.first, options.first + options.seeds)))
    seconds = time.monotonic() - begin
    print(f"{played} schedules in {seconds:.0f} s, {len(broken)} broken{': ' if broken else ''}"
          f"{', '.join(map(str, broken))}\n{player.summary()}")
    return min(len(broken), 100)


if __name__ == "__main__":
    sys.exit(main())
