"""`reigen evaluate` on plain files: scores, intervals, comparison, and refused input."""

import gzip
import json

from harness import Case, main, run

CONFIG, DATA = 2, 3

REFERENCES = [f"The {n} cats sat on {n + 1} mats, and nobody minded very much." for n in range(30)]
FAIR = [line.replace("minded", "cared" if n % 3 else "minded") for n, line in enumerate(REFERENCES)]
POOR = [line.replace("cats", "dogs").replace("nobody", "no one") for line in REFERENCES]


class Evaluate(Case):
    def lines(self, name, lines):
        return self.write(name, "".join(line + "\n" for line in lines))

    def setUp(self):
        super().setUp()
        self.references = self.lines("ref.txt", REFERENCES)
        self.fair = self.lines("fair.txt", FAIR)
        self.poor = self.lines("poor.txt", POOR)

    def evaluate(self, *args, **kwargs):
        return run("evaluate", *args, **kwargs)

    def metrics(self, *args):
        report = json.loads(self.evaluate(*args, "--json").stdout)
        return {metric["name"]: metric for metric in report["metrics"]}

    def test_the_same_text_scores_a_hundred(self):
        found = self.metrics("--hypotheses", self.references, "--references", self.references,
                             "--metric", "bleu,chrf,chrf++")
        self.assertEqual(list(found), ["BLEU", "chrF2", "chrF2++"])
        for metric in found.values():
            self.assertAlmostEqual(metric["system"]["score"], 100)
            self.assertAlmostEqual(metric["system"]["interval"]["low"], 100)

    def test_text_and_json_agree(self):
        args = ("--hypotheses", self.fair, "--references", self.references)
        text = self.evaluate(*args).stdout
        for name, metric in self.metrics(*args).items():
            self.assertRegex(text, rf"\n  {name} +{metric['system']['score']:.2f} ")
            self.assertIn(f"  {metric['signature']}\n", text)
        self.assertIn("30 sentences", text)
        self.assertIn("BLEU = ", text)
        self.assertEqual(self.evaluate(*args).stdout, text, "not deterministic")

    def test_the_interval_contains_the_score(self):
        for metric in self.metrics("--hypotheses", self.fair, "--references",
                                   self.references).values():
            system = metric["system"]
            self.assertLess(system["interval"]["low"], system["score"])
            self.assertGreater(system["interval"]["high"], system["score"])

    def test_a_better_system_is_significantly_better(self):
        found = self.metrics("--hypotheses", self.fair, "--references", self.references,
                             "--baseline", self.poor)
        for metric in found.values():
            self.assertAlmostEqual(metric["comparison"]["difference"],
                                   metric["system"]["score"] - metric["baseline"]["score"])
            self.assertGreater(metric["comparison"]["interval"]["low"], 0)
            self.assertLess(metric["comparison"]["p_value"], 0.05)
        text = self.evaluate("--hypotheses", self.fair, "--references", self.references,
                             "--baseline", self.poor).stdout
        for metric in found.values():
            self.assertIn(f"{metric['baseline']['score']:.2f}", text)

    def test_a_system_does_not_differ_from_itself(self):
        found = self.metrics("--hypotheses", self.fair, "--references", self.references,
                             "--baseline", self.fair)
        self.assertEqual(found["BLEU"]["comparison"]["p_value"], 1)

    def test_without_bootstrap_there_are_only_scores(self):
        found = self.metrics("--hypotheses", self.fair, "--references", self.references,
                             "--baseline", self.poor, "--no-bootstrap")
        self.assertNotIn("interval", found["BLEU"]["system"])
        self.assertNotIn("comparison", found["BLEU"])
        self.assertNotIn("bs:", found["BLEU"]["signature"])
        self.assertIn("score", found["BLEU"]["baseline"])

    def test_compressed_files_and_windows_line_ends_score_alike(self):
        plain = self.metrics("--hypotheses", self.fair, "--references", self.references)
        packed = self.write("fair.gz", gzip.compress("\r\n".join(FAIR).encode()))
        again = self.metrics("--hypotheses", packed, "--references", self.references)
        self.assertEqual(plain, again)

    def test_several_references_can_only_help(self):
        one = self.metrics("--hypotheses", self.fair, "--references", self.poor)
        two = self.metrics("--hypotheses", self.fair, "--references", self.poor, self.references)
        self.assertGreater(two["BLEU"]["system"]["score"], one["BLEU"]["system"]["score"])
        self.assertTrue(two["BLEU"]["signature"].startswith("nrefs:2|"))

    def test_unequal_line_counts_are_both_named(self):
        short = self.lines("short.txt", FAIR[:-1])
        done = self.evaluate("--hypotheses", short, "--references", self.references, check=False)
        self.assert_fails(done, DATA, "short.txt has 29 lines", "ref.txt has 30")
        done = self.evaluate("--hypotheses", self.fair, "--references", self.references,
                             "--baseline", short, check=False)
        self.assert_fails(done, DATA, "short.txt has 29 lines")

    def test_empty_and_missing_files_are_named(self):
        empty = self.write("empty.txt", "")
        done = self.evaluate("--hypotheses", empty, "--references", empty, check=False)
        self.assert_fails(done, DATA, empty)
        done = self.evaluate("--hypotheses", self.path("no.txt"), "--references", self.references,
                             check=False)
        self.assert_fails(done, DATA, self.path("no.txt"))

    def test_an_unknown_metric_names_the_known_ones(self):
        done = self.evaluate("--hypotheses", self.fair, "--references", self.references,
                             "--metric", "bleu,ter", check=False)
        self.assert_fails(done, CONFIG, "--metric", "chrf++")

    def test_bad_bytes_are_scored_with_a_warning(self):
        odd = self.write("odd.txt", "\n".join(FAIR).encode().replace(b"cats", b"c\xffts"))
        done = self.evaluate("--hypotheses", odd, "--references", self.references)
        self.assertRegex(done.stderr, "warning: .*odd.txt.*30 ")
        self.assertIn("BLEU", done.stdout)

    def test_tokenised_text_gets_a_warning(self):
        lines = ["It is so ."] * 100
        path = self.lines("tokens.txt", lines)
        done = self.evaluate("--hypotheses", path, "--references", path)
        self.assertIn("looks tokenised", done.stderr)


if __name__ == "__main__":
    main()
