"""Planted causes of bad learning: too few pairs, schedules that end, rates that are too high, wrong text."""

import os
import random
import signal

from planted_bench import Skipped, case, corpus, prepare, trained

# Small enough to overfit, or to end its schedule, within seconds.
SMALL = ["--threads", 1, "--model.width", 64, "--model.ffn-width", 128, "--batch.target-tokens", 500, "--dropout", 0]


def few_pairs(b, pairs=60):
    b.data = prepare(b.reigen, b.folder, corpus(b.reigen, b.folder, pairs), 300)


def gain(report, more):
    """The predicted gain of loss of as many more steps; None where the report gives none."""
    found = [g for g in report["numbers"].get("expected_gains", []) if g["more"] == more]
    return found[0] if found else None


@case("8", "60 pairs without dropout: overfitting", about="overfitting")
def overfits(b):
    few_pairs(b)
    r = b.finish([b.worker(*SMALL, "--max-steps", b.steps(400), "--eval.every", 20)])
    over = r["verdicts"]["overfitting"]
    return r, over["answer"] == "yes" and trained(r)["answer"] == "past-its-best" and "best-loss" in over["advice"]


@case("9", "stopped at its best, then continued by half as many steps", about="trained")
def stopped_at_its_best(b):
    few_pairs(b)
    whole = b.run
    r = b.finish([b.worker(*SMALL, "--max-steps", b.steps(400), "--eval.every", 20)])
    best = int(r["numbers"]["overfitting"]["best_step"])
    b.run = whole + "-stopped"
    stopped = b.finish([b.worker(*SMALL, "--max-steps", best, "--eval.every", 20)])
    r = b.finish([b.worker(*SMALL, "--max-steps", int(1.5 * best), "--eval.every", int(0.5 * best))])
    came = stopped["numbers"]["overfitting"]["last_loss"] - r["numbers"]["overfitting"]["last_loss"]
    predicted = gain(stopped, 0.5)
    sure = trained(stopped)["answer"] == "improving" and trained(stopped)["confidence"] != "low"
    return stopped, not sure and (predicted is None or predicted["low"] <= came <= predicted["high"])


