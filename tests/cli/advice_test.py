"""Advice on learning is followed as it stands, command by command, and the run gets better."""

import json
import os
import re
import shlex
import signal
import subprocess
import time

import harness
from harness import REIGEN, run

SMALL = ["--preset", "tiny", "--recipe", "classic", "--model.width", 32, "--model.heads", 2, "--model.ffn-width", 64,
         "--model.encoder-layers", 1, "--model.decoder-layers", 1, "--batch.target-tokens", 300, "--no-eval.bleu",
         "--eval.every", 20, "--checkpoint.every", 1000, "--threads", 1, "--schedule.warmup-steps", 10]
FIXED = ["--schedule.kind", "fixed", "--schedule.rate", "0.004"]


class Advice(harness.Case):
    data = None

    @classmethod
    def setUpClass(cls):
        cls.data = cls.prepare_for_class(pairs=3000, vocab_size=400)

    def train(self, name, *more, data=None):
        run("train", "--data", data or self.data, "--run", self.path(name), *SMALL, *more, "--quiet")

    def report(self, *names):
        run("report", *(self.path(name) for name in names), "--output", self.folder)
        return json.loads(self.read("report.json"))

    def verdict(self, name, about="trained"):
        return self.report(name)["verdicts"][about]

    def losses(self, name):
        lines = self.read(f"{name}/measurements/rank-0.jsonl").splitlines()
        return {r["step"]: r["nll"] for r in map(json.loads, lines) if r["kind"] == "evaluation"}

    def commands(self, verdict):
        found = re.findall(r"`reigen ([^`]+)`", verdict["advice"])
        self.assertTrue(found, verdict)
        return [shlex.split(command) for command in found]

    def test_a_run_that_improves_is_trained_on_and_gains_what_was_expected(self):
        self.train("run", *FIXED, "--max-steps", 300)
        report = self.report("run")
        verdict = report["verdicts"]["trained"]
        self.assertEqual(verdict["answer"], "improving", verdict)
        self.assertIn("300 of 300 steps", verdict["because"])
        expected = next(g for g in report["numbers"]["expected_gains"] if g["more"] == 0.5)
        self.assertGreater(expected["low"], 0)
        self.assertIn(f"{expected['gain']:.3f} less loss", verdict["advice"])
        run(*self.commands(verdict)[0], "--quiet")
        losses = self.losses("run")
        self.assertEqual(max(losses), 450)
        self.assertLess(losses[450], losses[300])

    def test_a_decay_that_is_advised_lowers_the_loss(self):
        self.train("run", "--schedule.kind", "fixed", "--schedule.rate", "0.02", "--max-steps", 600)
        verdict = self.verdict("run")
        decays = [c for c in self.commands(verdict) if "--decay-now" in c]
        self.assertEqual(len(decays), 1, verdict)
        run(*decays[0], "--quiet")
        losses = self.losses("run")
        self.assertEqual(max(losses), 750)
        self.assertLess(losses[750], losses[600])
        # At its end there is no prediction of more steps, but one of a longer run.
        self.assertEqual(self.verdict("run")["answer"], "schedule-over")
        self.assertIn("--run " + self.path("run-longer"), self.verdict("run")["advice"])

    def test_a_schedule_that_is_over_gets_a_longer_run(self):
        self.train("run", "--schedule.kind", "cosine", "--schedule.rate", "0.004", "--schedule.decay-steps", 150,
                   "--max-steps", 200)
        report = self.report("run")
        verdict = report["verdicts"]["trained"]
        self.assertEqual((verdict["answer"], verdict["confidence"]), ("schedule-over", "high"), verdict)
        self.assertNotIn("expected_gains", report["numbers"])
        run(*self.commands(verdict)[0], "--quiet")
        self.assertLess(min(self.losses("run-longer").values()), min(self.losses("run").values()) - 0.01)

    def test_a_run_stopped_within_its_plan_is_resumed(self):
        worker = subprocess.Popen([REIGEN, *map(str, ["train", "--data", self.data, "--run", self.path("run"), *SMALL,
                                                      *FIXED, "--max-steps", 2000, "--eval.every", 2000])],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        log = self.path("run/measurements/rank-0.jsonl")
        while worker.poll() is None and not (os.path.exists(log) and self.read(log).count('"kind":"step"') > 100):
            time.sleep(0.01)
        worker.send_signal(signal.SIGINT)
        worker.wait(120)
        verdict = self.verdict("run")
        self.assertEqual((verdict["answer"], verdict["confidence"]), ("improving", "low"), verdict)
        self.assertRegex(verdict["because"], r"of 2,000 steps are done \(\d+%\)")
        run(*self.commands(verdict)[0], "--quiet")
        self.assertEqual(max(self.losses("run")), 2000)

    def test_a_rate_that_teaches_nothing_is_lowered(self):
        self.train("run", "--schedule.kind", "fixed", "--schedule.rate", "0.3", "--max-steps", 200)
        verdict = self.verdict("run")
        self.assertEqual((verdict["answer"], verdict["level"]), ("useless", "frequencies-only"), verdict)
        self.assertIn("learning rate that is too high", verdict["because"])
        run(*self.commands(verdict)[0], "--quiet")
        self.assertLess(min(self.losses("run-lower-rate").values()), 0.8 * min(self.losses("run").values()))
        self.assertNotEqual(self.verdict("run-lower-rate")["answer"], "useless")

    def test_a_rate_that_is_too_low_is_raised(self):
        self.train("run", "--schedule.kind", "fixed", "--schedule.rate", "0.00002", "--max-steps", 200)
        verdict = self.verdict("run")
        self.assertEqual((verdict["answer"], verdict["level"]), ("useless", "hardly-learns"), verdict)
        self.assertIn("too low", verdict["because"])
        self.assertNotIn("too high", verdict["because"] + verdict["advice"])
        command = self.commands(verdict)[0]
        self.assertEqual(command[command.index("--schedule.rate") + 1], "0.0002")
        run(*command, "--quiet")
        self.assertLess(min(self.losses("run-higher-rate").values()), min(self.losses("run").values()) - 0.5)

    def test_a_run_that_diverged_starts_anew_with_a_lower_rate(self):
        self.train("run", "--schedule.kind", "fixed", "--schedule.rate", 2, "--max-steps", 200)
        verdict = self.verdict("run")
        self.assertEqual(verdict["answer"], "diverged", verdict)
        self.assertTrue(verdict["summary"].startswith("Training diverged at step "), verdict)
        self.assertLess(verdict["diverged_step"], 40)  # soon after the warm-up
        command = self.commands(verdict)[0]
        self.assertEqual(command[command.index("--schedule.rate") + 1], "0.67")
        run(*command, "--quiet")
        self.assertLess(min(self.losses("run-lower-rate").values()), min(self.losses("run").values()))

    def test_a_run_that_got_worse_starts_anew_with_a_lower_rate(self):
        # The rate rises 75-fold in mid-run, as a schedule typed wrongly does.
        self.train("run", "--schedule.kind", "piecewise", "--schedule.boundaries", "120", "--schedule.values",
                   "0.004,0.3", "--max-steps", 240)
        verdict = self.verdict("run")
        self.assertIn(verdict["answer"], ("getting-worse", "diverged"), verdict)
        if verdict["answer"] == "diverged":
            self.assertLess(abs(verdict["rises"][-1]["step"] - 120), 30, verdict)
        anew, best = self.commands(verdict)
        self.assertEqual(anew[anew.index("--schedule.values") + 1], "0.0013,0.1")
        run(*anew, "--quiet")
        losses, again = self.losses("run"), self.losses("run-lower-rate")
        self.assertLess(again[240], losses[240])
        chosen = json.loads(self.read(f"{best[best.index('--model') + 1]}/manifest.json"))
        self.assertEqual(chosen["step"], min(losses, key=losses.get))

    def test_training_pairs_in_a_different_order_are_no_use_and_are_named(self):
        text = self.corpus(pairs=3000, name="other")
        lines = self.read("other/train.de").splitlines(keepends=True)
        self.write("other/train.de", "".join(lines[1500:] + lines[:1500]))
        run(*self.prepare_args(text, output="shifted", vocab_size=400), "--quiet")
        self.train("run", "--schedule.kind", "fixed", "--schedule.rate", "0.01", "--max-steps", 640,
                   "--eval.every", 80, data=self.path("shifted"))
        data = self.verdict("run", "data")
        self.assertEqual(data["faults"], ["unused-sources"], data)
        self.assertIn("no translations of each other", data["because"])
        # Followed: with its own lines again, the sources are used.
        self.train("sound", "--schedule.kind", "fixed", "--schedule.rate", "0.01", "--max-steps", 640,
                   "--eval.every", 80)
        self.assertEqual(self.verdict("sound", "data")["faults"], [])
        self.assertLess(self.losses("sound")[640], self.losses("run")[640] - 0.3)

    def test_a_weight_decay_that_keeps_the_model_from_learning_is_lowered(self):
        self.train("run", *FIXED, "--optimizer.kind", "adamw", "--optimizer.weight-decay", 8, "--max-steps", 320)
        verdict = self.verdict("run")
        self.assertEqual(verdict["answer"], "useless", verdict)
        self.assertIn("optimizer.weight-decay", verdict["because"])
        command = self.commands(verdict)[0]
        self.assertEqual(command[command.index("--optimizer.weight-decay") + 1], "0.01")
        run(*command, "--quiet")
        self.assertLess(self.losses("run-less-decay")[320], self.losses("run")[320] - 0.5)

    def test_a_rate_that_fell_too_early_gets_a_decay_over_the_whole_run(self):
        self.train("run", "--schedule.kind", "exponential", "--schedule.rate", "0.004", "--schedule.decay-steps", 10,
                   "--schedule.decay-rate", "0.3", "--max-steps", 200)
        verdict = self.verdict("run")
        self.assertEqual(verdict["answer"], "schedule-over", verdict)
        run(*self.commands(verdict)[0], "--quiet")
        self.assertLess(min(self.losses("run-longer").values()), min(self.losses("run").values()) - 0.5)

    def test_a_warm_up_that_is_longer_than_the_run_is_shortened(self):
        self.train("run", *FIXED, "--schedule.warmup-steps", 4000, "--max-steps", 200)
        verdict = self.verdict("run")
        self.assertIn("warm-up (step 200 of 4,000)", verdict["because"], verdict)
        anew = next(c for c in self.commands(verdict) if "--schedule.warmup-steps" in c)
        run(*anew, "--quiet")
        self.assertLess(self.losses("run-shorter-warmup")[200], self.losses("run")[200] - 0.5)

    def test_validation_pairs_among_the_training_pairs_are_named_and_dropped(self):
        text = self.corpus(pairs=1500, name="other")
        for language in ("en", "de"):
            self.write(f"other/train.{language}",
                       self.read(f"other/train.{language}") + self.read(f"other/valid.{language}"))
        for rule, faults in (("--no-clean.heldout", ["leaked-validation"]), ("--clean.heldout", [])):
            run(*self.prepare_args(text, output="data", vocab_size=300), rule, "--quiet", "--overwrite")
            self.train(rule, *FIXED, "--max-steps", 100, data=self.path("data"))
            report = self.report(rule)["verdicts"]
            self.assertEqual(report["data"]["faults"], faults)
            self.assertEqual(report["overfitting"]["answer"] == "unknown", bool(faults), report["overfitting"])

    def test_too_much_dropout_is_halved(self):
        self.train("run", *FIXED, "--dropout", 0.6, "--max-steps", 400)
        verdict = self.verdict("run", "overfitting")
        self.assertTrue(verdict["dropout_too_high"], verdict)
        run(*self.commands(verdict)[0], "--quiet")
        self.assertLess(self.losses("run-less-dropout")[400], self.losses("run")[400])

    def test_the_best_checkpoint_of_a_run_that_overfits_is_better(self):
        text = self.corpus(pairs=60, name="little")
        run(*self.prepare_args(text, output="small", vocab_size=300), "--quiet")
        self.train("run", "--schedule.kind", "fixed", "--schedule.rate", "0.006", "--dropout", 0, "--max-steps", 600,
                   data=self.path("small"))
        verdict = self.verdict("run", "overfitting")
        self.assertEqual(verdict["answer"], "yes", verdict)
        self.assertNotIn("with dropout", verdict["because"])
        command = self.commands(verdict)[0]
        losses = self.losses("run")
        chosen = json.loads(self.read(f"{command[command.index('--model') + 1]}/manifest.json"))
        self.assertEqual(chosen["step"], min(losses, key=losses.get))
        done = run(*command, "--quiet", input="the cat\n")
        self.assertEqual(len(done.stdout.splitlines()), 1)

    def test_validation_text_of_a_different_kind_is_named(self):
        text = self.corpus(pairs=3000, name="other")
        for language in ("en", "de"):
            lines = self.read(f"other/valid.{language}").splitlines()
            self.write(f"other/valid.{language}", "".join(line[::-1] + "\n" for line in lines))
        run(*self.prepare_args(text, output="mixed", vocab_size=400), "--quiet")
        self.train("run", *FIXED, "--max-steps", 160, data=self.path("mixed"))
        verdict = self.verdict("run")
        self.assertTrue(verdict["validation_unlike_training"], verdict)
        self.assertIn("validation text is unlike training text", verdict["because"])

    def test_runs_are_held_against_each_other(self):
        for seed in (1, 2):
            self.train(f"a{seed}", *FIXED, "--max-steps", 160, "--seed", seed)
            self.train(f"b{seed}", "--schedule.kind", "fixed", "--schedule.rate", "0.0004", "--max-steps", 160,
                       "--seed", seed)
        self.report("a1", "b1")
        alone = json.loads(self.read("comparison.json"))
        self.assertEqual([d["name"] for d in alone["differences"]], ["schedule.rate"])
        self.assertEqual(alone["effects"][0]["loss"]["answer"], "cannot tell")
        told = run("report", *(self.path(n) for n in ("a1", "a2", "b1", "b2")), "--output", self.folder).stdout
        four = json.loads(self.read("comparison.json"))
        self.assertEqual(four["variants"], [[0, 1], [2, 3]])
        self.assertEqual(four["effects"][0]["loss"]["answer"], "clear", four)
        self.assertGreater(four["effects"][0]["loss"]["after"], four["effects"][0]["loss"]["before"])
        self.assertIn("clearly worse", told)
        self.assertIn("clearly worse", self.read("report.html"))


if __name__ == "__main__":
    harness.main()
