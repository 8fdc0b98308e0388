"""Whole training runs through the real binary: resuming bit for bit, limits, bad input, full disks."""

import errno
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import harness
from harness import REIGEN, run

# Small enough that a step takes milliseconds; everything else is as in a real run. Dropout is given,
# because the recipe chooses it by the length of a run, and runs of different lengths are compared.
SMALL = ["--preset", "tiny", "--dropout", "0.1", "--model.width", 32, "--model.heads", 2, "--model.ffn-width", 64,
         "--model.encoder-layers", 1, "--model.decoder-layers", 1, "--batch.target-tokens", 300,
         "--schedule.kind", "fixed", "--schedule.rate", "0.002", "--schedule.warmup-steps", 10,
         "--eval.sentences", 8, "--eval.samples", 1, "--threads", 2]


class TrainCase(harness.Case):
    data = None

    @classmethod
    def setUpClass(cls):
        cls.data = cls.prepare_for_class(pairs=3000, vocab_size=400)

    def train(self, name, *more, check=True, **kwargs):
        return run("train", "--data", self.data, "--run", self.path(name), *SMALL, *more,
                   check=check, **kwargs)

    def start(self, name, *more):
        args = ["train", "--data", self.data, "--run", self.path(name), *SMALL, *more]
        return subprocess.Popen([REIGEN, *map(str, args)], stderr=subprocess.PIPE, text=True)

    def digest(self, name, checkpoint="last", file="model.safetensors"):
        with open(self.path(f"{name}/{checkpoint}/{file}"), "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()

    def records(self, name):
        with open(self.path(f"{name}/measurements/rank-0.jsonl")) as f:
            return [json.loads(line) for line in f]

    def last_record(self, name, kind):
        return [r for r in self.records(name) if r["kind"] == kind][-1]

    def manifest(self, name, checkpoint="last"):
        return json.loads(self.read(f"{name}/{checkpoint}/manifest.json"))

    def wait_for_step(self, name, step, process):
        deadline = time.time() + 120
        path = self.path(f"{name}/measurements/rank-0.jsonl")
        while time.time() < deadline and process.poll() is None:
            try:
                if f'"kind":"step","step":{step},' in self.read(path):
                    return
            except FileNotFoundError:
                pass
            time.sleep(0.001)
        self.fail(f"step {step} was not reached: {process.stderr.read()}")


class Runs(TrainCase):
    def test_a_run_writes_its_logs_and_checkpoints(self):
        done = self.train("run", "--max-steps", 60, "--eval.every", 30, "--checkpoint.every", 20,
                          "--checkpoint.keep", 1, "--log-every", 10)
        for phrase in ["step 10/60", "epoch", "loss", "rate", "tok/s", "ETA", "evaluation at step 30",
                       "BLEU", "chrF", "done: max-steps reached", "average step", "peak memory"]:
            self.assertIn(phrase, done.stderr)
        self.assertEqual(done.stdout, "")
        log = self.read("run/log.txt")
        for line in done.stderr.splitlines():
            self.assertIn(line, log)
        kept = sorted(os.listdir(self.path("run/checkpoints")))
        best = {os.readlink(self.path(f"run/{link}")) for link in ("best-loss", "best-bleu", "last")}
        self.assertEqual({f"checkpoints/{name}" for name in kept}, best)
        self.assertEqual(os.readlink(self.path("run/last")), "checkpoints/step-00000060")
        self.assertEqual(
            sorted(os.listdir(self.path("run/last"))),
            [".reigen", "SHA256SUMS", "manifest.json", "model.safetensors", "optimizer.safetensors",
             "vocab.model"])
        subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], check=True,
                       cwd=self.path("run/last"))
        steps = [r["step"] for r in self.records("run") if r["kind"] == "step"]
        self.assertEqual(steps, list(range(1, 61)))
        first = next(r for r in self.records("run") if r["kind"] == "step")
        self.assertLessEqual(sum(first["spans"].values()), first["seconds"] * 1.001)
        evaluations = [r for r in self.records("run") if r["kind"] == "evaluation"]
        self.assertEqual([r["step"] for r in evaluations], [30, 60])
        self.assertLess(evaluations[1]["nll"], evaluations[0]["nll"])
        self.train("run", "--max-steps", 60)  # it has reached its limit
        kinds = [r["kind"] for r in self.records("run")]
        self.assertEqual([kinds.count(kind) for kind in ("start", "step", "end")], [2, 60, 2])

    def test_the_recorded_configuration_is_enough_to_resume(self):
        self.train("run", "--max-steps", 4)
        shutil.copytree(self.path("run"), self.path("moved"))
        run("train", "--run", self.path("moved"), "--max-steps", 8, cwd="/")
        self.train("straight", "--max-steps", 8)
        self.assertEqual(self.digest("moved"), self.digest("straight"))
        run("train", "--config", self.path("run/config.yaml"), "--run", self.path("copy"),
            "--max-steps", 8)
        self.assertEqual(self.digest("copy"), self.digest("straight"))

    def test_micro_batches_change_rounding_and_nothing_else(self):
        self.train("whole", "--max-steps", 5)
        self.train("parts", "--max-steps", 5, "--micro-tokens", 100)
        losses = [[r["loss"] for r in self.records(name) if r["kind"] == "step"]
                  for name in ("whole", "parts")]
        parts = [r["micro_batches"] for r in self.records("parts") if r["kind"] == "step"]
        self.assertGreater(min(parts), 3)
        for a, b in zip(*losses):
            self.assertAlmostEqual(a, b, delta=1e-4 * a)

    def test_memory_stays_within_the_budget(self):
        more = ["--model.width", 256, "--model.ffn-width", 1024, "--batch.target-tokens", 4000,
                "--max-steps", 4, "--eval.every", 2, "--eval.sentences", 60, "--memory", "190MB"]
        done = self.train("tight", *more)
        used, unit, budget = re.search(r"peak memory +([\d.]+) (MB|GB) of (\d+) MB",
                                       done.stderr).groups()
        self.assertEqual((unit, budget), ("MB", "190"))
        self.assertLessEqual(float(used), 190)
        parts = [r["micro_batches"] for r in self.records("tight") if r["kind"] == "step"]
        self.assertGreater(min(parts), 1)

    def test_limits_by_epochs_time_and_patience(self):
        self.train("epochs", "--max-epochs", "0.5", "--no-eval.bleu")
        self.assertEqual(self.last_record("epochs", "end")["reason"], "max-epochs")
        state = self.manifest("epochs")["training"]["state"]
        self.assertGreaterEqual(state["position"], 1495)
        self.assertLess(state["position"], 1600)
        self.train("time", "--max-time", "1s", "--no-eval.bleu")
        self.assertEqual(self.last_record("time", "end")["reason"], "max-time")
        self.train("patience", "--max-steps", 1000, "--eval.every", 2, "--eval.patience", 3,
                   "--schedule.rate", "1e-12", "--no-eval.bleu")
        self.assertEqual(self.last_record("patience", "end")["reason"], "early stopping")
        self.assertLess(self.manifest("patience")["step"], 100)


