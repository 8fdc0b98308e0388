"""Schedules of faults, each a pure function of its seed.

A schedule is a list of moments. At each, faults hit some workers at once, and what they leave must be able to
continue by the rule of succession: more than half of the workers before, or half of them with rank 0. Workers
of which the others lose sight do not come back. The order of ranks stays, so the tie-breaker is the lowest.
"""

import dataclasses
import random

LOSSES = ("kill", "stop", "isolate", "one_way", "separate")


@dataclasses.dataclass
class Fault:
    kind: str
    worker: int
    other: int = -1  # of separate and one_way: the far end
    seconds: float = 0  # of pause: until it continues

    def __str__(self):
        far = f"-{self.other}" if self.other >= 0 else ""
        return f"{self.kind} {self.worker}{far}" + (f" for {self.seconds:.2f} s" if self.seconds else "")


@dataclasses.dataclass
class Moment:
    step: int  # the faults begin when this step is in the log,
    delay: float  # and so much later
    faults: list

    def __str__(self):
        return f"step {self.step} + {self.delay:.3f} s: " + ", ".join(map(str, self.faults))


@dataclasses.dataclass
class Schedule:
    seed: int
    workers: int
    compress: str
    namespaces: bool
    moments: list
    lost: set  # by number
    writer_lost: bool

    def __str__(self):
        where = "namespaces" if self.namespaces else "loopback"
        return (f"seed {self.seed}: {self.workers} workers in {where}, --compress {self.compress}; " +
                "; ".join(map(str, self.moments)))


def _can_go_on(before, after):
    return 2 * len(after) > len(before) or (2 * len(after) == len(before) and before[0] in after)


def _losses(rng, alive, namespaces, may_lose_writer, silence):
    """Faults that take one or two workers at once, and what is left."""
    kinds = LOSSES if namespaces else LOSSES[:2]
    for _ in range(50):
        candidates = alive if may_lose_writer else alive[1:]
        count = rng.choice((1, 1, 1, 2))
        if len(candidates) < count:
            continue
        victims = rng.sample(candidates, count)
        left = [w for w in alive if w not in victims]
        if not _can_go_on(alive, left) or not left:
            continue
        faults = []
        for victim in victims:
            kind = rng.choice(kinds)
            others = [w for w in left if w < victim]
            if kind in ("one_way", "separate") and (not others or count > 1):
                kind = "isolate"  # of two that do not reach each other, the higher rank is left out
            other = rng.choice(others) if kind in ("one_way", "separate") else -1
            faults.append(Fault(kind, victim, other))
        rng.shuffle(faults)
        return faults, left
    return [Fault("pause", rng.choice(alive), seconds=rng.uniform(0.05, 0.5 * silence))], alive


def schedule_of(seed, namespaces, may_lose_writer, steps, silence):
    rng = random.Random(seed)
    workers = rng.choice((2, 3, 3, 4, 4, 5, 6))
    compress = rng.choice(("none", "none", "none", "bf16", "int8", "int4", "powersgd:2"))
    isolated = namespaces and rng.random() < 0.4
    alive = list(range(workers))
    moments = []
    step = rng.randint(1, 12)
    while step < steps - 12 and len(moments) < 4:
        if rng.random() < 0.3:
            faults = [Fault("pause", rng.choice(alive), seconds=rng.uniform(0.05, 0.5 * silence))]
        else:
            faults, alive = _losses(rng, alive, isolated, may_lose_writer, silence)
        moments.append(Moment(step, rng.uniform(0, 0.1), faults))
        step += rng.randint(6, 30)
    lost = set(range(workers)) - set(alive)
    return Schedule(seed, workers, compress, isolated, moments, lost, 0 in lost)
