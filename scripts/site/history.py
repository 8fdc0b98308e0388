"""The page that draws bench/results/history.json: one chart for each measurement, over time."""

import html
import json

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 220, 90, 24, 16, 44


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def chart(points, unit):
    """An SVG of (date, commit, value); the axis begins at 0, so that a change looks as large as it is."""
    most = max(value for _, _, value in points) * 1.15
    step = (WIDTH - LEFT - RIGHT) / max(1, len(points))
    place = [(LEFT + step * (i + 0.5), TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most)) for i, (_, _, value) in enumerate(points)]
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(unit)} by date">']
    for share in (0, 0.5, 1):
        y = TOP + (HEIGHT - TOP - BOTTOM) * (1 - share / 1.15)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
                     f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{number(round(most / 1.15 * share, 2))}</text>')
    parts.append(f'<polyline class="line" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in place)}"/>')
    for (date, commit, value), (x, y) in zip(points, place, strict=True):
        parts.append(f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="5"><title>{html.escape(f"{date}, {commit}: {number(value)} {unit}")}</title></circle>'
                     f'<text class="value" x="{x:.1f}" y="{y - 10:.1f}" text-anchor="middle">{number(value)}</text>'
                     f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 24}" text-anchor="middle">{html.escape(date)}</text>'
                     f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{html.escape(commit)}</text>')
    return "".join(parts) + "</svg>"


def history_page(path):
    """Title, body and headings."""
    with open(path, encoding="utf-8") as file:
        table = json.load(file)
    keys = [column["key"] for column in table["columns"]]
    series = {}
    for row in table["rows"]:
        r = dict(zip(keys, row, strict=True))
        series.setdefault((r["metric"], r["machine"], r["unit"], r["better"]), []).append((r["date"], r["commit"], r["value"]))
    body = ["<h1>Benchmark history</h1>",
            '<p>The main number of each measurement, each time that it was repeated, from <code>bench/results/history.json</code>. '
            'What was measured exactly: <a href="docs/benchmarks.html">Benchmarks</a>. Numbers of different machines are different charts.</p>']
    headings = []
    for n, ((metric, machine, unit, better), points) in enumerate(series.items()):
        change = ""
        if len(points) > 1:
            part = 100 * (points[-1][2] / points[0][2] - 1)
            good = (part < 0) == (better == "lower")
            change = f' <span class="{"good" if good else "bad"}">{part:+.1f}% since {html.escape(points[0][0])}</span>'
        headings.append((2, metric, f"m{n}"))
        body.append(f'<section class="chart"><h2 id="m{n}">{html.escape(metric)}</h2><p>{html.escape(machine)}; {html.escape(unit)}, {better} is better.{change}</p>'
                    f"{chart(points, unit)}</section>")
    return "Benchmark history", "\n".join(body), headings