class Decays(TrainCase):
    QUICK = ["--eval.every", 0, "--no-eval.bleu"]

    def decay(self, name, steps, *more, **kwargs):
        return run("train", "--run", self.path(name), "--decay-now", steps, *more, **kwargs)

    def decays(self, name):
        return [(r["step"], r["steps"], r["cause"]) for r in self.records(name) if r["kind"] == "decay"]

    def figures(self, name):
        """Those of the report's answer about the learning rate."""
        questions = json.loads(self.read(f"{name}/report.json"))["questions"]
        return next(q["figures"] for q in questions if q["id"] == "learning-rate")

    def test_a_run_ended_by_its_epochs_decays_on_request_and_is_over(self):
        self.train("run", "--max-epochs", "0.1", *self.QUICK)
        before = self.manifest("run")["step"]
        self.decay("run", 5)
        self.assertEqual(self.manifest("run")["step"], before + 5)
        self.assertEqual(self.last_record("run", "end")["reason"], "end of the decay")
        self.assertEqual(self.decays("run"), [(before, 5, "request")])
        self.assert_fails(self.decay("run", 7, check=False), 2, "--decay-now 7", "already", "--max-steps")
        # A request that reached the run in a different way does not restart it either.
        self.write("run/decay-now", "7\n")
        done = run("train", "--run", self.path("run"))
        self.assertIn("warning: ", done.stderr)
        self.assertFalse(os.path.exists(self.path("run/decay-now")))
        self.assertEqual(self.manifest("run")["step"], before + 5)
        self.assertEqual(len(self.decays("run")), 1)

    def test_a_new_limit_cancels_a_decay_and_allows_another(self):
        self.train("run", "--max-steps", 10, *self.QUICK)
        self.decay("run", 4)
        run("train", "--run", self.path("run"), "--max-steps", 20)
        self.assertEqual(self.last_record("run", "step")["rate"], 0.002)
        self.assertEqual(self.decays("run"), [(10, 4, "request"), (14, 0, "max-steps")])
        self.assertIn("decay cancelled after step 14", self.figures("run"))
        self.decay("run", 3)
        self.assertEqual(self.manifest("run")["step"], 23)
        self.decay("run", 3, "--max-steps", 40)
        self.assertEqual(self.manifest("run")["step"], 26)
        rates = {r["step"]: r["rate"] for r in self.records("run") if r["kind"] == "step"}
        for t in (1, 2, 3):
            for begin in (20, 23):
                self.assertAlmostEqual(rates[begin + t], 0.002 * (4 - t) / 4, places=12)

    def test_a_command_that_fails_leaves_no_request(self):
        self.train("run", "--max-steps", 5, *self.QUICK)
        self.assert_fails(self.decay("run", 4, "--model.width", 64, check=False), 4, "model.width")
        self.assertFalse(os.path.exists(self.path("run/decay-now")))

    def test_kill_9_after_a_request_does_not_move_or_lose_the_decay(self):
        process = self.start("run", "--max-steps", 100000, *self.QUICK)
        self.wait_for_step("run", 5, process)
        self.decay("run", 100000)
        deadline = time.time() + 60
        while os.path.exists(self.path("run/decay-now")) and time.time() < deadline:
            time.sleep(0.001)
        process.kill()
        process.communicate()
        begin = self.manifest("run")["step"]
        self.assertEqual(self.manifest("run")["training"]["state"]["decay"],
                         {"begin": begin, "steps": 100000, "limit": 100000})
        steps = re.findall(r'"kind":"step","step":(\d+),', self.read("run/measurements/rank-0.jsonl"))
        logged = int(steps[-1])
        process = self.start("run", "--max-steps", 100000, *self.QUICK)
        self.wait_for_step("run", logged + 3, process)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 130)
        process.stderr.close()
        self.assertEqual(self.decays("run"), [(begin, 100000, "request")])
        self.assert_fails(self.decay("run", 5, check=False), 2, "--decay-now 5", "already")

    def test_a_request_that_no_checkpoint_records_waits_for_the_next_attempt(self):
        self.train("run", "--max-steps", 5, *self.QUICK)
        self.write("run/decay-now", "3\n")
        run("train", "--run", self.path("run"))
        self.assertEqual(self.decays("run"), [(5, 3, "request")])
        self.assertEqual(self.manifest("run")["step"], 8)

    def test_wsd_decays_before_its_epochs_end_and_warns_of_a_limit_by_time(self):
        wsd = ["--schedule.kind", "wsd", *self.QUICK]
        done = self.train("epochs", "--max-epochs", "0.2", *wsd)
        self.assertNotIn("warning: ", done.stderr)
        self.assertEqual(self.last_record("epochs", "end")["reason"], "max-epochs")
        last = self.last_record("epochs", "step")
        decay = min(last["step"] // 2, last["step"] - 10)
        self.assertAlmostEqual(last["rate"], 0.002 / (decay + 1), places=12)
        done = self.train("time", "--max-time", "0.1s", *wsd)
        self.assertIn("warning: --max-time", done.stderr)
        done = self.train("short", "--max-steps", 10, *wsd)
        self.assertIn("warning: schedule.kind wsd", done.stderr)

    def test_the_report_has_the_planned_decay_of_wsd(self):
        self.train("run", "--max-steps", 30, "--schedule.kind", "wsd", *self.QUICK)
        figures = self.figures("run")
        self.assertEqual(figures["schedule.decay-steps"], "15")
        self.assertTrue(figures["planned decay after step 15"].startswith("15 steps"))
        self.train("epochs", "--max-epochs", "0.5", "--schedule.kind", "wsd", *self.QUICK)
        last = self.last_record("epochs", "end")["step"]
        self.assertEqual(self.last_record("epochs", "start")["last_step"], last)
        self.assertIn(f"planned decay after step {last - last // 2}", self.figures("epochs"))


class Recipes(TrainCase):
    """Options that are not given come from the recipe."""

    MODEL = ["--preset", "tiny", "--model.width", 32, "--model.heads", 2, "--model.ffn-width", 64,
             "--model.encoder-layers", 1, "--model.decoder-layers", 1, "--threads", 1]
    CHOSEN = {"optimizer.kind": "muon", "schedule.kind": "wsd"}

    def begin(self, name, *more, **kwargs):
        return run("train", "--data", self.data, "--run", self.path(name), *self.MODEL, *more, **kwargs)

    def option(self, name, key):
        value = self.manifest(name)["training"]["options"]
        for part in key.split("."):
            value = value[part]
        return value

    def test_the_recipe_is_recorded_and_a_resume_repeats_it_bit_for_bit(self):
        more = ["--max-steps", 12, "--batch.target-tokens", 300, "--no-eval.bleu"]
        done = self.begin("run", *more)
        line = next(l for l in done.stderr.splitlines() if l.startswith("recipe best"))
        self.assertEqual(self.option("run", "recipe"), "best")
        for key, value in self.CHOSEN.items():
            self.assertIn(f"{key} {value}", line)
            self.assertEqual(self.option("run", key), value)
        self.assertNotIn("batch.target-tokens", line)
        rates = [r["rate"] for r in self.records("run") if r["kind"] == "step"]
        self.assertEqual(rates.index(max(rates)), self.option("run", "schedule.warmup-steps") - 1)
        self.assertLess(rates[-1], max(rates) / 4)
        straight = self.digest("run")
        self.begin("stopped", *more, "--checkpoint.every", 5)
        shutil.rmtree(self.path("stopped/checkpoints/step-00000012"))
        os.remove(self.path("stopped/last"))
        os.symlink("checkpoints/step-00000005", self.path("stopped/last"))
        done = run("train", "--run", self.path("stopped"))
        self.assertNotIn("recipe best", done.stderr)
        self.assertEqual(self.digest("stopped"), straight)
        self.assertEqual(self.manifest("stopped")["training"]["options"]["schedule"],
                         self.manifest("run")["training"]["options"]["schedule"])

    def test_classic_is_adam_and_noam_and_cannot_change(self):
        done = self.begin("run", "--recipe", "classic", "--max-steps", 3, "--no-eval.bleu")
        self.assertNotIn("recipe", done.stderr)
        self.assertEqual((self.option("run", "optimizer.kind"), self.option("run", "schedule.kind"),
                          self.option("run", "dropout.residual"), self.option("run", "batch.target-tokens")),
                         ("adam", "noam", 0.1, 4096))
        self.assert_fails(run("train", "--run", self.path("run"), "--recipe", "best", check=False), 4, "recipe")
        # A run of a version without recipes continues as it was, and is classic.
        config = self.read("run/config.yaml")
        self.write("run/config.yaml", "".join(l for l in config.splitlines(True) if not l.startswith("recipe")))
        run("train", "--run", self.path("run"), "--max-steps", 5)
        self.assertEqual((self.option("run", "optimizer.kind"), self.option("run", "recipe")), ("adam", "classic"))
        self.assertEqual(self.manifest("run")["step"], 5)

    def test_a_run_without_a_limit_has_the_length_of_its_recipe(self):
        found = json.loads(run("doctor", "--data", self.data, *self.MODEL, "--seconds", "0.2", "--json").stdout)
        steps = int(re.search(r"max-steps (\d+)", found["recipe"]).group(1))
        self.assertEqual(sum(found["decay"].values()), steps)
        self.assertEqual(found["optimizer"], "muon")
        self.assertGreater(found["compute"]["muon"], 0)
        self.assertLess(found["compute"]["muon"], found["compute"]["optimizer"])
        self.assertGreater(found["memory"]["budget_bytes"], found["memory"]["fixed_bytes"])
        self.assertGreater(found["hours"], 0)
        classic = run("train", "--data", self.data, "--run", self.path("run"), *self.MODEL, "--recipe", "classic",
                      check=False)
        self.assert_fails(classic, 2, "--max-steps")


    def test_a_limit_of_the_recipe_gives_way_and_a_rate_that_rises_is_warned_about(self):
        self.begin("run", "--max-steps", 12, "--batch.target-tokens", 300, "--no-eval.bleu")
        resume = lambda *more: run("train", "--run", self.path("run"), *more).stderr
        # As if the recipe had chosen the number of steps.
        config = self.read("run/config.yaml")
        self.assertIn("max-steps-chosen: false", config)
        self.write("run/config.yaml", config.replace("max-steps-chosen: false", "max-steps-chosen: true"))
        self.assertNotIn("rises again", resume("--max-time", "10m"))
        self.assertEqual(self.manifest("run")["step"], 12)
        self.assertIn("rises again", resume("--max-epochs", 2))
        self.assertGreater(self.manifest("run")["step"], 12)
        self.assertEqual((self.option("run", "max-steps"), self.option("run", "max-steps-chosen")), (0, False))
        rates = {r["step"]: r["rate"] for r in self.records("run") if r["kind"] == "step"}
        self.assertGreater(rates[13], rates[12])
        self.assertNotIn("rises again", resume())


class Average(TrainCase):
    """The moving average of the weights: --ema.decay."""

    MORE = ["--ema.decay", "0.9", "--eval.every", 10, "--checkpoint.every", 10, "--no-eval.bleu"]

    def test_it_is_evaluated_saved_and_used_where_it_is_better(self):
        self.train("run", *self.MORE, "--max-steps", 20)
        self.train("plain", *self.MORE[2:], "--max-steps", 20)
        for file in ("model.safetensors", "optimizer.safetensors"):  # training is the same
            self.assertEqual(self.digest("run", file=file), self.digest("plain", file=file))
        self.assertNotEqual(self.digest("run"), self.digest("run", file="average.safetensors"))
        self.assertNotIn("weights", self.manifest("plain"))
        for r in (r for r in self.records("run") if r["kind"] == "evaluation"):
            better = "average" if r["average_nll"] < r["own_nll"] else "model"
            self.assertEqual(r["nll"], min(r["average_nll"], r["own_nll"]))
            checkpoint = f"checkpoints/step-{r['step']:08}"
            self.assertEqual(self.manifest("run", checkpoint)["weights"], better)
            self.assertEqual(self.manifest("run", checkpoint)["scores"]["nll"], r["nll"])
        # The score in the manifest is that of the file it names, also for the other commands.
        path = self.path("run/last")
        for weights in ("average", "model"):
            self.change_manifest("run/last", lambda manifest: manifest.update(weights=weights))
            self.assertEqual(json.loads(run("inspect", path, "--json").stdout)["weights"], weights)
            scored = json.loads(run("evaluate", "--model", path, "--split", "valid",
                                    "--data", self.data, "--json").stdout)
            wanted = self.last_record("run", "evaluation")["average_nll" if weights == "average" else "own_nll"]
            self.assertAlmostEqual(scored["nll"], wanted, places=5)

    def test_a_resume_continues_it_bit_for_bit(self):
        self.train("straight", *self.MORE, "--max-steps", 30)
        self.train("run", *self.MORE, "--max-steps", 15)
        run("train", "--run", self.path("run"), "--max-steps", 30)
        for file in ("model.safetensors", "average.safetensors"):
            self.assertEqual(self.digest("run", file=file), self.digest("straight", file=file))
        # Without it from now on; the next attempt begins a new one.
        run("train", "--run", self.path("run"), "--max-steps", 31, "--ema.decay", 0)
        self.assertFalse(os.path.exists(self.path("run/last/average.safetensors")))
        run("train", "--run", self.path("run"), "--max-steps", 32, "--ema.decay", "0.5")
        self.assertTrue(os.path.exists(self.path("run/last/average.safetensors")))

    def test_inspect_names_the_weights_that_scored_better(self):
        self.train("run", *self.MORE, "--max-steps", 10)
        used = self.manifest("run")["weights"]
        first = "the moving average" if used == "average" else "the weights"
        self.assertIn(f"translation uses {first}", run("inspect", self.path("run/last")).stdout)
        self.change_manifest("run/last", lambda manifest: manifest.update(weights="model"))
        self.assertIn("translation uses the weights, which scored better", run("inspect", self.path("run/last")).stdout)
        self.change_manifest("run/last", lambda manifest: manifest.update(scores={}))
        self.assertIn("translation uses the weights; no score", run("inspect", self.path("run/last")).stdout)


class Resuming(TrainCase):
    MORE = ["--max-steps", 200, "--eval.every", 25, "--checkpoint.every", 10, "--checkpoint.keep", 2]

    def assert_same_as_straight(self, name):
        self.train("straight", *self.MORE)
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(self.digest(name, file=file), self.digest("straight", file=file))
        for link in ("best-loss", "best-bleu"):
            self.assertEqual(os.readlink(self.path(f"{name}/{link}")),
                             os.readlink(self.path(f"straight/{link}")))
        self.assertEqual([r["step"] for r in self.records(name) if r["kind"] == "step"],
                         list(range(1, 201)))
        losses = lambda n: [r["loss"] for r in self.records(n) if r["kind"] == "step"]
        self.assertEqual(losses(name), losses("straight"))
        scores = lambda n: [(r["step"], r["nll"], r["bleu"]) for r in self.records(n)
                            if r["kind"] == "evaluation"]
        self.assertEqual(scores(name), scores("straight"))

    def test_kill_9_at_random_moments(self):
        seed = int.from_bytes(os.urandom(4), "little")
        print("seed", seed)
        chance = random.Random(seed)
        for step in sorted(chance.sample(range(1, 121), 6)):
            process = self.start("killed", *self.MORE)
            self.wait_for_step("killed", step, process)
            time.sleep(chance.uniform(0, 0.02))  # in the middle of anything
            process.kill()
            process.communicate()
            self.assertEqual(process.returncode, -signal.SIGKILL)
        attempts = [r for r in self.records("killed") if r["kind"] == "start"]
        self.assertGreater(len(attempts), 1)
        self.train("killed", *self.MORE)
        self.assert_same_as_straight("killed")

    def test_signals_stop_after_the_step_with_everything_saved(self):
        for stop in (signal.SIGTERM, signal.SIGINT):
            process = self.start("stopped", *self.MORE)
            target = 13 if stop == signal.SIGTERM else 41
            self.wait_for_step("stopped", target, process)
            process.send_signal(stop)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, errors)
            self.assert_resumable("stopped", errors)
            self.assertGreaterEqual(self.manifest("stopped")["step"], target)
        self.train("stopped", *self.MORE)
        self.assert_same_as_straight("stopped")
        lost = [r["lost_steps"] for r in self.records("stopped") if r["kind"] == "start"]
        self.assertEqual(lost, [0, 0, 0])

    def test_a_storm_of_signals_is_one_request(self):
        big = ["--max-steps", 1000, "--model.width", 128, "--batch.target-tokens", 3000,
               "--eval.every", 0]
        process = self.start("storm", *big)
        self.wait_for_step("storm", 2, process)
        end = time.time() + 1
        while time.time() < end and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            time.sleep(0.0005)
        _, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130, errors)
        self.assertEqual(self.last_record("storm", "end")["reason"], "signal")
        self.assertEqual(self.last_record("storm", "end")["step"], self.manifest("storm")["step"])
        run("inspect", self.path("storm"), "--verify")

    def test_a_hangup_does_not_end_a_run(self):
        process = self.start("hung", "--max-steps", 60, "--no-eval.bleu")
        self.wait_for_step("hung", 5, process)
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0)

    def test_a_second_trainer_is_refused(self):
        process = self.start("busy", "--max-steps", 100000, "--eval.every", 0)
        self.wait_for_step("busy", 1, process)
        self.assert_fails(self.train("busy", "--max-steps", 5, check=False), 2,
                          f"process {process.pid}")
        process.kill()
        process.communicate()


