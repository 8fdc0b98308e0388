"""--on-event: the command gets the events of a run, and neither slows nor ends it."""

import os
import signal
import time

import harness
from harness import run
from workers_test import WorkersCase, workers_of

STEPS = ["--eval.every", 0, "--checkpoint.every", 10]


class Events(WorkersCase):
    def on_event(self, more=""):
        return ["--on-event", f'echo "$REIGEN_EVENT $REIGEN_EVENT_STEP $REIGEN_EVENT_RUN $REIGEN_EVENT_MESSAGE" >> {self.path("events")}{more}']

    def events(self):
        return [line.split(" ", 3) for line in self.read("events").splitlines()] if os.path.exists(self.path("events")) else []

    def names(self):
        return [event[0] for event in self.events()]

    def wait_for(self, what, condition, process):
        deadline = time.time() + 120
        while not condition():
            if time.time() > deadline or process.poll() is not None:
                self.fail(f"{what}: {self.events()} {process.communicate(timeout=60)[1]}")
            time.sleep(0.02)

    def workers(self, rank):
        return [pid for pid, own in workers_of(self.path("run")) if own == rank]

    def test_the_end_of_a_run(self):
        done = self.train("run", "--max-steps", 5, *STEPS, *self.on_event("; echo no mail >&2; exit 7"))
        self.assertEqual(self.events(), [["finished", "5", self.path("run"), "max-steps reached"]])
        self.assertIn("warning: the command of --on-event ended with status 7 for the event finished: no mail", done.stderr)
        self.assertIn("ended with status 7", self.read("run/log.txt"))
        os.unlink(self.path("events"))
        done = self.train("diverged", "--max-steps", 100, *STEPS, *self.on_event(), "--schedule.rate", 1000, "--schedule.warmup-steps", 1,
                          "--optimizer.kind", "adamw", "--optimizer.weight-decay", 10, "--optimizer.max-skipped", 3, check=False)
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertEqual(self.names(), ["diverged"])
        self.assertIn("not finite for 3 steps", self.events()[0][3])

    def test_a_lost_worker_of_a_launcher_is_one_event(self):
        process = self.start("run", "--max-steps", 400, *STEPS, "--workers", 2, "--restarts", 1, *self.on_event())
        self.wait_for("a checkpoint", lambda: os.path.islink(self.path("run/last")), process)
        os.kill(self.workers(0)[0], signal.SIGKILL)  # rank 0 cannot say it itself
        error = process.communicate(timeout=180)[1]
        self.assertEqual(process.returncode, 0, error)
        self.assertEqual(self.names(), ["lost-worker", "finished"])
        self.assertIn("rank 0", self.events()[0][3])

    def test_a_lost_worker_of_an_elastic_job(self):
        process = self.start("run", "--max-steps", 400, *STEPS, "--workers", 3, "--elastic", *self.on_event())
        self.wait_for("a checkpoint", lambda: os.path.islink(self.path("run/last")), process)
        os.kill(self.workers(0)[0], signal.SIGKILL)  # the one after it writes the run, and has the command, too
        error = process.communicate(timeout=180)[1]
        self.assertEqual(process.returncode, 0, error)
        self.assertEqual(self.names(), ["lost-worker", "finished"])
        self.assertIn("the run continues with 2 workers", self.events()[0][3])

    def test_a_run_without_progress_is_stalled(self):
        process = self.start("run", "--max-steps", 400, *STEPS, "--workers", 2, "--silence", "1h", "--stalled-after", "1s", *self.on_event())
        self.wait_for("a checkpoint", lambda: os.path.islink(self.path("run/last")), process)
        victim = self.workers(1)[0]
        os.kill(victim, signal.SIGSTOP)
        self.wait_for("the event", lambda: self.names() == ["stalled"], process)
        os.kill(victim, signal.SIGCONT)
        error = process.communicate(timeout=180)[1]
        self.assertEqual(process.returncode, 0, error)
        self.assertEqual([name for name in self.names() if name != "stalled"], ["finished"])  # on a busy machine it may stall again

    def test_a_file_cannot_give_the_command(self):
        config = self.write("config.yaml", f"on-event: touch {self.path('touched')}\n")
        done = run(*self.arguments("run", "--max-steps", 1, "--config", config), check=False)
        self.assert_fails(done, 2, "on-event")
        self.assertFalse(os.path.exists(self.path("touched")))


if __name__ == "__main__":
    harness.main()
