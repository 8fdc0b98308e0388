"""Planted settings that people choose badly: rates, warm-ups, averages, sizes, threads, intervals."""

from planted_bench import case, trained

SMALL = ["--threads", 1, "--model.width", 64, "--model.ffn-width", 128, "--batch.target-tokens", 500, "--dropout", 0]


def train(b, *options, steps=300, every=30):
    return b.finish([b.worker(*SMALL, "--max-steps", b.steps(steps), "--eval.every", every, *options)])


def over(report):
    return report["verdicts"]["overfitting"]


@case("40", "learning rate 10 times too high", about="trained")
def rate_10(b):
    r = train(b, "--schedule.rate", 0.03)
    return r, trained(r)["confidence"] != "high" or trained(r)["answer"] in ("useless", "diverged", "getting-worse")


@case("41", "learning rate 10 times too low", about="trained")
def rate_tenth(b):
    r = train(b, "--schedule.rate", 0.0002)
    return r, trained(r)["level"] == "hardly-learns" or trained(r)["answer"] == "improving"


@case("42", "a warm-up of 4,000 steps in a run of 300", about="trained")
def long_warmup(b):
    r = train(b, "--schedule.warmup-steps", 4000)
    return r, "warm-up" in trained(r)["because"] + trained(r)["advice"]


@case("43", "nothing: an average of the weights over 10,000 steps in a run of 300", about="trained")
def long_average(b):
    r = train(b, "--ema.decay", 0.9999)
    return r, trained(r)["answer"] == "improving" and not r["verdicts"]["data"]["faults"]


@case("44", "label smoothing of 0.7", about="trained")
def smooth(b):
    r = train(b, "--smoothing", 0.7)
    return r, trained(r)["answer"] in ("improving", "unknown") and not r["verdicts"]["data"]["faults"]


@case("45", "weight decay of 5", about="trained")
def heavy_decay(b):
    r = train(b, "--optimizer.kind", "adamw", "--optimizer.weight-decay", 5)
    return r, trained(r)["answer"] in ("improving", "useless", "unknown", "yes")


@case("46", "a decay that ends after 60 of 300 steps", about="trained")
def early_decay(b):
    r = train(b, "--schedule.kind", "exponential", "--schedule.decay-steps", 15, "--schedule.decay-rate", 0.3)
    return r, trained(r)["answer"] == "schedule-over" and "expected_gains" not in r["numbers"]


@case("47", "a model of width 8", about="trained")
def tiny_model(b):
    r = train(b, "--model.width", 8, "--model.heads", 2, "--model.ffn-width", 16, "--schedule.rate", 0.01, steps=600,
              every=60)
    return r, trained(r)["answer"] in ("improving", "yes", "unknown") and over(r)["answer"] == "no"


@case("50", "batches of 20 tokens at a high rate: losses of single batches jump", about="trained")
def noisy_batches(b):
    r = train(b, "--batch.target-tokens", 20, "--schedule.rate", 0.005, steps=1500, every=100)
    return r, trained(r)["confidence"] != "high" or trained(r)["answer"] in ("useless", "improving")


@case("52", "the encoder is frozen from the start", about="trained")
def frozen(b):
    first = b.run
    train(b, steps=60, every=30)
    b.run = first + "-tuned"
    r = train(b, "--from", first, "--freeze", "encoder,decoder", steps=200, every=20)
    return r, trained(r)["answer"] not in ("useless", "diverged", "past-its-best")


@case("54", "an epsilon of 0.1 in Adam's denominator", about="trained")
def large_epsilon(b):
    r = train(b, "--optimizer.epsilon", 0.1)
    return r, trained(r)["confidence"] != "high" or trained(r)["answer"] == "improving"


@case("55", "a first moment over 10,000 steps (beta1)", about="trained")
def long_momentum(b):
    r = train(b, "--optimizer.beta1", 0.9999)
    return r, trained(r)["confidence"] != "high" or trained(r)["answer"] == "improving"