class AnyMetric(TrainCase):
    def test_a_command_scores_translations_and_keeps_its_best(self):
        # It scores the first evaluation best.
        command = (f'wc -l < "$SOURCE" >> {self.path("lines")}; diff -q "$SOURCE" "$REFERENCE" > /dev/null; '
                   f'n=$(wc -l < {self.path("lines")}); echo "falling $((10 - n))"; echo rising $n')
        self.train("run", "--max-steps", 40, "--eval.every", 10, "--checkpoint.every", 10, "--checkpoint.keep", 1,
                   "--eval.command", command, "--workers", 2)
        records = [r for r in self.records("run") if r["kind"] == "evaluation"]
        self.assertEqual([r["metrics"] for r in records],
                         [{"falling": 10 - n, "rising": n} for n in (1, 2, 3, 4)])
        self.assertEqual(self.read("lines").split(), ["8"] * 4)
        self.assertEqual(os.readlink(self.path("run/best-falling")), "checkpoints/step-00000010")
        self.assertEqual(os.readlink(self.path("run/best-rising")), "checkpoints/step-00000040")
        self.assertEqual(self.manifest("run", "best-falling")["scores"]["falling"], 9)
        report = json.loads(self.read("run/report.json"))
        trained = next(q for q in report["questions"] if q["id"] == "trained")
        self.assertIn("best falling", trained["figures"])
        self.assertIn("falling 9.0000", self.read("run/log.txt"))
        # The counters of a resumed run have them, too.
        run("train", "--run", self.path("run"), "--max-steps", 50, "--eval.command", command)
        self.assertEqual(os.readlink(self.path("run/best-falling")), "checkpoints/step-00000010")
        self.assertEqual(os.readlink(self.path("run/best-rising")), "checkpoints/step-00000050")
        # A file from elsewhere runs no program: the command is not recorded, and not taken from a record.
        self.assertNotIn("falling", self.read("run/config.yaml"))
        done = run("train", "--run", self.path("run"), "--max-steps", 60)
        self.assertIn("--eval.command again", done.stderr)
        starts = [r.get("eval_command") for r in self.records("run") if r["kind"] == "start"]
        self.assertEqual(starts, [command, command, None])  # for information
        config = self.read("run/config.yaml").replace('command: ""', f'command: "touch {self.path("harmed")}"')
        self.assertIn("harmed", config)
        self.write("run/config.yaml", config)
        done = run("train", "--run", self.path("run"), "--max-steps", 70)
        self.assertIn("config.yaml: eval.command is not taken", done.stderr)
        self.assertFalse(os.path.exists(self.path("harmed")))

    def test_it_stops_a_run_and_its_failure_does_not(self):
        self.train("run", "--max-steps", 100, "--eval.every", 5, "--eval.command",
                   f'echo x >> {self.path("calls")}; echo falling $((0 - $(wc -l < {self.path("calls")})))',
                   "--eval.stop-on", "command", "--eval.patience", 2)
        self.assertEqual(self.manifest("run")["step"], 15)
        done = self.train("failing", "--max-steps", 10, "--eval.every", 5, "--eval.command", "echo broken >&2; false")
        self.assertIn("broken", done.stderr)
        self.assertEqual(self.manifest("failing")["step"], 10)
        self.assert_fails(self.train("bad", "--max-steps", 5, "--eval.stop-on", "command", check=False), 2,
                          "eval.command")