@case("10", "cosine down to 0: more steps change nothing", about="trained")
def schedule_ends(b):
    steps = b.steps(200)
    r = b.finish([b.worker(*SMALL, "--schedule.kind", "cosine", "--schedule.decay-steps", steps, "--max-steps", steps,
                           "--eval.every", steps // 10)])
    return r, trained(r)["answer"] == "schedule-over" and "expected_gains" not in r["numbers"]


@case("11", "learning rate 15 times too high, post-norm: only the frequencies of pieces are learnt", about="trained")
def rate_too_high(b):
    r = b.finish([b.worker(*SMALL, "--model.norm", "post", "--schedule.rate", 0.1, "--max-steps", b.steps(300),
                           "--eval.every", 30)])
    return r, trained(r)["answer"] == "useless" and "--schedule.rate 0.01" in trained(r)["advice"]


@case("11b", "learning rate 100 times too low: it hardly learns", about="trained")
def rate_too_low(b):
    r = b.finish([b.worker(*SMALL, "--schedule.rate", 0.00002, "--max-steps", b.steps(200), "--eval.every", 20)])
    return r, trained(r)["level"] == "hardly-learns" and "--schedule.rate 0.0002" in trained(r)["advice"]


@case("11c", "learning rate 75 times higher from the middle on: training loss rises", about="trained")
def rate_rises(b):
    half = b.steps(300) // 2
    r = b.finish([b.worker(*SMALL, "--schedule.kind", "piecewise", "--schedule.boundaries", half, "--schedule.values",
                           "0.004,0.3", "--max-steps", 2 * half, "--eval.every", half // 5)])
    rises = trained(r).get("rises", [])
    return r, trained(r)["answer"] in ("diverged", "getting-worse") and bool(rises) and \
        abs(rises[-1]["step"] - half) <= 0.1 * half


@case("12", "interrupted after 5% of its steps, within the warm-up", about="trained")
def interrupted(b):
    p = b.worker(*SMALL, "--schedule.kind", "noam", "--schedule.warmup-steps", 200, "--max-steps", 600,
                 "--eval.every", 100)
    b.at_step(28, [p])
    p.send_signal(signal.SIGINT)
    r = b.finish([p], stopped=True)
    return r, (trained(r)["answer"] == "improving" and "of 600 steps are done (" in trained(r)["because"]
               and "trains on to the planned step 600" in trained(r)["advice"])


@case("15", "validation text of a different domain (--real)", about="trained")
def other_domain(b):
    if not b.real:
        raise Skipped("--real is not given")
    for language in ("en", "de"):
        with open(f"{b.real}/train.{language}") as file, open(f"{b.folder}/other.{language}", "w") as out:
            out.writelines(line for _, line in zip(range(300), file))
    text = corpus(b.reigen, b.folder)
    b.data = prepare(b.reigen, b.folder, text, valid=[f"{b.folder}/other.en", f"{b.folder}/other.de"])
    r = b.finish([b.worker(*SMALL, "--max-steps", b.steps(300), "--eval.every", 50)])
    return r, trained(r)["validation_unlike_training"] and "validation" in trained(r)["advice"]


@case("15b", "validation pairs with source and target swapped", about="trained")
def swapped(b):
    text = corpus(b.reigen, b.folder)
    b.data = prepare(b.reigen, b.folder, text, valid=("valid.de", "valid.en"))
    r = b.finish([b.worker(*SMALL, "--max-steps", b.steps(300), "--eval.every", 50)])
    return r, trained(r)["validation_unlike_training"] and "direction" in trained(r)["because"] + trained(r)["advice"]


@case("15c", "training targets in a different order than their sources", about="data")
def shuffled(b):
    text = corpus(b.reigen, b.folder)
    with open(f"{text}/train.de") as file:
        lines = file.readlines()
    random.Random(1).shuffle(lines)
    with open(f"{text}/train.de", "w") as file:
        file.writelines(lines)
    b.data = prepare(b.reigen, b.folder, text)
    r = b.finish([b.worker(*SMALL, "--max-steps", b.steps(400), "--eval.every", 40, "--eval.bleu", "--eval.sentences",
                           50)])
    return r, r["verdicts"]["data"]["faults"] == ["unused-sources"]


@case("15d", "validation targets shifted by one line", about="data")
def shifted(b):
    text = corpus(b.reigen, b.folder)
    with open(f"{text}/valid.de") as file:
        lines = file.readlines()
    with open(f"{text}/valid.de", "w") as file:
        file.writelines(lines[1:] + lines[:1])
    b.data = prepare(b.reigen, b.folder, text)
    r = b.finish([b.worker(*SMALL, "--max-steps", b.steps(400), "--eval.every", 40)])
    return r, "misaligned-validation" in r["verdicts"]["data"]["faults"]


@case("15e", "30 validation pairs", about="data")
def few_validation_pairs(b):
    text = corpus(b.reigen, b.folder)
    for language in ("en", "de"):
        with open(f"{text}/valid.{language}") as file:
            lines = file.readlines()
        with open(f"{text}/valid.{language}", "w") as file:
            file.writelines(lines[:30])
    b.data = prepare(b.reigen, b.folder, text)
    r = b.finish([b.worker(*SMALL, "--max-steps", b.steps(300), "--eval.every", 30)])
    return r, r["verdicts"]["data"]["faults"] == ["few-validation-pairs"] and trained(r)["confidence"] != "high"


@case("15f", "dropout 0.7", about="overfitting")
def too_much_dropout(b):
    r = b.finish([b.worker(*SMALL, "--dropout", 0.7, "--max-steps", b.steps(300), "--eval.every", 30)])
    return r, r["verdicts"]["overfitting"]["dropout_too_high"]


@case("8b", "nothing: the loss falls as it should", about="trained")
def healthy(b):
    r = b.finish([b.worker(*SMALL, "--max-steps", b.steps(300), "--eval.every", 30)])
    sure = [g for g in r["numbers"].get("expected_gains", []) if g["low"] > 0]
    return r, trained(r)["answer"] == "improving" and sure and r["verdicts"]["overfitting"]["answer"] == "no" \
        and not r["verdicts"]["data"]["faults"]
