"""`reigen schedule`: its table, drawing, JSON and CSV, against formulas worked out in Python."""

import json
import math
import os
import signal
import subprocess
import unittest

from harness import REIGEN, Case, main, run

UTF8 = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm"}
PLAIN = {**os.environ, "LC_ALL": "C", "TERM": "xterm"}

W, D, R, M, START = 400, 1500, 0.003, 0.0002, 0.0001
STEPS = 2500


def noam(s, factor=2.0, width=512, warmup=8000):
    return factor * width**-0.5 * min(s**-0.5, s * warmup**-1.5)


def warmed(curve):
    """A curve over the steps since the peak, with a warm-up of W steps before it."""
    return lambda s: START + (R - START) * s / W if s < W else curve(s - W)


def piecewise(s):
    return warmed(lambda t: R if t + W <= 900 else 0.001 if t + W <= 1700 else 0.002)(s)


KINDS = {
    "fixed": ((), warmed(lambda t: R)),
    "piecewise": (("--schedule.boundaries", "900,1700", "--schedule.values", f"{R},0.001,2e-3"),
                  piecewise),
    "exponential": (("--schedule.decay-steps", D, "--schedule.decay-rate", "0.2"),
                    warmed(lambda t: R * 0.2 ** (t / D))),
    "polynomial": (("--schedule.decay-steps", D, "--schedule.power", 3, "--schedule.min-rate", M),
                   warmed(lambda t: M + (R - M) * (1 - min(t / D, 1)) ** 3)),
    "cosine": (("--schedule.decay-steps", D, "--schedule.min-rate", M),
               warmed(lambda t: M + (R - M) * (1 + math.cos(math.pi * min(t / D, 1))) / 2)),
    "inverse-polynomial": ((), warmed(lambda t: R * math.sqrt(W / (t + W)))),
    "wsd": (("--schedule.decay-steps", D, "--schedule.min-rate", M),
            warmed(lambda t: M + (R - M) * min((STEPS + 1 - t - W) / (D + 1), 1))),
}


def args_of(kind):
    args = ["--schedule.kind", kind, "--schedule.warmup-steps", W, "--schedule.start-rate", START,
            *KINDS[kind][0]]
    return args if kind == "piecewise" else [*args, "--schedule.rate", R]


def drawing(*args, env=UTF8):
    """The lines of the drawing, from the top of its rate axis to the steps under it."""
    text = run("schedule", *args, env=env).stdout
    return text.split("Learning rate by optimizer step:\n\n")[1].splitlines()


def braille_dots(lines):
    """Dot column to the set of its dot rows, from the top."""
    bits = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)]
    dots = {}
    for row, line in enumerate(lines):
        for column, char in enumerate(line[9:]):
            for bit, (x, y) in enumerate(bits):
                if 0x2800 <= ord(char) < 0x2900 and ord(char) - 0x2800 >> bit & 1:
                    dots.setdefault(2 * column + x, set()).add(4 * row + y)
    return dots