class Bf16OnACpu(TrainCase):
    MORE = ["--eval.every", 20, "--checkpoint.every", 20, "--no-eval.bleu"]
    WITHOUT = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}  # as a processor that has no bf16

    def losses(self, name):
        return [r["loss"] for r in self.records(name) if r["kind"] == "step"]

    def test_it_learns_as_fp32_does_and_resumes_bit_for_bit(self):
        self.train("bf16", *self.MORE, "--max-steps", 40, "--precision", "bf16")
        self.train("fp32", *self.MORE, "--max-steps", 40)
        self.assertEqual(self.manifest("fp32")["training"]["state"]["precision"], "fp32")
        self.assertNotEqual(self.losses("fp32"), self.losses("bf16"))
        for a, b in zip(self.losses("fp32"), self.losses("bf16"), strict=True):
            self.assertAlmostEqual(a, b, delta=0.02)
        self.train("parts", *self.MORE, "--max-steps", 20, "--precision", "bf16")
        self.assertEqual(self.manifest("parts")["training"]["state"]["precision"], "bf16")
        self.train("parts", *self.MORE, "--max-steps", 40)  # the recorded precision
        self.assertEqual(self.losses("parts"), self.losses("bf16"))
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(self.digest("parts", file=file), self.digest("bf16", file=file))

    def test_a_processor_without_bf16_continues_the_same_run_and_warns(self):
        # Another order of sums changes the loss of a step by a millionth of what fp32 changes. Later steps drift apart,
        # because a factor may be rounded the other way.
        more = [*self.MORE, "--max-steps", 40]
        bf16 = {"here": None, "without": self.WITHOUT}
        for name, env in bf16.items():
            done = self.train(name, *more, "--precision", "bf16", env=env)
            bf16[name] = "emulated" in done.stderr
        self.assertTrue(bf16["without"])
        self.train("fp32", *more, "--precision", "fp32")
        here, without, fp32 = (self.losses(name)[0] for name in ("here", "without", "fp32"))
        self.assertAlmostEqual(here, without, delta=1e-6)
        self.assertGreater(abs(here - fp32), 1e-5)
        for name, first, then, whole in (("there", None, self.WITHOUT, "here"), ("back", self.WITHOUT, None, "without")):
            self.train(name, *self.MORE, "--max-steps", 20, "--precision", "bf16", env=first)
            done = self.train(name, *more, env=then)
            self.assertEqual("emulated" in done.stderr, bf16["without" if then else "here"])
            self.assertNotIn("computed in bf16 before", done.stderr)
            self.assertEqual(self.manifest(name)["training"]["state"]["precision"], "bf16")
            self.assertAlmostEqual(self.losses(name)[20], self.losses(whole)[20], delta=1e-6)
            for a, b in zip(self.losses(name), self.losses(whole), strict=True):
                self.assertAlmostEqual(a, b, delta=0.02)


    def test_auto_chooses_it_by_a_measurement_and_once(self):
        wide = ["--model.width", 256, "--model.heads", 4, "--model.ffn-width", 512, "--no-eval.bleu"]
        self.train("auto", *wide, "--max-steps", 2)
        chosen = self.manifest("auto")["training"]["state"]["precision"]
        device = self.last_record("auto", "start")["device"]
        ratio = re.search(r"products in bf16 \((.*) times as fast", device)
        self.assertEqual(chosen, "bf16" if ratio else "fp32")
        if ratio:
            self.assertGreaterEqual(float(ratio[1]), 1.1)
        self.train("auto", *wide, "--max-steps", 4)
        self.assertEqual(self.manifest("auto")["training"]["state"]["precision"], chosen)
        self.assertNotIn("times as fast", self.last_record("auto", "start")["device"])
        self.train("without", *wide, "--max-steps", 2, env=self.WITHOUT)
        self.assertEqual(self.manifest("without")["training"]["state"]["precision"], "fp32")


