"""Schedules of faults, each a pure function of its seed.

A schedule is a list of moments. At each, faults hit some workers at once, and what they leave must be able to
continue by the rule of succession: more than half of the workers before, or half of them with rank 0. The order of
ranks stays, so the tie-breaker is the lowest. A moment may follow the one before so soon that the workers still form
their next membership, or settle; then what is left must be able to continue from both. Harmless faults must change
nothing: pauses and cuts that are shorter than --silence, a disk without room for a checkpoint, a clock that jumps. A
restart ends all workers, and others resume from the last checkpoint. Some workers are told to leave.

A worker that wakes, or whose cut heals, joins the others again, and new processes join: then they are more than the
schedule counts on, and may continue whenever those that it counts on may. Schedules in which workers wake, leave or
join have long steps.
"""

import dataclasses
import random

LOSSES = ("kill", "stop", "wake", "isolate", "link_down", "one_way", "separate")
ON_LOOPBACK = 3  # of them
NOTICED_AT_ONCE = ("kill",)  # the others only after --silence
# What each fault needs: nothing, or namespaces, or a disk of its own, or clocks of its own.
HARMLESS = {"pause": "", "cut": "namespaces", "fill": "disk", "clock": "clocks"}


@dataclasses.dataclass
class Fault:
    kind: str
    worker: int  # of restart: how many begin
    other: int = -1  # of separate and one_way: the far end
    seconds: float = 0  # until it continues or wakes, or the cut heals, or there is room; of clock: the jump
    far: tuple = ()  # of cut and isolate: the workers that it cannot reach, and can again when the cut heals

    def __str__(self):
        if self.kind == "restart":
            return f"restart with {self.worker} workers"
        far = f"-{self.other}" if self.other >= 0 else ""
        by = "by" if self.kind == "clock" else "for"
        who = f" {self.worker}{far}" if self.worker >= 0 else " the disk"
        return f"{self.kind}{who}" + (f" {by} {self.seconds:.2f} s" if self.seconds else "")


@dataclasses.dataclass
class Moment:
    step: int  # the faults begin when this step is in the log,
    delay: float  # and so much later
    faults: list
    follows: bool = False  # at once after the moment before, without a step between them

    def __str__(self):
        begin = "at once" if self.follows else f"step {self.step}"
        return f"{begin} + {self.delay:.3f} s: " + ", ".join(map(str, self.faults))


@dataclasses.dataclass
class Schedule:
    seed: int
    workers: int
    compress: str
    namespaces: bool
    disk: bool  # the run is on a disk of its own
    moments: list
    lost: set  # by number, of the workers since the last restart
    optimizer: str
    slow: bool  # long steps
    drained: set  # of the lost ones, those that are told to leave

    def __str__(self):
        where = "namespaces" if self.namespaces else "loopback"
        return (f"seed {self.seed}: {self.workers} workers in {where}, {self.optimizer}, --compress {self.compress}"
                f"{', long steps' if self.slow else ''}; " + "; ".join(map(str, self.moments)))


def _can_go_on(before, after):
    return 2 * len(after) > len(before) or (2 * len(after) == len(before) and before[0] in after)


def _harmless(rng, alive, able, silence):
    kind = rng.choice([kind for kind, needs in HARMLESS.items() if not needs or needs in able])
    worker = rng.choice(alive)
    if kind == "pause":
        return Fault(kind, worker, seconds=rng.uniform(0.05, 0.5 * silence))
    if kind == "cut":
        # TCP sends again after 0.2, 0.6 and 1.4 s.
        others = tuple(w for w in alive if w != worker)
        return Fault(kind, worker, seconds=rng.uniform(0.05, 0.35 * silence), far=others)
    if kind == "fill":
        return Fault(kind, -1, seconds=rng.uniform(0.2, 3))
    return Fault(kind, worker, seconds=rng.choice((-86400, -3600, -2, 2, 3600, 86400)))


