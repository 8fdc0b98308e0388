"""The recipe of two hosts, once, with the smallest of everything: recipes/two-hosts/run.sh."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree

import harness
from harness import REIGEN, SOURCE

sys.path.insert(0, os.path.join(SOURCE, "tests", "dist"))
import namespaces

LITTLE = ["--model.width", 32, "--model.heads", 2, "--model.ffn-width", 64, "--model.encoder-layers", 1,
          "--model.decoder-layers", 1, "--batch.target-tokens", 300, "--eval.sentences", 4]


class TwoHosts(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.data = cls.prepare_for_class(pairs=1000, vocab_size=400)

    def recipe(self, *arguments, **kwargs):
        script = os.path.join(SOURCE, "recipes", "two-hosts", "run.sh")
        return subprocess.run([script, *map(str, arguments)], capture_output=True, text=True, timeout=300, **kwargs)

    def setUp(self):
        super().setUp()
        if not namespaces.permitted():
            self.skipTest("network namespaces are not permitted here")

    def test_a_table_and_a_drawing(self):
        output = self.path("out")
        last = max(os.sched_getaffinity(0))  # the processors a user may have need not begin at 0
        done = self.recipe("--data", self.data, "--output", output, "--reigen", REIGEN, "--rates", "100mbit", "--methods",
                           "int8", "--seconds", 2, "--", *LITTLE, "--max-steps", 12,
                           preexec_fn=lambda: os.sched_setaffinity(0, {last}))
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("predicted bottleneck", "measured bottleneck", "interface MB/s", "int8"):
            self.assertIn(part, done.stdout)
        with open(f"{output}/table.json") as file:
            row, = json.load(file)
        # Options after -- are added to the defaults and override them.
        self.assertEqual([row["rate"], row["method"], row["steps"]], ["100mbit", "int8", 12])
        with open(f"{output}/100mbit-int8/config.yaml") as file:
            self.assertIn("preset: small\n", file.read())
        with open(f"{output}/100mbit-int8/report.json") as file:
            self.assertEqual(row["verdict"], json.load(file)["verdicts"]["bottleneck"]["verdict"])
        drawing = xml.etree.ElementTree.parse(f"{output}/steps.svg").getroot()
        self.assertTrue(drawing.tag.endswith("svg"))
        self.assertIn("100mbit, int8", [t.text for t in drawing.iter() if t.tag.endswith("text")])


if __name__ == "__main__":
    harness.main()
