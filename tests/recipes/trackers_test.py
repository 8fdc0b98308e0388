"""recipes/trackers against stand-ins of Weights & Biases and MLflow, and a scrape as Prometheus does it."""

import http.server
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.environ["REIGEN_SOURCE"], "tests", "cli"))
import harness  # noqa: E402
from harness import SOURCE, free_port, run  # noqa: E402

TRACKERS = os.path.join(SOURCE, "recipes", "trackers")
WANDB = """
import json, os
calls = []
def note(*call):
    with open(os.environ["WANDB_CALLS"], "a") as file: file.write(json.dumps(call) + "\\n")
class Run:
    def __init__(self): self.summary = {}; self.last = -1
    def log(self, values, step):
        assert step >= self.last, "W&B ignores steps that go back"
        self.last = step
        note("log", step, values)
    def finish(self): note("finish", self.summary)
def init(**options):
    note("init", options)
    return Run()
"""


class MlflowServer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.removeprefix("/api/2.0/mlflow/")
        self.server.calls.append((path, body))
        # The limits of MLflow's REST interface.
        good = len(body.get("metrics", [])) <= 1000 and len(body.get("params", [])) <= 100
        answers = {"experiments/search": {}, "experiments/create": {"experiment_id": "7"},
                   "runs/create": {"run": {"info": {"run_id": "abc"}}}, "runs/log-batch": {}, "runs/update": {}}
        self.send_response(200 if good and path in answers else 400)
        self.end_headers()
        self.wfile.write(json.dumps(answers.get(path, {})).encode())

    def log_message(self, *_):
        pass


class Trackers(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.data = cls.prepare_for_class(pairs=1000, vocab_size=400)
        cls.run_path = os.path.join(os.path.dirname(cls.data), "first")
        cls.train(8)

    @classmethod
    def train(cls, steps):
        run("train", "--preset", "tiny", "--model.width", 32, "--model.heads", 2, "--data", cls.data, "--run", cls.run_path,
            "--max-steps", steps, "--eval.every", 4, "--eval.sentences", 4, "--checkpoint.every", 4, "--quiet")

    def steps(self):
        with open(f"{self.run_path}/measurements/rank-0.jsonl") as file:
            return [r for r in map(json.loads, file) if r["kind"] == "step"]

    def script(self, name, *arguments, **environment):
        return subprocess.run([sys.executable, os.path.join(TRACKERS, name), *arguments], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **environment})

    def test_weights_and_biases(self):
        self.write("wandb.py", WANDB)
        done = self.script("to_wandb.py", self.run_path, "nmt", PYTHONPATH=self.folder, WANDB_CALLS=self.path("calls"))
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = [json.loads(line) for line in self.read("calls").splitlines()]
        self.assertEqual(calls[0][1]["project"], "nmt")
        self.assertEqual(calls[0][1]["config"]["model.width"], "32")
        losses = {call[1]: call[2]["train/loss"] for call in calls if call[0] == "log" and "train/loss" in call[2]}
        self.assertEqual(losses, {r["step"]: r["loss"] for r in self.steps()})
        self.assertEqual([call[1] for call in calls if call[0] == "log" and "eval/bleu" in call[2]], [4, 8])
        self.assertEqual(calls[-1], ["finish", {"reason": "max-steps"}])

    def test_mlflow(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), MlflowServer)
        server.calls = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        done = self.script("to_mlflow.py", self.run_path, MLFLOW_TRACKING_URI=f"http://127.0.0.1:{server.server_port}")
        self.assertEqual(done.returncode, 0, done.stderr)
        metrics = [m for path, body in server.calls if path == "runs/log-batch" for m in body.get("metrics", [])]
        self.assertEqual({m["step"]: m["value"] for m in metrics if m["key"] == "train/loss"}, {r["step"]: r["loss"] for r in self.steps()})
        self.assertEqual([m["step"] for m in metrics if m["key"] == "eval/bleu"], [4, 8])
        parameters = {p["key"]: p["value"] for path, body in server.calls if path == "runs/log-batch" for p in body.get("params", [])}
        self.assertEqual(parameters["model.width"], "32")
        self.assertEqual(server.calls[-1][1]["status"], "FINISHED")

    def test_prometheus(self):
        port = free_port()
        server = subprocess.Popen([sys.executable, os.path.join(TRACKERS, "to_prometheus.py"), self.run_path, "--port", str(port)], stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        for _ in range(200):
            try:
                text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
                break
            except OSError:
                time.sleep(0.05)
        for line in text.splitlines():  # https://prometheus.io/docs/instrumenting/exposition_formats/
            self.assertRegex(line, r'^# TYPE reigen_\w+ gauge$|^reigen_[a-z_]+\{run="first"\} -?[\d.e+-]+$')
        values = dict(re.findall(r'^(\w+)\{.*\} (.*)$', text, re.M))
        self.assertEqual(float(values["reigen_train_loss"]), self.steps()[-1]["loss"])
        self.assertEqual(float(values["reigen_step"]), 8)

    def test_a_hostile_log_and_name(self):
        sys.path.insert(0, TRACKERS)
        import records
        folder = self.path('a"} 1\n# TYPE evil')
        os.makedirs(f"{folder}/measurements")
        path = f"{folder}/measurements/rank-0.jsonl"
        lines = ["[]", "5", '{"kind": []}', '{"kind": "step"}', '{"kind": "step", "step": "1"}', "[" * 100_000,
                 '{"kind": "step", "step": 1, "time": "now"}', "\x00", '{"kind": "step", "step": 1' + "1" * 5000 + "}",
                 '{"kind": "step", "step": 3, "loss": 1e999, "seconds": -1, "x\u00e9": 2, "y": 1' + "0" * 400 + "}",
                 '{"kind": "end", "step": 3}']
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        self.assertEqual([r["step"] for r in records.follow(folder, every=0)], [3, 3])
        port = free_port()
        server = subprocess.Popen([sys.executable, os.path.join(TRACKERS, "to_prometheus.py"), folder, "--port", str(port)],
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        for _ in range(200):
            try:
                text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
                break
            except OSError:
                time.sleep(0.05)
        for line in text.splitlines():
            self.assertRegex(line, r'^# TYPE reigen_\w+ gauge$|^reigen_[a-zA-Z_]+\{run="a\\"} 1\\n# TYPE evil"\} -?[\d.e+-]+$')
        for make in (os.mkfifo, lambda p: os.symlink("/dev/zero", p)):
            os.remove(path)
            make(path)
            self.assertIsNone(next(records.follow(folder, once=True)))

    def test_steps_that_a_resume_repeats_are_sent_once(self):
        sys.path.insert(0, TRACKERS)
        import records
        os.makedirs(self.path("run/measurements"))
        log = "run/measurements/rank-0.jsonl"
        lines = [json.dumps({"kind": "step", "step": n, "loss": n}) + "\n" for n in range(1, 6)]
        self.write(log, "".join(lines))
        seen = []
        for record in records.follow(self.path("run"), every=0):
            seen.append(record["step"])
            if seen == [1, 2, 3, 4, 5]:  # a resume from step 3
                self.write(log, "".join(lines[:3]) + '{"kind": "start", "attempt": 2, "step": 3}\n')
            elif len(seen) == 6:
                with open(self.path(log), "a") as file:
                    file.write("".join(lines[3:]) + '{"kind":"step","step":6}\n{"kind":"end","step":6}\n')
        self.assertEqual(seen, [1, 2, 3, 4, 5, 3, 6, 6])


if __name__ == "__main__":
    harness.main()
