"""--checkpoint.copy-to and `reigen restore`: a run continues from its second copy when its directory is gone."""

import json
import os
import shutil
import signal
import time

import harness
from harness import run
from workers_test import WorkersCase

STEPS = ["--eval.every", 0, "--checkpoint.every", 10, "--checkpoint.keep", 1]


class Copies(WorkersCase):
    def records(self, name, kind):
        return [r for r in map(json.loads, self.read(f"{name}/measurements/rank-0.jsonl").splitlines())
                if r["kind"] == kind]

    def lose_the_run(self, place, at, **kwargs):
        """Kills a run with a copy and removes its directory."""
        process = self.start("run", "--max-steps", 100000, *STEPS, "--workers", 2, "--checkpoint.copy-to", place, **kwargs)
        deadline = time.time() + 120
        while not os.path.exists(f"{at}/last") and time.time() < deadline and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assert_no_worker_left("run")
        shutil.rmtree(self.path("run"))

    def continue_from(self, place, at, **kwargs):
        # A command that still copied when the run was killed may have replaced the copy since.
        done = run("restore", place, "--run", self.path("new"), **kwargs)
        step = int(os.readlink(f"{at}/last")[-8:])
        self.assertIn(f"step {step:,}", done.stderr)
        last = step + 20
        # The options of the run are those of the copy; the number of workers too, for equal bits.
        run("train", "--run", self.path("new"), "--max-steps", last)
        self.train("straight", "--max-steps", last, *STEPS, "--workers", 2)
        self.assertEqual(sorted(self.losses("new")), list(range(step + 1, last + 1)))
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(self.digest("straight", file), self.digest("new", file))
        run("report", self.path("new"))

    def test_from_a_directory(self):
        copy = self.path("copy")
        self.lose_the_run(copy, copy)
        self.continue_from(copy, copy)
        again = run("restore", copy, "--run", self.path("new"), check=False)
        self.assert_fails(again, 2, "already exists")
        # A damaged copy makes no run.
        path = os.path.join(copy, os.readlink(f"{copy}/last"), "optimizer.safetensors")
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            byte = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([byte[0] ^ 1]))
        damaged = run("restore", copy, "--run", self.path("other"), check=False)
        self.assert_fails(damaged, 4, "optimizer.safetensors")
        self.assertFalse(os.path.exists(self.path("other")))

    def test_a_copy_from_elsewhere_brings_no_program_with_rights(self):
        place = self.path("copy")
        self.train("run", "--max-steps", 4, *STEPS, "--checkpoint.copy-to", place)
        planted = f"{place}/{os.readlink(f'{place}/last')}/planted"
        with open(planted, "w") as file:
            file.write("#!/bin/sh\n")
        os.chmod(planted, 0o6755)
        said = run("restore", place, "--run", self.path("new $(run)")).stderr
        self.assertIn(f"--run '{self.path('new $(run)')}'`", said)
        found = os.stat(f"{self.path('new $(run)')}/checkpoints/{os.readlink(f'{place}/last')}/planted").st_mode
        self.assertEqual(found & 0o7000, 0)

    def test_from_another_host(self):
        ssh = self.write("ssh", "#!/bin/sh\nwhile [ $# -gt 2 ]; do shift; done\n"
                         "[ \"$1\" = vm2 ] || { echo \"no route to $1\" >&2; exit 255; }\nexec sh -c \"$2\"\n")
        os.chmod(ssh, 0o755)
        env = {**os.environ, "REIGEN_SSH": ssh}
        copy = self.path("copy")
        self.lose_the_run(f"vm2:{copy}", copy, env=env)
        self.continue_from(f"vm2:{copy}", copy, env=env)
        self.assert_fails(run("restore", f"vm3:{copy}", "--run", self.path("x"), check=False, env=env), 7, "no route to vm3")

    def test_a_copy_that_fails_stops_nothing(self):
        self.write("copy", "a file is in the way")
        done = self.train("run", "--max-steps", 30, *STEPS, "--checkpoint.copy-to", self.path("copy"))
        self.assertIn("was not copied", done.stderr)
        self.assertEqual(len(self.losses("run")), 30)
        failed = self.records("run", "copy")
        self.assertTrue(all(r["error"] for r in failed) and failed)
        self.assertIn("none at", json.loads(self.read("run/report.json"))["notes"]["second copy of the checkpoint"])
        # The next checkpoint is a new try; the last one of a run is always copied.
        os.unlink(self.path("copy"))
        self.train("run", "--max-steps", 50, "--checkpoint.copy-to", self.path("copy"))
        self.assertEqual(os.readlink(self.path("copy/last")), "step-00000050")
        report = json.loads(self.read("run/report.json"))
        self.assertEqual(report["numbers"]["copy_step"], 50)
        self.assertGreaterEqual(report["numbers"]["copy_age_seconds"], 0)
        # Not recorded: a run from elsewhere must not decide where this machine writes.
        self.assertNotIn(self.path("copy"), self.read("run/config.yaml"))
        self.assert_fails(self.train("run", "--checkpoint.copy-to", "copy", check=False), 2, "absolute directory")


if __name__ == "__main__":
    harness.main()
