"""The runs of calibration.py: drawn from a seed and trained for seconds each.

A run of a regime is drawn from (seed, regime, number) alone, so that seeds never share a run.
"""

import contextlib
import json
import os
import random
import shutil
import subprocess

EVALUATIONS = 40  # of a run; its report is read after one of the first half of them

# Schedules that have no end within a run.
ENDLESS = ("fixed", "noam", "inverse-polynomial", "exponential")
REGIMES = ("plain", "real", "overfitting", "tiny-corpus", "ends", "high-rate", "far-too-high", "low-rate",
           "fine-tuning", "other-domain")
WITH_BLEU = ("plain", "overfitting", "ends", "fine-tuning")  # the built-in text, soon translated well
NEED_TEXT = ("real", "other-domain")  # --real DIR


def call(reigen, *args):
    done = subprocess.run([reigen, *map(str, args)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"reigen {' '.join(map(str, args))}: {done.stderr}")
    return done.stdout


def schedule(rng, kind, rates, steps):
    """Options of a schedule. `steps`: those after which a decay is a decay."""
    options = {"schedule.kind": kind, "schedule.warmup-steps": rng.choice([20, 60, 120])}
    if kind == "noam":
        options["schedule.factor"] = rng.choice([0.15, 0.3, 0.5])
    else:
        options["schedule.rate"] = rng.choice(rates)
    if kind in ("exponential", "cosine", "polynomial"):
        options["schedule.decay-steps"] = steps
    if kind == "wsd" and rng.random() < 0.5:
        options["schedule.decay-steps"] = steps // rng.choice([3, 5])
    return options


def model(rng, vocab, text):
    width = rng.choice([32, 32, 48, 64])
    layers = rng.choice([1, 1, 2])
    return {"model.width": width, "model.heads": 4, "model.ffn-width": 2 * width,
            "model.encoder-layers": layers, "model.decoder-layers": layers,
            "batch.target-tokens": rng.choice([150, 250, 400]), "dropout": rng.choice([0, 0.1, 0.3]),
            "seed": rng.randrange(1000), "vocab": vocab, "train_text": text}


def built_in(rng, pairs):
    return {"pairs": rng.choice(pairs), "seed": rng.randrange(1000)}


def real(rng, folders, pairs):
    return {"folder": rng.choice(folders), "pairs": rng.choice(pairs), "from": rng.random()}


def draw(seed, regime, number, folders):
    """The settings of one run; `folders`: names of real corpora."""
    rng = random.Random(f"{seed}/{regime}/{number}")
    every = rng.choice([15, 20, 25])
    steps = every * EVALUATIONS
    large = [10000, 40000]
    rates = [0.001, 0.002, 0.004]
    plan = {"regime": regime, "every": every, "steps": steps, "stop": every * rng.randrange(8, EVALUATIONS // 2 + 1)}
    kind = rng.choice(ENDLESS)
    vocab = rng.choice([300, 600, 1000])
    text = built_in(rng, large)
    valid = None
    if regime == "real":
        text = real(rng, folders, [8000])
        vocab = rng.choice([500, 1000, 2000])
    elif regime == "overfitting":
        small = [100, 200, 400, 800, 1500]
        text = real(rng, folders, small) if folders and rng.random() < 0.4 else built_in(rng, small)
        rates = [0.002, 0.004, 0.006]
        vocab = rng.choice([300, 500])
    elif regime == "tiny-corpus":  # memorised early: validation loss turns within the run
        text = real(rng, folders, [60, 100, 200]) if folders and rng.random() < 0.6 else built_in(rng, [40, 80])
        rates = [0.003, 0.006]
        vocab = 300
    elif regime == "far-too-high":
        rates = [0.1, 0.2, 0.4]
        kind = rng.choice(["fixed", "inverse-polynomial"])
    elif regime == "low-rate":
        rates = [0.00001, 0.00003, 0.0001, 0.0003]
        kind = rng.choice(["fixed", "inverse-polynomial", "exponential"])
    elif regime == "ends":
        kind = rng.choice(["cosine", "polynomial", "wsd", "wsd"])
        rates = [0.002, 0.004, 0.008]
        # Reports from the peak into the decay, and some after it.
        plan["stop"] = every * rng.randrange(8, 27)
    elif regime == "high-rate":
        rates = [0.015, 0.03, 0.06]
        kind = rng.choice(["fixed", "inverse-polynomial", "cosine"])
    elif regime == "fine-tuning":
        rates = [0.0005, 0.001, 0.002]
        text = built_in(rng, [1000, 4000, 20000])
        plan["first"] = {"text": built_in(rng, [8000]), "steps": rng.choice([300, 600])}
    elif regime == "other-domain":
        text, valid = rng.choice([(text, real(rng, folders, [200])),
                                  (real(rng, folders, [8000]), real(rng, folders, [200])),
                                  (real(rng, folders, [8000]), built_in(rng, [200]))])
        vocab = 1000
    # A decay ends between a third of the run and a little after it.
    length = round(steps * (rng.uniform(0.35, 1.1) if regime == "ends" else rng.uniform(0.8, 2)))
    plan["train"] = {**model(rng, vocab, text), **schedule(rng, kind, rates, length)}
    plan["valid_text"] = valid
    if regime == "tiny-corpus":
        plan["train"].update({"dropout": rng.choice([0, 0, 0.1]), "model.width": 64, "model.ffn-width": 128,
                              "batch.target-tokens": 400})
    if regime == "far-too-high":
        plan["train"]["model.norm"] = rng.choice(["pre", "post"])
    if kind == "wsd":  # its decay ends with the run
        plan["stop"] = min(plan["stop"], steps)
    return plan


def write_text(reigen, source, folder, name, pairs_for_validation, real_text):
    """Text of a source as NAME.en, NAME.de, and validation pairs beside it that are not in it."""
    if "folder" in source:
        for language in ("en", "de"):
            with open(f"{real_text}/{source['folder']}/train.{language}", encoding="utf-8") as file:
                lines = file.read().split("\n")
            wanted = source["pairs"] + pairs_for_validation
            begin = int(source["from"] * max(0, len(lines) - 1 - wanted))
            chosen = lines[begin:begin + wanted]
            for part, some in (("", chosen[pairs_for_validation:]), (".valid", chosen[:pairs_for_validation])):
                with open(f"{folder}/{name}{part}.{language}", "w", encoding="utf-8") as file:
                    file.write("\n".join(some) + "\n")
        return
    call(reigen, "corpus", "--pairs", source["pairs"], "--valid-pairs", pairs_for_validation, "--test-pairs", 1,
         "--seed", source["seed"], "--output", f"{folder}/{name}.text", "--quiet", "--overwrite")
    for language in ("en", "de"):
        shutil.move(f"{folder}/{name}.text/train.{language}", f"{folder}/{name}.{language}")
        shutil.move(f"{folder}/{name}.text/valid.{language}", f"{folder}/{name}.valid.{language}")


def prepare(reigen, folder, name, valid, vocabulary, output):
    call(reigen, "prepare", "--source", "en", "--target", "de", "--train", f"{folder}/{name}.en", f"{folder}/{name}.de",
         "--valid", f"{folder}/{valid}.en", f"{folder}/{valid}.de", *vocabulary, "--threads", 1,
         "--output", f"{folder}/{output}", "--quiet", "--overwrite")


def options_of(plan):
    return [part for name, value in plan["train"].items() if name not in ("vocab", "train_text")
            for part in (f"--{name}", value)]


def train(reigen, folder, plan, real_text, watch=contextlib.nullcontext):
    """Trains a drawn run as FOLDER/run; `watch()` is a context around the training."""
    settings = plan["train"]
    write_text(reigen, settings["train_text"], folder, "text", 150, real_text)
    valid = "text.valid"
    if plan["valid_text"]:
        write_text(reigen, plan["valid_text"], folder, "other", 150, real_text)
        valid = "other.valid"
    fixed = [*options_of(plan), "--preset", "tiny", "--recipe", "classic", "--eval.samples", 0,
             *(["--eval.sentences", 30] if plan["regime"] in WITH_BLEU else ["--no-eval.bleu"]),
             "--checkpoint.every", 10**6, "--checkpoint.keep", 1, "--threads", 1, "--device", "cpu", "--quiet"]
    vocabulary = ["--vocab-size", settings["vocab"]]
    if "first" in plan:
        write_text(reigen, plan["first"]["text"], folder, "first", 200, real_text)
        prepare(reigen, folder, "first", "first.valid", vocabulary, "first-data")
        call(reigen, "train", "--data", f"{folder}/first-data", "--run", f"{folder}/first-run", *fixed,
             "--schedule.kind", "fixed", "--schedule.rate", 0.004, "--eval.every", 0,
             "--max-steps", plan["first"]["steps"])
        vocabulary = ["--vocab", f"{folder}/first-data"]
    prepare(reigen, folder, "text", valid, vocabulary, "data")
    command = ["train", "--data", f"{folder}/data", "--run", f"{folder}/run", *fixed, "--eval.every", plan["every"]]
    if "first" in plan:
        command += ["--from", f"{folder}/first-run/last"]
    try:
        with watch():
            call(reigen, *command, "--max-steps", plan["steps"])
    except RuntimeError:
        if not diverged(folder):
            raise


def diverged(folder):
    """Such a run has no later losses to hold a prediction against."""
    with open(f"{folder}/run/measurements/rank-0.jsonl", encoding="utf-8") as log:
        return json.loads(log.readlines()[-1]).get("reason") == "diverged"


def read_curve(folder):
    """Evaluations as (step, validation loss, mean training loss since the previous one, BLEU, epochs), and the rate of
    every step."""
    evaluations, rates, losses, epochs = [], [], [], 0.0
    with open(f"{folder}/run/measurements/rank-0.jsonl", encoding="utf-8") as log:
        for line in log:
            record = json.loads(line)
            if record["kind"] == "step":
                rates.append(record["rate"])
                epochs = record["epoch"]
                if record["nll"] is not None:
                    losses.append(record["nll"])
            elif record["kind"] == "evaluation" and record["nll"] is not None:
                if not evaluations:  # before the first, the loss falls steeply
                    losses = losses[-max(1, len(losses) // 10):]
                mean = sum(losses) / len(losses) if losses else evaluations[-1][2]
                evaluations.append((record["step"], record["nll"], mean, record.get("bleu") or 0.0, epochs))
                losses = []
    return evaluations, rates
