#!/usr/bin/env python3
"""How well the confidence of `translate --json` holds on text that it was not fitted to.

    bench/decode/confidence.py --reigen build/release/reigen --model RUN --source test.en --reference test.de

Prints as JSON: lines, the share whose chrF is in the interval of 80%, mean chrF as expected and as measured, and the measured
mean of the quarter of lines with the lowest and of that with the highest expectation.
"""

import argparse
import collections
import json
import subprocess


def ngrams(text, order):
    return collections.Counter(text[i:i + order] for i in range(len(text) - order + 1))


def chrf(hypothesis, reference, beta=2, orders=6):
    """Of a sentence, 0 to 100: F-beta over character n-grams without white space, as sacreBLEU computes it."""
    hypothesis, reference = ("".join(text.split()) for text in (hypothesis, reference))
    precision = recall = used = 0
    for order in range(1, orders + 1):
        ours, theirs = ngrams(hypothesis, order), ngrams(reference, order)
        if not ours or not theirs:
            continue
        matches = sum((ours & theirs).values())
        precision += matches / sum(ours.values())
        recall += matches / sum(theirs.values())
        used += 1
    if used == 0 or precision + recall == 0:
        return 0.0
    precision, recall = precision / used, recall / used
    return 100 * (1 + beta**2) * precision * recall / (beta**2 * precision + recall)


def mean(values):
    return sum(values) / len(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("reigen", "model", "source", "reference"):
        parser.add_argument(f"--{name}", required=True)
    o = parser.parse_args()
    out = subprocess.run([o.reigen, "translate", "--model", o.model, "--input", o.source, "--json", "--quiet"],
                         capture_output=True, text=True, check=True).stdout
    with open(o.reference) as file:
        references = file.read().splitlines()
    lines = []
    for text, reference in zip(out.splitlines(), references, strict=True):
        one = json.loads(text)["translations"][0]
        if one["confidence"]:
            lines.append((one["confidence"], chrf(one["text"], reference)))
    lines.sort(key=lambda line: line[0]["chrf"])
    measured = [value for _, value in lines]
    quarter = len(lines) // 4
    print(json.dumps({
        "lines": len(lines),
        "inside": mean([c["low"] <= value <= c["high"] for c, value in lines]),
        "expected": mean([c["chrf"] for c, _ in lines]),
        "measured": mean(measured),
        "lowest quarter": mean(measured[:quarter]),
        "highest quarter": mean(measured[-quarter:]),
    }))


main()
