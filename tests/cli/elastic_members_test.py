"""Elastic training whose members change: workers that wake, join again, and leave."""

import signal
import time

import harness
from elastic_test import SMALL, ElasticRuns
from elastic_job import TOKEN, records_in, steps_in
from harness import run

# Large batches, so that workers join before the end.
SLOW = [*(9000 if value == 600 else value for value in SMALL), "--ema.decay", "0.9"]


class Members(ElasticRuns):
    settings = SLOW
    steps = 120

    def wait_for_change(self, job, count):
        """The record of the count-th change of the membership."""
        deadline = time.monotonic() + 60
        while len(records_in(job.run, "membership")) < count:
            if time.monotonic() > deadline or not job.alive():
                raise AssertionError(job.all_output())
            time.sleep(0.01)
        return records_in(job.run, "membership")[count - 1]

    def assert_no_weights_drifted(self, job):
        """A checkpoint compares the weights of all workers."""
        self.assertNotIn("drifted", job.all_output())

    def test_a_stopped_writer_joins_again_and_has_the_state_to_finish_the_run_alone(self):
        job = self.start(3, "--silence", "1")
        job.wait_for_step(10)
        job.stop(0)
        self.assertEqual([lost["worker"] for lost in self.wait_for_change(job, 1)["lost"]], [0])
        job.resume(0)
        change = self.wait_for_change(job, 2)
        self.assertEqual([joined["worker"] for joined in change["joined"]], [0])
        self.assertEqual((change["workers"], change["writer"], change["settled"]), (3, 1, "kept"))
        job.wait_for_step(change["step"] + 3)
        job.kill(1)  # the others are a majority only if worker 0 has a vote
        change = self.wait_for_change(job, 3)
        self.assertEqual((change["workers"], change["writer"]), (2, 2))
        job.wait_for_step(change["step"] + 3)
        job.kill(2)
        self.wait_for_output(job, 0, "paused on worker 0")
        run("continue", job.workers[0].pid)
        self.assert_ended_well(job, [1, 2])
        self.assert_no_weights_drifted(job)
        evaluations = records_in(job.run, "evaluation")
        self.assertEqual([r["step"] for r in evaluations], [r["step"] for r in self.evaluations])
        for record, wanted in zip(evaluations, self.evaluations):
            self.assertAlmostEqual(record["nll"] / wanted["nll"], 1, places=4)  # of the average of the weights
        self.assertIn("lost 3 workers, 1 worker joined", run("report", job.run).stdout)

    @harness.long_test
    def test_every_worker_in_turn_stops_and_joins_again(self):
        job = self.start(3, "--silence", "1", "--join-every", "1")
        for victim in range(3):
            job.wait_for_step(job.last_step() + 4)
            job.stop(victim)
            self.assertEqual([lost["worker"] for lost in self.wait_for_change(job, 2 * victim + 1)["lost"]], [victim])
            job.resume(victim)
            change = self.wait_for_change(job, 2 * victim + 2)
            self.assertEqual([joined["worker"] for joined in change["joined"]], [victim])
            self.assertEqual(change["workers"], 3)
        self.assert_ended_well(job, [])
        self.assert_no_weights_drifted(job)

    def test_sigterm_drains_one_worker_and_the_others_carry_on(self):
        job = self.start(3)
        for count, (victim, writer) in enumerate(((2, 0), (0, 1)), 1):
            job.wait_for_step(10 * count)
            job.workers[victim].send_signal(signal.SIGTERM)
            change = self.wait_for_change(job, count)
            self.assertEqual([(left["worker"], left["why"]) for left in change["left"]], [(victim, "SIGTERM")])
            self.assertNotIn("lost", change)
            self.assertEqual((change["writer"], change["workers"], change["settled"]), (writer, 3 - count, "kept"))
            self.assertEqual(job.wait([victim])[victim], 0, job.all_output())
            self.assertIn(f"left the job after step {change['step']}", job.output(victim))
        self.assert_ended_well(job, [0, 2])
        self.assertIn("2 workers left", run("report", job.run).stdout)

    @harness.long_test
    def test_two_workers_are_drained_at_once(self):
        job = self.start(4)
        job.wait_for_step(5)
        for victim in (0, 2):
            job.workers[victim].send_signal(signal.SIGTERM)
        self.assert_ended_well(job, [])
        changes = records_in(job.run, "membership")
        self.assertEqual(sorted(left["worker"] for change in changes for left in change["left"]), [0, 2])
        self.assertEqual((changes[-1]["workers"], changes[-1]["writer"]), (2, 1))

    def test_sigterm_to_all_workers_stops_the_run(self):
        job = self.start(2)
        job.wait_for_step(10)
        for worker in job.workers.values():
            worker.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait()[0], 130, job.all_output())
        job.check_last_checkpoint(job.last_step())
        self.assertFalse(records_in(job.run, "membership"))

    @harness.long_test
    def test_a_worker_joins_with_what_compressors_of_all_share(self):
        more = ["--compress", "powersgd:2", "--compress-warmup", 10]
        undisturbed = self.start(2, *more, name="undisturbed")
        undisturbed.wait()
        job = self.start(2, "--silence", "1", *more)
        job.wait_for_step(15)
        job.stop(1)
        self.wait_for_change(job, 1)
        job.resume(1)
        self.assertEqual(self.wait_for_change(job, 2)["workers"], 2)
        self.assertEqual(list(job.wait().values()), [0, 0], job.all_output())
        # A lost residual changes losses a little.
        job.check_steps({r["step"]: r["loss"] for r in steps_in(undisturbed.run)}, self.steps, tolerance=0.02)
        self.assert_no_weights_drifted(job)

    def test_a_new_process_joins_and_finishes_the_run_after_all_others_have_left(self):
        job = self.start(2)
        job.wait_for_step(5)
        job.join(2, "--threads", 1)
        change = self.wait_for_change(job, 1)
        self.assertEqual([joined["worker"] for joined in change["joined"]], [2])
        self.assertEqual((change["workers"], change["writer"], change["settled"]), (3, 0, "kept"))
        job.wait_for_step(change["step"] + 3)
        for leaver in (0, 1):
            job.workers[leaver].send_signal(signal.SIGTERM)
        self.assert_ended_well(job, [])
        changes = records_in(job.run, "membership")
        self.assertEqual(sorted(left["worker"] for change in changes for left in change.get("left", [])), [0, 1])
        self.assertEqual((changes[-1]["workers"], changes[-1]["writer"]), (1, 2))
        self.assert_no_weights_drifted(job)
        job.check_last_checkpoint(self.steps)

    def test_a_process_that_may_not_join_is_refused_and_disturbs_nobody(self):
        other = self.prepare_for_class(pairs=300, vocab_size=300)
        job = self.start(2)
        job.wait_for_step(5)
        for number, code, text, arguments, token in (
                (2, 3, "differs from that of the job", ["--data", other], TOKEN),
                (3, 5, "no elastic job to join was found", ["--start-within", 1], "f" * 32),
                (4, 2, "REIGEN_TOKEN", [], "short")):
            job.join(number, *arguments, token=token)
            self.assertEqual(job.wait([number])[number], code, job.output(number))
            self.assertIn(text, job.output(number))
        self.assert_ended_well(job, [2, 3, 4])
        self.assertFalse(records_in(job.run, "membership"))

    def test_a_replay_of_losses_and_joins_gives_the_same_bits(self):
        fixed = ["--bucket", "64KB", "--compress", "none"]
        job = self.start(4, *fixed)
        job.wait_for_step(5)
        job.kill(2)
        self.wait_for_change(job, 1)
        job.join(4, "--threads", 1)
        job.wait_for_step(self.wait_for_change(job, 2)["step"] + 3)
        job.kill(0)  # the writer
        job.wait_for_step(self.wait_for_change(job, 3)["step"] + 3)
        job.kill(4)
        self.assert_ended_well(job, [0, 2, 4])
        again = self.start(4, *fixed, "--replay", job.run, name="again")
        self.wait_for_output(again, 0, "--replay: waits")
        again.join(4, "--threads", 1)
        again.wait()
        self.assertEqual({p.returncode for p in again.workers.values()}, {0}, again.all_output())
        of = lambda run: [(r["step"], r["loss"], r["norm"]) for r in steps_in(run)]
        self.assertEqual(of(again.run), of(job.run))
        sizes = lambda run: [r["workers"] for r in records_in(run, "membership")]
        self.assertEqual(sizes(again.run), sizes(job.run))
        self.assertEqual(self.read("again/last/model.safetensors", "rb"), self.read("run/last/model.safetensors", "rb"))


if __name__ == "__main__":
    harness.main()
