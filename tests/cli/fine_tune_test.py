"""Runs that begin with the weights of a checkpoint (`train --from`), through the real binary."""

import hashlib
import json
import os
import shutil
import struct

import harness
from harness import run
from train_test import SMALL, TrainCase

# The sizes of the model come from the checkpoint.
TUNE = [a for a in SMALL if a not in ("--preset", "tiny")]
for option in ("width", "heads", "ffn-width", "encoder-layers", "decoder-layers"):
    at = TUNE.index(f"--model.{option}")
    TUNE = TUNE[:at] + TUNE[at + 2:]


def tensors(path):
    """The tensors of a safetensors file, as bytes."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: data[slice(*entry["data_offsets"])] for name, entry in header.items()}


class FineTuning(TrainCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls("setUp")
        case.setUp()
        cls.addClassCleanup(case.doCleanups)
        cls.base = case.path("base")
        run("train", "--data", cls.data, "--run", cls.base, *SMALL, "--max-steps", 60, "--eval.every", 30)
        text = case.path("text")
        run("corpus", "--pairs", 1500, "--valid-pairs", 60, "--test-pairs", 60, "--seed", 7, "--output", text,
            "--quiet")
        cls.text = text
        cls.new_data = case.path("new")
        run(*case.prepare_args(text, "new"), "--vocab", cls.base, "--quiet")

    def tune(self, name, *more, start=None, check=True):
        return run("train", "--from", start or self.base, "--data", self.new_data, "--run", self.path(name), *TUNE,
                   *more, check=check)

    def nll(self, record, key="nll"):
        return round(record[key], 4)

    def test_a_run_begins_with_the_scores_of_its_starting_point_and_reports_what_it_gains_and_forgets(self):
        done = self.tune("tuned", "--max-steps", 40, "--eval.every", 20)
        self.assertIn("starting point: ", done.stderr)
        start = self.last_record("tuned", "starting_point")
        with open(f"{self.base}/measurements/rank-0.jsonl") as log:
            before = [json.loads(line) for line in log if '"kind":"evaluation"' in line]
        best = os.path.realpath(f"{self.base}/best-bleu")
        self.assertEqual(start["path"], best)
        with open(f"{best}/manifest.json", "rb") as manifest:
            self.assertEqual(start["sha256"], hashlib.sha256(manifest.read()).hexdigest())
        same = next(r for r in before if r["step"] == start["checkpoint_step"])
        self.assertAlmostEqual(start["old_nll"], same["nll"], places=5)
        self.assertAlmostEqual(start["old_bleu"], same["bleu"], places=5)
        last = self.last_record("tuned", "evaluation")
        self.assertLess(last["nll"], start["nll"])
        self.assertIn("old_bleu", last)
        report = json.loads(self.read("tuned/report.json"))
        self.assertIn("BLEU on old data", report["fine_tuning"])
        numbers = report["numbers"]["fine_tuning"]
        self.assertEqual(numbers["nll"]["start"], start["nll"])
        self.assertEqual(numbers["old_nll"]["start"], start["old_nll"])
        self.assertIn('id="fine-tuning"', self.read("tuned/report.html"))
        recorded = self.manifest("tuned")["training"]["state"]["starting_point"]
        self.assertEqual(recorded["sha256"], start["sha256"])
        self.assertIn(f"began with the weights of {best}", run("inspect", self.path("tuned/last")).stdout)

    def test_a_stopped_run_resumes_to_the_same_bits_without_its_starting_point(self):
        shutil.copytree(self.base, self.path("start"), symlinks=True)
        common = ["--from-optimizer", "--freeze", "embeddings", "--checkpoint.every", 10]
        self.tune("straight", *common, "--max-steps", 20, start=self.path("start"))
        self.tune("stopped", *common, "--max-steps", 10, start=self.path("start"))
        shutil.rmtree(self.path("start"))
        run("train", "--run", self.path("stopped"), "--max-steps", 20)
        self.assertEqual(self.digest("stopped"), self.digest("straight"))
        self.assertEqual(self.digest("stopped", file="optimizer.safetensors"),
                         self.digest("straight", file="optimizer.safetensors"))

    def test_two_workers_begin_with_the_weights_that_rank_zero_reads(self):
        for options in ([], ["--from-optimizer"]):
            losses = []
            for workers in (1, 2):
                name = f"of{workers}{len(options)}"
                self.tune(name, "--max-steps", 6, "--eval.every", 6, "--workers", workers, *options)
                losses.append([r["loss"] for r in self.records(name) if r["kind"] == "step"])
                losses[-1].append(self.last_record(name, "evaluation")["old_nll"])
            for alone, shared in zip(*losses):
                self.assertAlmostEqual(alone, shared, delta=1e-4 * alone)

    def test_frozen_parts_keep_their_bits(self):
        self.tune("frozen", "--freeze", "embeddings,encoder", "--max-steps", 5, "--workers", 2)
        start = tensors(os.path.join(self.base, "best-bleu", "model.safetensors"))
        now = tensors(self.path("frozen/last/model.safetensors"))
        self.assertEqual(start.keys(), now.keys())
        for name, values in start.items():
            self.assertEqual(values == now[name], not name.startswith("decoder."), name)

    def test_old_and_new_data_are_mixed_by_weight(self):
        pair = [f"{self.text}/train.en", f"{self.text}/train.de"]
        run("corpus", "--pairs", 300, "--seed", 1, "--output", self.path("old"), "--quiet")
        run("prepare", "--source", "en", "--target", "de", "--train", *pair, "name=new", "--train",
            self.path("old/train.en"), self.path("old/train.de"), "name=old", "weight=0.5", "--vocab", self.base,
            "--valid", f"{self.text}/valid.en", f"{self.text}/valid.de", "--output", self.path("mix"), "--quiet")
        run("train", "--from", self.base, "--data", self.path("mix"), "--run", self.path("mixed"), *TUNE,
            "--max-steps", 3)
        self.assertEqual(self.manifest("mixed")["step"], 3)

    def test_options_and_data_that_do_not_fit_are_refused_by_name(self):
        run(*self.prepare_args(self.text, "own", 300), "--quiet")
        done = run("train", "--from", self.base, "--data", self.path("own"), "--run", self.path("bad"), *TUNE,
                   "--max-steps", 1, check=False)
        self.assert_fails(done, 4, f"--vocab {self.base}", self.path("own"))
        self.assert_fails(self.tune("bad", "--model.width", 64, "--max-steps", 1, check=False), 2, "model.width is 64")
        self.assert_fails(self.tune("bad", "--from-optimizer", "--optimizer.kind", "adam", "--max-steps", 1,
                                    check=False), 2, "optimizer.kind muon")
        self.assert_fails(self.tune("bad2", "--freeze", "encoders", "--max-steps", 1, check=False), 2, "encoders")
        self.assert_fails(self.tune("bad", "--max-steps", 1, start=self.path("none"), check=False), 4,
                          self.path("none"))
        self.assertFalse(os.path.exists(self.path("bad/checkpoints/step-00000001")))
        self.tune("good", "--max-steps", 2)
        done = run("train", "--run", self.path("good"), "--from", self.data, "--max-steps", 3, check=False)
        self.assert_fails(done, 4, "from was", self.data)


if __name__ == "__main__":
    harness.main()