def _losses(rng, bases, able, may_lose_writer, silence):
    """Faults that take one or two workers at once, and what is left. `bases`: the memberships that the workers may be
    in, the newest last."""
    alive = bases[-1]
    kinds = LOSSES if "namespaces" in able else LOSSES[:ON_LOOPBACK]
    kinds = [kind for kind in kinds if kind != "wake" or "wake" in able]
    for _ in range(50):
        candidates = alive if may_lose_writer else alive[1:]
        count = rng.choice((1, 1, 1, 2))
        if len(candidates) < count:
            continue
        victims = rng.sample(candidates, count)
        left = [w for w in alive if w not in victims]
        if not left or not all(_can_go_on(base, left) for base in bases):
            continue
        faults = []
        for victim in victims:
            kind = rng.choice(kinds)
            others = [w for w in left if w < victim]
            if kind in ("one_way", "separate") and (not others or count > 1 or len(bases) > 1):
                kind = "isolate"  # of two that do not reach each other, the higher rank is left out
            other = rng.choice(others) if kind in ("one_way", "separate") else -1
            # Some cuts heal when the others have continued.
            heals = rng.uniform(2, 4) * silence if kind in ("isolate", "link_down") and rng.random() < 0.5 else 0
            if kind == "wake":
                heals = rng.uniform(1.5, 3) * silence
            faults.append(Fault(kind, victim, other, heals, tuple(left)))
        rng.shuffle(faults)
        return faults, left
    return [], alive


def schedule_of(seed, able, may_lose_writer, steps, silence):
    """`able`: what the machine permits, of namespaces, disk, clocks."""
    rng = random.Random(seed)
    workers = rng.choice((2, 3, 3, 4, 4, 5, 6))
    compress = rng.choice(("none", "none", "none", "bf16", "int8", "int4", "powersgd:2"))
    optimizer = rng.choice(("adam", "adam", "muon"))
    isolated = "namespaces" in able and rng.random() < 0.4
    able = set(able) - (set() if isolated else {"namespaces"})
    slow = rng.random() < 0.5
    if slow:
        able.add("wake")
    alive = list(range(workers))
    drained = set()
    joins, present = False, workers
    hosts = workers
    moments = []
    step = rng.randint(1, 12)
    while step < steps and len(moments) < 5:
        before = alive
        if rng.random() < 0.3:
            faults = [_harmless(rng, alive, able, silence)]
        elif rng.random() < 0.1 and step > 15:  # there is a checkpoint
            count = rng.randint(2, hosts)
            faults, alive = [Fault("restart", count)], list(range(count))
            before = alive
            drained = set()
            joins, present = False, count
        elif slow and rng.random() < 0.25 and len(alive) > 1:
            leaves = rng.choice(alive if may_lose_writer else alive[1:])
            faults, alive = [Fault("drain", leaves)], [w for w in alive if w != leaves]
            drained.add(leaves)
        elif slow and not joins and rng.random() < 0.2:
            faults = [Fault("join", present)]
            joins = True
        else:
            faults, alive = _losses(rng, [alive], able, may_lose_writer, silence)
            if not faults or rng.random() < 0.3:
                faults.append(_harmless(rng, alive, able - {"namespaces"}, silence))
        moments.append(Moment(step, rng.uniform(0, 0.1), faults))
        if alive != before and rng.random() < 0.35:  # a double fault
            more, alive = _losses(rng, [before, alive], able, may_lose_writer, silence)
            # Until the loss is noticed, while the next membership is formed, while the step is settled.
            late = any(fault.kind not in NOTICED_AT_ONCE for fault in faults)
            delay = rng.uniform(0, 0.4) + (rng.uniform(0.8, 1.2) * silence if late and rng.random() < 0.7 else 0)
            if more:
                moments.append(Moment(step, delay, more, follows=True))
        step += rng.randint(6, 30)
    lost = set(range(present)) - set(alive)
    disk = any(fault.kind == "fill" for moment in moments for fault in moment.faults)
    return Schedule(seed, workers, compress, isolated, disk, moments, lost, optimizer, slow, drained)
