"""Checks the model of the membership protocol (elastic.pml) with spin, and that the check can fail.

Each case is a full search within its bounds: workers, steps, formings and faults. A mutation leaves out one rule of the
protocol, and spin must find a schedule of faults in which the named assertion fails. With REIGEN_TEST_ALL set, larger
bounds are searched, too.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "elastic.pml")

# Faults that one search combines, in any order and at any moment.
HOLDS = [
    "WORKERS=2 CRASHES=1 STOPS=1 CUTS=1 JOINS",
    "WORKERS=3 CRASHES=2 PROOFS",
    "WORKERS=3 CRASHES=0 SPLITS=1 HEALS JOINS FORMINGS=5",
    "WORKERS=4 CRASHES=0 SPLITS=1 STEPS=1",
    "WORKERS=4 CRASHES=1 STEPS=1",
    "WORKERS=2 CRASHES=1 SPLITS=1 HEALS JOINS WITNESS",
    "WORKERS=2 CRASHES=1 CUTS=1 WITNESS BLINDS=1",
]
HOLDS_IN_ALL = [
    "WORKERS=2 CRASHES=1 STOPS=1 CUTS=1 JOINS WITNESS",
    "WORKERS=2 CRASHES=1 CUTS=1 WITNESS BLINDS=2",
    "WORKERS=3 CRASHES=0 SPLITS=1 WITNESS BLINDS=1",
    "WORKERS=3 CRASHES=1 SPLITS=1 PROOFS WITNESS",
    "WORKERS=3 CRASHES=1 STOPS=1 JOINS",
    "WORKERS=3 CRASHES=1 SPLITS=1 HEALS JOINS",
    "WORKERS=3 CRASHES=1 SPLITS=1 PROOFS",
    "WORKERS=3 CRASHES=0 CUTS=2 JOINS FORMINGS=5",
    "WORKERS=3 CRASHES=0 STOPS=1 CUTS=1 JOINS",
    "WORKERS=3 CRASHES=0 STOPS=2 JOINS FORMINGS=5",
    "WORKERS=4 CRASHES=0 SPLITS=1 STEPS=1 WITNESS",
    "WORKERS=4 CRASHES=0 SPLITS=1 HEALS JOINS STEPS=1",
    "WORKERS=4 CRASHES=2 STEPS=1 PROOFS",
    "WORKERS=4 CRASHES=1 SPLITS=1 STEPS=1",
    "WORKERS=4 CRASHES=1 STOPS=1 STEPS=1",
]
# The rule that is left out, the faults that show it, and the assertion that fails.
FAILS = [
    ("CURRENT_MAJORITY", "WORKERS=3 CRASHES=0 CUTS=1", "one_trains"),
    ("NO_TIE_BREAK", "WORKERS=2 CRASHES=0 CUTS=1", "one_trains"),
    ("FORGET_ATTEMPTS", "WORKERS=3 CRASHES=0 STOPS=1 CUTS=1", "one_trains"),
    ("PROOF_WITHOUT_RECORD", "WORKERS=3 CRASHES=1 SPLITS=1 PROOFS", "one_trains"),
    ("NO_FENCE", "WORKERS=3 CRASHES=0 STOPS=1", "in_addends"),
    ("VOTE_FIRST", "WORKERS=3 CRASHES=1", "buffer"),
    ("REDO", "WORKERS=3 CRASHES=1", "decided"),
    ("NO_SETTLING", "WORKERS=3 CRASHES=1", "reached"),
    ("KEEP_STATE", "WORKERS=3 CRASHES=0 STOPS=1 JOINS", "reached"),
    ("FORGETFUL_WITNESS", "WORKERS=2 CRASHES=0 CUTS=1 WITNESS", "one_trains"),
    ("LOWEST_WITHOUT_WITNESS", "WORKERS=2 CRASHES=0 CUTS=1 WITNESS BLINDS=1", "one_trains"),
    ("WAIT_FOR_HOST", "WORKERS=3 CRASHES=1 STOPS=1", "reached"),
]


def search(bounds, large):
    """The output of spin's verifier. A small search takes less time than a compiler that optimises."""
    with tempfile.TemporaryDirectory() as folder:
        defines = ["-D" + bound for bound in bounds.split()]
        subprocess.run(["spin", "-a", *defines, MODEL], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        options = ["-O2", "-DCOLLAPSE", "-DMEMLIM=6000"] if large else ["-O0", "-DMEMLIM=1000"]  # megabytes
        subprocess.run(["gcc", "-w", *options, "-DSAFETY", "-o", "pan", "pan.c"], cwd=folder, check=True)
        table = "-w26" if large else "-w18"  # log2 of the slots of the hash table
        done = subprocess.run(["./pan", "-m100000", table], cwd=folder, capture_output=True, text=True)
        return done.stdout + done.stderr


def check(bounds, mutation=None, assertion=None):
    """A line about the search, and whether it ended as it must."""
    begin = time.monotonic()
    out = search(bounds + (f" MUTATE_{mutation}" if mutation else ""), large=not mutation and bounds in HOLDS_IN_ALL)
    found = re.search(r"assertion violated \(*([a-z_]+)", out)
    other = re.search(r"pan:1: (?!assertion)(.*)", out)
    states = re.search(r"([\d.e+]+) states, stored", out)
    complete = "errors: 0" in out and not re.search("not completed|too small|error: max|out of memory", out)
    result = found[1] if found else other[1] if other else "holds" if complete else "not completed"
    line = f"{mutation or 'protocol'}: {bounds}: {result}, {states[1] if states else '?'} states"
    good = found is not None and found[1] == assertion if mutation else complete
    return f"{line}, {time.monotonic() - begin:.1f} s", good


def main():
    cases = [(bounds,) for bounds in HOLDS + (HOLDS_IN_ALL if os.environ.get("REIGEN_TEST_ALL") else [])]
    cases += [(bounds, mutation, assertion) for mutation, bounds, assertion in FAILS]
    failed = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for line, good in pool.map(lambda case: check(*case), cases):
            print(line, flush=True)
            if not good:
                failed.append(line)
    sys.exit("\n".join(["not as expected:", *failed]) if failed else None)


main()