class BadInput(TrainCase):
    def test_unusable_options_are_named_in_the_error(self):
        self.assert_fails(run("train", "--run", self.path("r"), check=False), 2, "--data")
        self.assert_fails(self.train("r", "--recipe", "classic", check=False), 2, "--max-steps")
        self.assert_fails(self.train("r", "--max-steps", 1, "--preset", "smal", check=False), 2,
                          "'smal'", "'small'")
        self.assert_fails(self.train("r", "--max-steps", 1, "--model.heads", 3, check=False), 2,
                          "model.heads 3")
        self.assert_fails(self.train("r", "--max-steps", 1, "--memory", "lots", check=False), 2,
                          "--memory", "'lots'", "800MB")
        self.assert_fails(self.train("r", "--max-steps", 1, "--memory", "101MB", check=False), 2,
                          "--memory", "101 MB")
        self.assertFalse(os.path.exists(self.path("r/config.yaml")))

    def test_a_folder_that_is_no_run_is_left_alone(self):
        os.mkdir(self.path("notes"))
        self.write("notes/mine.txt", "keep")
        self.assert_fails(self.train("notes", "--max-steps", 1, check=False), 2, "mine.txt",
                          self.path("notes"))
        self.assertEqual(os.listdir(self.path("notes")), ["mine.txt"])

    def test_a_run_refuses_different_settings_and_different_data(self):
        self.train("run", "--max-steps", 2)
        before = self.digest("run")
        self.assert_fails(self.train("run", "--max-steps", 4, "--seed", 2, "--batch.pairs", 7,
                                     check=False), 4, "seed was 1 and is 2 now",
                          "batch.pairs was 0 and is 7 now")
        other = self.corpus(pairs=2000, name="other-text")
        run(*self.prepare_args(other, output="other", vocab_size=300), "--quiet")
        self.assert_fails(run("train", "--run", self.path("run"), "--data", self.path("other"),
                              "--max-steps", 4, check=False), 4, "400 pieces", "300")
        run(*self.prepare_args(other, output="same-size", vocab_size=400), "--quiet")
        self.assert_fails(run("train", "--run", self.path("run"), "--data", self.path("same-size"),
                              "--max-steps", 4, check=False), 4, self.path("same-size"))
        self.assertEqual(self.digest("run"), before)

    def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(self):
        self.train("run", "--max-steps", 20, "--checkpoint.every", 10, "--eval.every", 0,
                   "--no-eval.bleu")
        self.train("straight", "--max-steps", 25, "--no-eval.bleu")
        path = self.path("run/checkpoints/step-00000020/optimizer.safetensors")
        with open(path, "r+b") as f:
            f.seek(os.path.getsize(path) // 2)
            byte = f.read(1)
            f.seek(-1, os.SEEK_CUR)
            f.write(bytes([byte[0] ^ 1]))
        done = self.train("run", "--max-steps", 25, "--no-eval.bleu")
        self.assertIn("step-00000020/optimizer.safetensors: damaged", done.stderr)
        self.assertEqual(self.last_record("run", "start")["step"], 10)
        self.assertEqual(self.digest("run"), self.digest("straight"))
        self.assertIn("step-00000020.damaged", os.listdir(self.path("run/checkpoints")))
        shutil.rmtree(self.path("run/checkpoints/step-00000020.damaged"))
        for step in os.listdir(self.path("run/checkpoints")):
            os.truncate(self.path(f"run/checkpoints/{step}/model.safetensors"), 1000)
        self.assert_fails(self.train("run", "--max-steps", 30, check=False), 4,
                          "model.safetensors", "1,000 bytes")

    def test_the_best_checkpoint_survives_a_later_one_that_could_not_be_written(self):
        more = ["--eval.every", 5, "--checkpoint.keep", 1, "--no-eval.bleu"]
        self.train("run", "--max-steps", 5, *more)
        os.makedirs(self.path("run/checkpoints/step-00000010.partial/foreign"))
        done = self.train("run", "--max-steps", 9, *more)  # opening the run removes it
        self.assertNotIn("step-00000010.partial", os.listdir(self.path("run/checkpoints")))
        self.assertTrue(os.path.exists(self.path("run/best-loss/manifest.json")), done.stderr)

    def test_a_run_without_its_checkpoints_is_not_started_again(self):
        self.train("run", "--max-steps", 3, "--no-eval.bleu")
        log = self.read("run/measurements/rank-0.jsonl")
        shutil.rmtree(self.path("run/checkpoints"))
        self.assert_fails(self.train("run", "--max-steps", 5, check=False), 4,
                          self.path("run"), "checkpoints")
        self.assertEqual(self.read("run/measurements/rank-0.jsonl"), log)

    def test_a_preset_is_not_silently_ignored(self):
        self.train("run", "--max-steps", 2, "--no-eval.bleu")
        self.assert_fails(self.train("run", "--max-steps", 4, "--preset", "small", check=False), 4,
                          'preset was "tiny" and is "small" now')

    def test_divergence_stops_with_the_last_good_checkpoint_intact(self):
        self.train("run", "--max-steps", 10, "--checkpoint.every", 5)
        good = self.digest("run", "checkpoints/step-00000010")
        # The same run with a rate that overflows: only its recorded options have it.
        for file in ("config.yaml", ):
            text = self.read(f"run/{file}").replace("rate: 0.002", "rate: 1000")
            self.write(f"run/{file}", text)
        self.assert_fails(run("train", "--run", self.path("run"), "--max-steps", 500, check=False), 4,
                          "schedule.rate was 0.002 and is 1000")
        self.assert_fails(
            self.train("wild", "--max-steps", 500, "--schedule.rate", 1000,
                       "--schedule.warmup-steps", 1, "--optimizer.kind", "adamw",
                       "--optimizer.weight-decay", 10, "--eval.every", 0,
                       "--optimizer.max-skipped", 5, check=False), 8, " 5 steps")
        skipped = [r for r in self.records("wild") if r.get("skipped")]
        self.assertGreaterEqual(len(skipped), 5)
        report = json.loads(self.read("wild/report.json"))
        trained = report["verdicts"]["trained"]
        self.assertEqual([trained["answer"], trained["diverged_step"]], ["diverged", self.last_record("wild", "end")["step"]])
        self.assertIn("skipped steps", report["notes"])
        self.assertEqual(self.digest("run", "checkpoints/step-00000010"), good)

    def test_data_without_a_validation_set_trains_with_a_warning(self):
        text = self.corpus(pairs=1000, name="bare-text")
        run("prepare", "--source", "en", "--target", "de", "--train", f"{text}/train.en",
            f"{text}/train.de", "--vocab-size", 300, "--output", self.path("bare"), "--quiet")
        args = ["train", "--data", self.path("bare"), "--run", self.path("run"), *SMALL]
        self.assertIn("warning: ", run(*args, "--max-steps", 3).stderr)
        self.assertNotIn("evaluation", [r["kind"] for r in self.records("run")])
        self.assert_fails(run(*args, "--max-steps", 3, "--eval.patience", 2, check=False), 3,
                          self.path("bare"), "eval.patience is 2")

    def test_a_sentence_longer_than_the_model_is_named_before_training(self):
        self.assert_fails(self.train("run", "--max-steps", 1, "--model.max-length", 8, check=False),
                          3, "--model.max-length", "--max-pieces 7")


class FullDisk(TrainCase):
    def test_a_full_disk_costs_a_checkpoint_not_the_run(self):
        disk = self.path("disk")
        os.mkdir(disk)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk],
                                 capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("cannot mount a small disk here: needs root")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        more = ["--checkpoint.every", 5, "--checkpoint.keep", 1, "--eval.every", 0, "--no-eval.bleu"]
        self.train("disk/run", "--max-steps", 5, *more)
        good = self.digest("disk/run", "checkpoints/step-00000005")
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        self.write("disk/filler", b"x" * (free - 200_000))
        done = self.train("disk/run", "--max-steps", 12, *more, "--checkpoint.wait", 0, check=False)
        self.assert_fails(done, 7, os.strerror(errno.ENOSPC), "step-00000012",
                          self.path("disk/run/last"))
        self.assertEqual(self.digest("disk/run", "checkpoints/step-00000005"), good)
        self.assertEqual(os.listdir(self.path("disk/run/checkpoints")), ["step-00000005"])
        os.remove(self.path("disk/filler"))
        self.train("disk/run", "--max-steps", 12, *more)
        self.train("straight", "--max-steps", 12, *more)
        self.assertEqual(self.digest("disk/run"), self.digest("straight"))
        steps = [r["step"] for r in self.records("disk/run") if r["kind"] == "step"]
        self.assertEqual(steps, list(range(1, 13)))


if __name__ == "__main__":
    harness.main()
