"""Planted causes in the text: wrong language, cut, repeated, leaked, noisy or untranslated pairs."""

import random

from planted_bench import case, corpus, prepare, trained

# Small enough to learn the built-in corpus within seconds.
SMALL = ["--threads", 1, "--model.width", 64, "--model.ffn-width", 128, "--batch.target-tokens", 500, "--dropout", 0]


def lines_of(path):
    with open(path) as file:
        return file.readlines()


def write(path, lines):
    with open(path, "w") as file:
        file.writelines(lines)


def change(b, name, how, pairs=20000, vocabulary=2000, more=()):
    """Prepares the built-in corpus with the file `name` changed by `how`, from lines to lines."""
    text = corpus(b.reigen, b.folder, pairs)
    write(f"{text}/{name}", how(lines_of(f"{text}/{name}")))
    b.data = prepare(b.reigen, b.folder, text, vocabulary, more=more)
    return text


def train(b, *options, steps=300, every=30):
    return b.finish([b.worker(*SMALL, "--max-steps", b.steps(steps), "--eval.every", every, *options)])


def over(report):
    return report["verdicts"]["overfitting"]


def faults(report):
    return report["verdicts"]["data"]["faults"]


def calm(report):
    """No verdict on learning claims with certainty what is not so: the run still improves, or nothing is said."""
    return trained(report)["answer"] in ("improving", "unknown") and over(report)["answer"] in ("no", "unknown")


@case("30", "validation targets in the source language", about="data")
def wrong_language(b):
    text = corpus(b.reigen, b.folder, 20000)
    write(f"{text}/valid.de", lines_of(f"{text}/valid.en"))
    b.data = prepare(b.reigen, b.folder, text, more=["--no-clean.copy"])
    r = train(b)
    return r, "unlike-validation" in faults(r) and not trained(r)["advice"].startswith("`reigen train")


@case("31", "training targets cut after three words", about="trained")
def cut_targets(b):
    change(b, "train.de", lambda lines: [" ".join(line.split()[:3]) + "\n" for line in lines])
    r = train(b, "--eval.bleu", "--eval.sentences", 50)
    return r, trained(r)["validation_unlike_training"]


@case("32", "300 pairs, each 60 times", about="data")
def repeated_pairs(b):
    text = corpus(b.reigen, b.folder, 300)
    for language in ("en", "de"):
        write(f"{text}/train.{language}", lines_of(f"{text}/train.{language}") * 60)
    b.data = prepare(b.reigen, b.folder, text, 300, more=["--no-clean.duplicate"])
    r = train(b, steps=400, every=25)
    return r, "repeated-training" in faults(r) and "unlike-validation" not in faults(r)


@case("33", "validation pairs among the training pairs", about="data")
def leaked(b):
    text = corpus(b.reigen, b.folder, 300)
    for language in ("en", "de"):
        write(f"{text}/train.{language}", lines_of(f"{text}/train.{language}") + lines_of(f"{text}/valid.{language}"))
    b.data = prepare(b.reigen, b.folder, text, 300, more=["--no-clean.heldout"])
    r = train(b, steps=500, every=50)
    return r, "leaked-validation" in faults(r)


@case("34", "a third of the training targets belongs to other sources", about="trained")
def noisy(b):
    def swap(lines):
        chosen = random.Random(1).sample(range(len(lines)), len(lines) // 3)
        mixed = list(lines)
        for here, there in zip(chosen, chosen[1:] + chosen[:1]):
            mixed[here] = lines[there]
        return mixed
    change(b, "train.de", swap)
    r = train(b)
    return r, calm(r)


@case("35", "a vocabulary of 120 pieces", about="trained")
def tiny_vocabulary(b):
    change(b, "train.de", lambda lines: lines, vocabulary=120)
    r = train(b)
    return r, calm(r)


@case("36", "validation sources in capital letters", about="data")
def capitals(b):
    change(b, "valid.en", lambda lines: [line.upper() for line in lines])
    r = train(b)
    return r, "unlike-validation" in faults(r)


@case("37", "half of the training targets are not translated", about="trained")
def untranslated(b):
    text = corpus(b.reigen, b.folder, 20000)
    source = lines_of(f"{text}/train.en")
    target = lines_of(f"{text}/train.de")
    write(f"{text}/train.de", [s if i % 2 else t for i, (s, t) in enumerate(zip(source, target))])
    b.data = prepare(b.reigen, b.folder, text, more=["--no-clean.copy"])
    r = train(b)
    return r, calm(r)


@case("38", "training pairs of at most six words, validation pairs of any length", about="trained")
def short_pairs(b):
    text = corpus(b.reigen, b.folder, 40000)
    pairs = [(s, t) for s, t in zip(lines_of(f"{text}/train.en"), lines_of(f"{text}/train.de")) if len(t.split()) <= 6]
    for i, language in enumerate(("en", "de")):
        write(f"{text}/train.{language}", [pair[i] for pair in pairs])
    b.data = prepare(b.reigen, b.folder, text)
    r = train(b)
    return r, trained(r)["answer"] == "useless" or trained(r)["validation_unlike_training"]


@case("39", "every training source is the same line", about="data")
def constant_source(b):
    text = corpus(b.reigen, b.folder, 20000)
    lines = lines_of(f"{text}/train.en")
    write(f"{text}/train.en", lines[:1] * len(lines))
    b.data = prepare(b.reigen, b.folder, text, more=["--no-clean.duplicate"])
    r = train(b, steps=400, every=40)
    return r, "unused-sources" in faults(r)
