"""Results of the runs across two hosts: a table, and a chart (steps.svg)."""

import json
import statistics
import sys
from html import escape

PARTS = [("computing", "#4878a8"), ("compressing", "#e0a030"), ("waiting", "#c44e52")]
WITHOUT_WARMUP = ("none", "bf16", "fp16", "int8", "int4")


def summary(output, rate, method):
    name = f"{rate}-{method.replace(':', '-')}"
    run = f"{output}/{name}"
    with open(f"{run}/measurements/rank-0.jsonl") as file:
        found = [json.loads(line) for line in file]
    with open(f"{run}/last/manifest.json") as file:
        state = json.load(file)["training"]["state"]
    with open(f"{output}/{name}.json") as file:
        doctor = json.load(file)
    with open(f"{run}/report.json") as file:
        report = json.load(file)
    all_steps = [r for r in found if r["kind"] == "step"]
    steps = all_steps[1:] or all_steps
    warmup = 0 if state["compress"] in WITHOUT_WARMUP else state["compress_warmup"]
    after = [r for r in steps if r["step"] > warmup] or steps
    typical = statistics.median
    if state["compress"].startswith("local:"):
        # Most of its steps send nothing: the mean over whole rounds is the time of a step.
        every = int(state["compress"].split(":")[1])
        after = after[len(after) % every:] or after
        typical = statistics.mean
    span = lambda key: typical(r["spans"].get(key, 0) for r in after)
    seconds = typical(r["seconds"] for r in after)
    sent = statistics.mean(r["communication"]["sent"] for r in after)
    losses = [r["nll"] for r in found if r["kind"] == "evaluation"]
    # The first host's interface, headers included; a run of one second has no sample.
    wire = report["numbers"].get("wire", [])
    return {
        "rate": rate, "asked": method, "method": state["compress"], "step": seconds,
        "compressing": span("compression"), "waiting": span("communication"),
        "computing": seconds - span("compression") - span("communication"),
        "megabytes": sent / 1e6,
        "wire": wire[0]["interface_bytes"] / wire[0]["seconds"] / 1e6 if wire else None,
        "link": min(l["bytes_per_second"] for l in doctor["links"]) / 1e6,
        "predicted": doctor["forecast"]["step_seconds"], "predicted_bottleneck": doctor["bottleneck"],
        "verdict": report["verdicts"]["bottleneck"]["verdict"],
        "nll": losses[-1] if losses else None, "steps": len(all_steps),
    }


def label(row):
    return row["method"] if row["asked"] == row["method"] else f"{row['asked']} ({row['method']})"


def table(rows):
    lines = [["link", "compression", "step s", "predicted", "computing", "compressing", "waiting",
              "MB sent/step", "interface MB/s", "link MB/s", "predicted bottleneck", "measured bottleneck",
              "valid nll"]]
    for r in rows:
        nll = "-" if r["nll"] is None else f"{r['nll']:.4f}"
        wire = "-" if r["wire"] is None else f"{r['wire']:.1f}"
        times = [f"{r[k]:.3f}" for k in ("step", "predicted", "computing", "compressing", "waiting")]
        lines.append([r["rate"], label(r), *times, f"{r['megabytes']:.2f}", wire,
                      f"{r['link']:.1f}", r["predicted_bottleneck"], r["verdict"], nll])
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in lines)


def drawing(rows):
    left, width, bar, gap, top = 230, 560, 22, 12, 56
    most = max(r["step"] for r in rows)
    height = top + len(rows) * (bar + gap) + 12
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 110}" height="{height}" '
           'font-family="sans-serif" font-size="13">',
           '<rect width="100%" height="100%" fill="white"/>',
           '<text x="12" y="22" font-size="15">Seconds per step across two hosts</text>']
    for i, (name, colour) in enumerate(PARTS):
        x = left + 110 * i
        out.append(f'<rect x="{x}" y="32" width="12" height="12" fill="{colour}"/>'
                   f'<text x="{x + 17}" y="43">{name}</text>')
    for i, r in enumerate(rows):
        y = top + i * (bar + gap)
        out.append(f'<text x="{left - 10}" y="{y + 16}" text-anchor="end">'
                   f'{escape(r["rate"])}, {escape(label(r))}</text>')
        x = left
        for name, colour in PARTS:
            w = width * max(0, r[name]) / most
            out.append(f'<rect x="{x:.1f}" y="{y}" width="{w:.1f}" height="{bar}" fill="{colour}"/>')
            x += w
        out.append(f'<text x="{x + 6:.1f}" y="{y + 16}">{r["step"]:.2f} s</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    output, rates, methods = sys.argv[1:]
    rows = [summary(output, rate, method) for rate in rates.split(",") for method in methods.split(",")]
    print(table(rows))
    with open(f"{output}/steps.svg", "w") as file:
        file.write(drawing(rows))
    with open(f"{output}/table.json", "w") as file:
        json.dump(rows, file, indent=2)
    print(f"\n{output}/steps.svg, {output}/table.json")


main()