class Schedule(Case):
    def assert_close(self, found, expected, note=""):
        self.assertAlmostEqual(found, expected, delta=abs(expected) * 1e-12, msg=note)

    def test_the_table_has_peak_and_landmarks(self):
        text = run("schedule", "--schedule.kind", "noam", "--steps", 50000).stdout
        lines = text.split("\n\n")[1].splitlines()
        self.assertEqual(lines[0].split(), ["step", "rate", "of", "peak"])
        rows = {}
        for line in lines[1:]:
            *what, step, rate, share = line.split()
            rows[int(step.replace(",", ""))] = " ".join(what)
            self.assertEqual(rate, f"{noam(int(step.replace(',', ''))):.3e}")
            self.assertEqual(len(line), len(lines[0]))
            self.assertTrue(share.endswith("%"))
        self.assertEqual(rows, {1: "first step", 10: "", 100: "", 1000: "",
                                8000: "warm-up ends, peak", 10000: "", 12500: "", 25000: "",
                                37500: "", 50000: "last step"})
        self.assertIn("noam: warmup-steps 8000, min-rate 0, factor 2, width 512\n", text)

    def test_json_holds_the_curve_of_every_kind(self):
        for kind, (_, rate) in KINDS.items():
            page = json.loads(run("schedule", "--json", "--steps", STEPS, *args_of(kind)).stdout)
            self.assertEqual(page["schedule"]["kind"], kind)
            self.assertEqual(page["steps"], STEPS)
            steps, rates = page["curve"]["step"], page["curve"]["rate"]
            self.assertEqual(steps, [1, *range(3, 2500, 3), 2500])
            for step, found in zip(steps, rates, strict=True):
                self.assert_close(found, rate(step), f"{kind} step {step}")
            best = max(range(1, 2501), key=rate)
            self.assertEqual(page["peak"]["step"], best)
            self.assert_close(page["peak"]["rate"], rate(best))
            for row in page["table"]:
                self.assert_close(row["rate"], rate(row["step"]), f"{kind} {row}")
            marks = [row["what"] for row in page["table"]]
            self.assertIn("warm-up ends, peak", marks)
            self.assertEqual("decay ends" in marks, kind in ("polynomial", "cosine"))

    def test_json_records_the_settings_that_were_used(self):
        page = json.loads(run("schedule", "--recipe", "classic", "--json", "--every", 50000).stdout)
        self.assertEqual(page["schedule"], {"kind": "noam", "warmup-steps": 8000, "min-rate": 0,
                                            "factor": 2, "width": 512})
        self.assertEqual(page["curve"]["step"], [1, 50000])

    def test_without_a_kind_it_is_the_schedule_of_the_recipe(self):
        page = json.loads(run("schedule", "--json", "--steps", 3000).stdout)
        chosen = page["schedule"]
        self.assertEqual([chosen["kind"], page["peak"]["step"]], ["wsd", chosen["warmup-steps"]])
        rates = dict(zip(page["curve"]["step"], page["curve"]["rate"]))
        self.assert_close(rates[3000], chosen["rate"] / (chosen["decay-steps"] + 1))
        short = json.loads(run("schedule", "--json", "--steps", 100, "--schedule.rate", "0.002").stdout)
        self.assertLess(short["schedule"]["warmup-steps"], chosen["warmup-steps"])
        self.assertEqual(short["peak"]["rate"], 0.002)

    def test_the_settings_of_wsd_have_the_length_of_its_decay(self):
        page = json.loads(run("schedule", "--json", "--schedule.kind", "wsd", "--steps", 2500).stdout)
        self.assertEqual(page["schedule"]["decay-steps"], 1250)
        text = run("schedule", "--schedule.kind", "wsd", "--steps", 1000).stdout
        self.assertIn("decay-steps 500", text)
        text = run("schedule", "--recipe", "classic", "--schedule.kind", "wsd", "--steps", 500).stdout
        self.assertIn("decay-steps 100", text)  # all steps after the warm-up of 400

    def test_csv_has_every_step_or_every_nth(self):
        lines = run("schedule", "--recipe", "classic", "--csv", "--steps", 12000).stdout.splitlines()
        self.assertEqual(lines[0], "step,rate")
        self.assertEqual([int(line.split(",")[0]) for line in lines[1:]], list(range(1, 12001)))
        for line in lines[1:]:
            step, rate = line.split(",")
            self.assert_close(float(rate), noam(int(step)), line)
        steps = lambda *args: [
            int(line.split(",")[0])
            for line in run("schedule", "--csv", *args).stdout.splitlines()[1:]]
        self.assertEqual(steps("--steps", 10, "--every", 4), [1, 4, 8, 10])
        self.assertEqual(steps("--steps", 8, "--every", 4), [1, 4, 8])
        self.assertEqual(steps("--steps", 8, "--every", 99), [1, 8])
        self.assertEqual(steps("--steps", 1), [1])

    def test_the_drawing_is_as_wide_and_high_as_asked(self):
        for env in (UTF8, PLAIN):
            for width, height in ((80, 16), (40, 4), (120, 30), (1000, 200)):
                size = ("--width", width, "--height", height) if width != 80 else ()
                for args in ((), ("--steps", 1), ("--steps", 7), ("--steps", 10**9),
                             ("--steps", 10**9, "--schedule.warmup-steps", 6 * 10**8)):
                    lines = drawing(*args, *size, env=env)
                    self.assertEqual(max(map(len, lines)), width, lines)
                    self.assertEqual(len(lines[-2]), width)
                    self.assertIn(len(lines), (height + 2, height + 3))  # and the peak's line
                    self.assertEqual("".join(lines).count("peak"), 1)
                    self.assertTrue(all(line == line.rstrip() for line in lines))

    def test_the_drawing_follows_the_curve(self):
        width, height, steps = 71, 16, 50000
        lines = drawing("--schedule.kind", "noam", "--steps", steps)
        self.assertEqual(lines[0].index("▼") - 9, (8000 - 1) * width // steps)
        self.assertTrue(lines[0].endswith("▼ peak 9.882e-04 at step 8,000"))
        dots = braille_dots(lines[1 : 1 + height])
        self.assertEqual(sorted(dots), list(range(2 * width)))
        row = lambda rate: (1 - rate / 0.001) * (4 * height - 1)
        for x, rows in dots.items():
            covered = range(1 + x * steps // (2 * width), 1 + (x + 1) * steps // (2 * width))
            rates = [noam(s) for s in covered]
            self.assertAlmostEqual(min(rows), row(max(rates)), delta=1.6)
            self.assertAlmostEqual(max(rows), row(min(rates)), delta=1.6)
            self.assertEqual(len(rows), max(rows) - min(rows) + 1, "a gap")

    def test_the_axes_are_labelled(self):
        noam = ["--schedule.kind", "noam"]
        lines = drawing(*noam)
        labels = [line[:7].strip() for line in lines[1:17]]
        self.assertEqual([label for label in labels if label],
                         ["1.0e-03", "8.0e-04", "6.0e-04", "4.0e-04", "2.0e-04", "0"])
        self.assertEqual(lines[-1].split(), ["1", "10,000", "20,000", "30,000", "40,000", "50,000"])
        for height in range(4, 200, 7):
            lines = drawing(*noam, "--height", height, "--schedule.factor", 2.7)[:-2]
            labels = [float(line[:7]) for line in lines if line[:7].strip()]
            gaps = [round((a - b) * 1e7) for a, b in zip(labels, labels[1:])]
            self.assertEqual(len(set(gaps)), 1, labels)
        self.assertEqual(drawing("--steps", 47231)[-1].split()[-1], "47,231")

    def test_a_jump_is_a_line_in_every_column_of_characters(self):
        for line in drawing("--ascii", "--schedule.kind", "piecewise", "--schedule.boundaries",
                            "25000", "--schedule.values", "1e-3,1e-4")[2:15]:
            self.assertEqual(line[9:].strip(), "|", line)

    def test_unicode_only_where_the_locale_has_it(self):
        self.assertIn("⠉", "".join(drawing(env=UTF8)))
        plain = "\n".join(drawing(env=PLAIN))
        self.assertTrue(plain.isascii())
        self.assertEqual(plain, "\n".join(drawing("--ascii", env=UTF8)))
        self.assertEqual(plain, "\n".join(drawing(env={**UTF8, "TERM": "linux"})))
        unset = {k: v for k, v in UTF8.items() if not k.startswith("LC_") and k != "LANG"}
        self.assertEqual(plain, "\n".join(drawing(env=unset)))
        self.assertIn("⠉", "".join(drawing(env={**unset, "LANG": "de_DE.utf8"})))

    def test_reads_the_section_from_yaml(self):
        path = self.write("run.yaml", "schedule:\n  kind: piecewise\n  boundaries: [900, 1700]\n"
                          f"  values: [{R}, 0.001, 2e-3]\n  warmup-steps: {W}\n"
                          f"  start-rate: {START}\nsteps: 2500\n")
        self.assertEqual(run("schedule", "--config", path).stdout,
                         run("schedule", "--steps", 2500, *args_of("piecewise")).stdout)

    def test_bad_options_are_refused_with_value_limit_and_fix(self):
        cases = (
            (("--schedule.kind", "cosin"), ("schedule.kind", "cosin")),
            (("--schedule.kind", "cosine"), ("schedule.decay-steps is 0", "needs", "give")),
            (("--schedule.kind", "polynomial", "--schedule.decay-steps", -1), ("from 0 to",)),
            (("--schedule.kind", "piecewise", "--schedule.boundaries", "1000,2000",
              "--schedule.values", "1e-3,1e-4"), ("2 rates", "2 steps", "one rate more")),
            (("--schedule.kind", "piecewise", "--schedule.boundaries", "2000,1000",
              "--schedule.values", "3,2,1"), ("1000, not above the 2000", "rising order")),
            (("--schedule.boundaries", "1000,two"), ("item 2 is 'two'", "whole number")),
            (("--schedule.kind", "piecewise", "--schedule.boundaries", 10, "--schedule.values",
              "2,1", "--schedule.warmup-steps", 11), ("before the warm-up ends at step 11",)),
            (("--schedule.rate", "0.001", "--schedule.min-rate", 1), ("min-rate is 1", "peak rate of 0.001")),
            (("--schedule.kind", "noam", "--schedule.min-rate", 1), ("min-rate is 1", "peak rate of 0.00098")),
            (("--schedule.kind", "fixed", "--schedule.rate", 0), ("schedule.rate", "1e-12 to")),
            (("--schedule.kind", "fixed", "--schedule.start-rate", 0.1), ("start-rate is 0.1",)),
            (("--schedule.wamrup-steps", 5), ("did you mean --schedule.warmup-steps?",)),
            (("--steps", 0), ("--steps", "from 1 to")),
            (("--width", 39), ("--width", "40 to 1000")),
            (("--json", "--csv"), ("--json and --csv", "choose one")),
            (("--every", 5), ("--every 5", "add one of them")),
            (("--json", "--steps", 10**9, "--every", 1), ("1000000 points", "--csv")),
        )
        for args, phrases in cases:
            done = run("schedule", *args, check=False)
            self.assert_fails(done, 2, *phrases)
            self.assertEqual(done.stdout, "")

    def test_a_setting_the_kind_does_not_use_is_warned_about(self):
        done = run("schedule", "--schedule.power", 3)
        self.assertEqual(done.stderr, "warning: --schedule.power is not used by wsd\n")
        self.assertEqual(done.stdout, run("schedule").stdout)
        done = run("schedule", "--schedule.factor", 2)  # an option of noam means noam
        self.assertEqual((done.stderr, done.stdout), ("", run("schedule", "--schedule.kind", "noam").stdout))

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([REIGEN, "schedule", "--csv"], stdout=full,
                                  stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 7, done.stderr)

    def test_a_long_listing_can_be_interrupted(self):
        with subprocess.Popen([REIGEN, "schedule", "--csv", "--steps", str(10**9)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.read(1 << 20)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)


if __name__ == "__main__":
    main()
