"""Reports of real runs with a known cause: bottleneck, trained or not, overfitting."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time

import harness
from harness import REIGEN, run

SMALL = ["--preset", "tiny", "--model.width", 32, "--model.heads", 2, "--model.ffn-width", 64,
         "--model.encoder-layers", 1, "--model.decoder-layers", 1, "--batch.target-tokens", 300,
         "--schedule.kind", "fixed", "--schedule.rate", "0.002", "--schedule.warmup-steps", 10,
         "--eval.sentences", 4, "--eval.samples", 1, "--threads", 1, "--preflight", "0.1"]
QUESTIONS = ["how-long", "trained", "overfitting", "busy", "network", "learning-rate", "training-set",
             "checkpoint-files", "checkpoint-size", "average-step", "correlation"]


class ReportCase(harness.Case):
    data = None

    @classmethod
    def setUpClass(cls):
        case = cls("setUp")
        case.setUp()
        cls.addClassCleanup(case.doCleanups)
        run(*case.prepare_args(case.corpus(pairs=3000), vocab_size=400), "--quiet")
        cls.data = case.path("data")

    def arguments(self, name, *more, data=None):
        return [str(a) for a in ["train", "--data", data or self.data, "--run", self.path(name), *SMALL, *more]]

    def train(self, name, *more, **kwargs):
        return run(*self.arguments(name, *more, **kwargs))

    def report(self, name):
        return json.loads(self.read(f"{name}/report.json"))

    def records(self, name, rank=0):
        return [json.loads(line) for line in self.read(f"{name}/measurements/rank-{rank}.jsonl").splitlines()]

    def verdict(self, name, about):
        return self.report(name)["verdicts"][about]


class OneWorker(ReportCase):
    def test_a_run_answers_all_eleven_questions(self):
        self.train("run", "--max-steps", 400, "--eval.every", 50, "--checkpoint.every", 100, "--no-eval.bleu")
        report = self.report("run")
        self.assertEqual([q["id"] for q in report["questions"]], QUESTIONS)
        for question in report["questions"]:
            self.assertTrue(question["answer"], question)
        pairs = sum(c["lines_kept"] for c in json.loads(self.read(f"{self.data}/manifest.json"))["train"])
        self.assertEqual(report["numbers"]["training_pairs"], pairs)
        self.assertEqual(report["numbers"]["steps"], 400)
        files = {name for name in os.listdir(self.path("run/last")) if not name.startswith(".")}
        size = sum(os.path.getsize(self.path(f"run/last/{name}")) for name in files)
        self.assertEqual(report["numbers"]["checkpoint_bytes"], size)
        page = self.read("run/report.html")
        for text in [*QUESTIONS, "<svg", "prefers-color-scheme:dark", "aria-label"]:
            self.assertIn(text, page)
        self.assertEqual(re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page), [])
        steps = [r for r in self.records("run") if r["kind"] == "step"]
        wall = sum(r["seconds"] for r in steps)
        self.assertAlmostEqual(sum(sum(r["spans"].values()) for r in steps) / wall, 1, delta=0.02)
        # A run that was stopped early still improves.
        self.assertEqual(report["verdicts"]["trained"]["answer"], "improving", report["verdicts"])
        told = run("report", self.path("run"), "--price-per-hour", 36)
        for question in report["questions"]:
            self.assertIn(question["question"], told.stdout)
        seconds, cost = self.report("run")["numbers"]["seconds"], self.report("run")["numbers"]["cost"]
        self.assertAlmostEqual(cost, seconds / 100, places=6)
        # The report does not need the dataset.
        pairs = report["numbers"]["training_pairs"]
        shutil.copytree(self.path("run"), self.path("elsewhere"))
        config = self.read("elsewhere/config.yaml")
        self.write("elsewhere/config.yaml", re.sub("(?m)^data: .*", "data: /nowhere", config))
        run("report", self.path("elsewhere"))
        self.assertEqual(self.report("elsewhere")["numbers"]["training_pairs"], pairs)
        both = json.loads(run("report", self.path("run"), self.path("run"), "--json",
                              "--output", self.path("both")).stdout)
        self.assertEqual(len(both), 2)
        for question in report["questions"]:
            self.assertIn(question["question"], self.read("both/report.html"))
        self.assertIn("bottleneck: ", run("top", self.path("run"), "--once").stdout)
        end = self.records("run")[-1]
        self.assertEqual(end["kind"], "end")
        # A damaged rollup and an incomplete last line do no harm.
        self.write("run/measurements/rollup.json", "{")
        with open(self.path("run/measurements/rank-0.jsonl"), "a") as log:
            log.write('{"kind":"st')
        run("report", self.path("run"))
        self.assertEqual(self.report("run")["numbers"]["steps"], 400)
        self.assertIn("cut off", self.report("run")["notes"])
        # The duration is the attempt's own record, and the learning rate's answer lists the options of its schedule.
        self.assertAlmostEqual(self.report("run")["numbers"]["seconds"], end["seconds"], places=3)
        answers = {q["id"]: q for q in self.report("run")["questions"]}
        self.assertRegex(answers["busy"]["answer"], "^(yes|no): [0-9]+%")
        self.assertRegex(answers["learning-rate"]["answer"], r"2\.00e-03.* 10 steps")
        self.assertEqual(set(answers["learning-rate"]["figures"]), {
            "schedule.kind", "schedule.rate", "schedule.start-rate", "schedule.warmup-steps"})

    def test_a_prediction_of_doctor_stands_beside_the_measurement(self):
        arguments = [a for a in self.arguments("run", "--max-steps", 60, "--no-eval.bleu")]
        at = arguments.index("--run")
        found = run("doctor", *arguments[1:at], *arguments[at + 2:], "--seconds", 2, "--json").stdout
        run(*arguments)
        with open(self.path("doctor.json"), "w") as f:
            f.write(found)
        told = json.loads(run("report", self.path("run"), "--doctor", self.path("doctor.json"), "--json").stdout)
        self.assertEqual(told["numbers"]["doctor"]["step_seconds"], json.loads(found)["forecast"]["step_seconds"])
        with open(self.path("doctor.json"), "w") as f:
            f.write("{}")
        self.assert_fails(run("report", self.path("run"), "--doctor", self.path("doctor.json"), check=False), 3,
                          self.path("doctor.json"), "reigen doctor --json")

    def test_options_of_a_page_that_is_not_served_are_refused(self):
        self.assert_fails(run(*self.arguments("none", "--dashboard-port", 1234, "--max-steps", 1), check=False), 2,
                          "add --dashboard")
        self.assertFalse(os.path.exists(self.path("none")))

    def test_a_tiny_training_set_is_overfitted(self):
        text = self.corpus(pairs=40, name="little")
        run(*self.prepare_args(text, output="small", vocab_size=300), "--quiet")
        self.train("run", "--recipe", "classic", "--max-steps", 700, "--eval.every", 50, "--no-eval.bleu",
                   "--schedule.rate", "0.005",
                   "--checkpoint.every", 1000, data=self.path("small"))
        verdict = self.verdict("run", "overfitting")
        self.assertEqual(verdict["answer"], "yes", verdict)
        evaluations = [(r["nll"], r["step"]) for r in self.records("run") if r["kind"] == "evaluation"]
        self.assertEqual(verdict["best_step"], min(evaluations)[1])

    def test_steps_repeated_after_a_kill_and_the_pause_before_them_are_part_of_the_answer(self):
        arguments = self.arguments("run", "--max-steps", 300, "--checkpoint.every", 60, "--no-eval.bleu")
        worker = subprocess.Popen([REIGEN, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        log = self.path("run/measurements/rank-0.jsonl")
        while worker.poll() is None:
            if os.path.exists(log) and '"kind":"step","step":90,' in self.read("run/measurements/rank-0.jsonl"):
                break
            time.sleep(0.01)
        worker.kill()
        worker.wait()
        time.sleep(0.5)
        run(*arguments)
        times = self.report("run")["numbers"]["time"]
        parts = [times[k] for k in ("steps", "evaluations", "stalls", "start_up", "repeated", "other")]
        self.assertGreaterEqual(min(parts), 0, times)
        self.assertAlmostEqual(sum(parts), times["wall"], places=3)
        self.assertGreater(times["repeated"], 0)
        self.assertGreaterEqual(times["paused"], 0.4)
        lost = sum(r["lost_seconds"] for r in self.records("run") if r["kind"] == "start")
        self.assertAlmostEqual(times["repeated"], lost, places=3)
        answer = next(q for q in self.report("run")["questions"] if q["id"] == "how-long")
        self.assertIn("in 2 attempts", answer["answer"])
        self.assertIn(f"--run {self.path('run')} --checkpoint.every 30", answer["figures"]["to repeat less"])
        run("report", self.path("run"), "--price-per-hour", 3600)
        self.assertAlmostEqual(self.report("run")["numbers"]["cost"], times["wall"], places=3)
        # Followed: a stop at any later step repeats fewer than half as many.
        command = shlex.split(re.search(r"`reigen ([^`]+)`", answer["figures"]["to repeat less"])[1])
        run(*command, "--max-steps", 400, "--quiet")
        saved = {r["step"] for r in self.records("run") if r["kind"] == "checkpoint" and r["step"] > 300}
        self.assertLessEqual({330, 360, 390}, saved)  # and after evaluations

    def test_a_folder_that_is_no_run_is_refused(self):
        self.assert_fails(run("report", self.folder, check=False), 3, "is not a run")


class SeveralWorkers(ReportCase):
    def test_the_log_has_every_rank_and_its_spans_add_up(self):
        self.train("run", "--max-steps", 150, "--no-eval.bleu", "--workers", 2)
        for rank in (0, 1):
            records = self.records("run", rank)
            steps = [r for r in records if r["kind"] == ("step" if rank == 0 else "spans")]
            self.assertEqual(sum(r.get("steps", 1) for r in steps), 150)
            covered = sum(sum(r["spans"].values()) for r in steps)
            self.assertAlmostEqual(covered / sum(r["seconds"] for r in steps), 1, delta=0.02)
        self.assertEqual([r["rank"] for r in self.report("run")["numbers"]["ranks"]], [0, 1])

    def test_the_rank_that_others_wait_for_is_named(self):
        more = ["--model.width", 64, "--model.ffn-width", 128, "--batch.target-tokens", 1200, "--max-steps", 30,
                "--no-eval.bleu"]
        workers = []
        port = harness.free_port()
        for rank in range(2):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
                   "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            workers.append(subprocess.Popen([REIGEN, *self.arguments("run", *more)], env=env,
                                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        while workers[0].poll() is None:  # a sixth of a processor for rank 1
            workers[1].send_signal(signal.SIGSTOP)
            time.sleep(0.05)
            workers[1].send_signal(signal.SIGCONT)
            time.sleep(0.01)
        self.assertEqual([worker.wait(60) for worker in workers], [0, 0])
        verdict = self.verdict("run", "bottleneck")
        self.assertEqual([verdict["cause"], verdict["rank"]], ["straggler", 1], verdict)


if __name__ == "__main__":
    harness.main()
