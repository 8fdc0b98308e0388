"""Whole runs on a GPU against the same on the CPU. Skipped, and counted, where this build has no GPU to
use; on a machine that has one: `ctest --test-dir build/cuda -R cli.gpu`."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import harness
from harness import REIGEN, run

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "chaos"))
from elastic_job import ElasticJob, records_in, reference_losses  # noqa: E402

SMALL = ["--preset", "tiny", "--recipe", "classic", "--batch.target-tokens", 1500, "--schedule.kind", "fixed",
         "--schedule.rate", "0.001", "--schedule.warmup-steps", 20, "--eval.sentences", 20,
         "--eval.samples", 1]


def gpus():
    found = re.search(r"cuda .* (\d+) GPUs?:", run("--version").stdout)
    return int(found.group(1)) if found else 0


class GpuCase(harness.Case):
    data = None

    @classmethod
    def setUpClass(cls):
        cls.data = cls.prepare_for_class(pairs=8000, vocab_size=1000)

    def train(self, name, *more, check=True, **kwargs):
        return run("train", "--data", self.data, "--run", self.path(name), *SMALL, *more, check=check,
                   **kwargs)

    def records(self, name, kind="step"):
        with open(self.path(f"{name}/measurements/rank-0.jsonl")) as f:
            return [r for r in map(json.loads, f) if r["kind"] == kind]

    def digest(self, name, file="model.safetensors"):
        with open(self.path(f"{name}/last/{file}"), "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()


class AgainstCpu(GpuCase):
    def test_every_precision_follows_the_cpu(self):
        common = ["--max-steps", 100, "--eval.every", 100]
        self.train("cpu", *common, "--device", "cpu")
        cpu = self.records("cpu")
        for precision, allowed in (("fp32", 1e-3), ("tf32", 0.01), ("bf16", 0.01), ("fp16", 0.01)):
            done = self.train(precision, *common, "--device", "cuda", "--precision", precision)
            self.assertRegex(done.stderr, f"device: .*GPU 0.*{precision}")
            for a, b in zip(cpu, self.records(precision)):
                self.assertLess(abs(a["nll"] - b["nll"]), allowed, f"{precision}, step {a['step']}")
            a = self.records("cpu", "evaluation")[-1]
            b = self.records(precision, "evaluation")[-1]
            self.assertLess(abs(a["nll"] - b["nll"]), allowed, precision)

    def test_muon_follows_the_cpu_in_every_precision(self):
        common = ["--max-steps", 100, "--eval.every", 100, "--optimizer.kind", "muon"]
        self.train("cpu", *common, "--device", "cpu")
        a = self.records("cpu", "evaluation")[-1]["nll"]
        # Rounding of the update is larger than Adam's (docs/design/optimizer.md).
        for precision, allowed in (("fp32", 0.005), ("tf32", 0.02), ("bf16", 0.05), ("fp16", 0.05)):
            self.train(precision, *common, "--device", "cuda", "--precision", precision)
            b = self.records(precision, "evaluation")[-1]["nll"]
            self.assertLess(abs(a - b), allowed, precision)

    def test_the_average_of_the_weights_follows_the_cpu(self):
        common = ["--max-steps", 60, "--eval.every", 30, "--no-eval.bleu", "--ema.decay", "0.95"]
        self.train("cpu", *common, "--device", "cpu")
        for name, more in (("fp32", []), ("two", ["--workers", 2]), ("bf16", [])):
            precision = "bf16" if name == "bf16" else "fp32"
            self.train(name, *common, "--device", "cuda:0", "--precision", precision, *more)
            for a, b in zip(self.records("cpu", "evaluation"), self.records(name, "evaluation")):
                allowed = 0.02 if precision == "bf16" else 2e-3
                self.assertNotEqual(b["own_nll"], b["average_nll"])
                self.assertLess(abs(a["own_nll"] - b["own_nll"]), allowed, name)
                self.assertLess(abs(a["average_nll"] - b["average_nll"]), allowed, name)

    def test_both_devices_translate_and_score_alike(self):
        self.train("run", "--max-steps", 400, "--eval.every", 0)
        losses = []
        for device in ("cpu", "cuda"):
            out = json.loads(run("evaluate", "--model", self.path("run"), "--device", device, "--json").stdout)
            losses.append(out["nll"])
        self.assertLess(abs(losses[0] - losses[1]), 0.01)


class Decoding(GpuCase):
    """What the CPU and the GPU do with the same checkpoint, in fp32."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls("setUp")
        case.folder = os.path.dirname(cls.data)
        cls.text = case.path("text")
        cls.model, cls.two = case.path("model"), case.path("two")
        run("train", "--data", cls.data, "--run", cls.model, *SMALL, "--max-steps", 400, "--eval.every", 0,
            "--device", "cpu", "--quiet")
        run(*case.prepare_args(cls.text, "data-two", vocab_size=600), "--vocab.joint=false", "--quiet")
        run("train", "--data", case.path("data-two"), "--run", cls.two, *SMALL, "--model.norm", "post",
            "--model.output-bias=true", "--max-steps", 100, "--eval.every", 0, "--device", "cpu", "--quiet")

    def on_both(self, command, *args, **kwargs):
        return [run(command, *args, "--device", device, "--precision", "fp32", "--quiet", **kwargs).stdout.splitlines()
                for device in ("cpu", "cuda")]

    def test_scores_of_given_translations_agree(self):
        pair = ["--sources", f"{self.text}/test.en", "--targets", f"{self.text}/test.de", "--tokens"]
        for model in (self.model, self.two):
            for a, b in zip(*self.on_both("score", "--model", model, *pair), strict=True):
                a, b = json.loads(a), json.loads(b)
                self.assertEqual(a["pieces"], b["pieces"])
                for x, y in zip(a["log_probabilities"], b["log_probabilities"], strict=True):
                    self.assertAlmostEqual(x, y, delta=1e-3)
            bf16 = run("score", "--model", model, *pair, "--device", "cuda", "--precision", "bf16").stdout
            values = [[v for line in lines for v in json.loads(line)["log_probabilities"]]
                      for lines in (self.on_both("score", "--model", model, *pair)[0], bf16.splitlines())]
            means = [sum(v) / len(v) for v in values]
            self.assertAlmostEqual(*means, delta=0.02)

    def test_translations_agree(self):
        source = self.read(f"{self.text}/test.en")
        prefixes = self.write("prefixes", "Der\n\n" * 50)
        for model in (self.model, self.two):
            for more in (["--beam", 1], ["--json"], ["--sample", "--seed", 5], ["--sample", "--nbest", 3],
                         ["--sample", "--temperature", 0.7, "--top-k", 20, "--top-p", 0.9],
                         ["--no-repeat-ngram", 2, "--min-length", 8], ["--prefix", prefixes],
                         ["--ensemble", f"{model}/last"]):
                with self.subTest(options=more, model=model):
                    cpu, gpu = self.on_both("translate", "--model", model, *more, input=source)
                    self.assertEqual(len(cpu), len(gpu))
                    # Rounding tips a close call, and what is drawn after it is different, too.
                    same = sum(self.text_of(a) == self.text_of(b) for a, b in zip(cpu, gpu))
                    self.assertGreaterEqual(same, 0.9 * len(cpu))

    @staticmethod
    def text_of(line):
        """Without the numbers that --json and --nbest print beside it."""
        if line.startswith("{"):
            return [one["text"] for one in json.loads(line)["translations"]]
        return line.rsplit(" ||| ", 1)[0]


class Reproducibility(GpuCase):
    def test_recorded_algorithms_give_the_same_bits_also_across_a_stop(self):
        for kind in ("adam", "muon"):
            first, again, parts = (f"{name}-{kind}" for name in ("first", "again", "parts"))
            some = ["--eval.every", 0, "--optimizer.kind", kind, "--ema.decay", "0.9"]
            self.train(first, "--max-steps", 60, *some)
            record = ["--algorithms", self.path(f"{first}/algorithms.txt"), *some]
            self.train(again, "--max-steps", 60, *record)
            self.train(parts, "--max-steps", 25, *record)
            self.train(parts, "--max-steps", 60, *some)
            for file in ("model.safetensors", "optimizer.safetensors", "average.safetensors"):
                self.assertEqual(self.digest(first, file), self.digest(again, file), kind)
                self.assertEqual(self.digest(first, file), self.digest(parts, file), kind)


class Workers(GpuCase):
    """Two processes on one GPU: gradients go through the host's memory and TCP."""

    def workers(self, name, *more, **kwargs):
        return self.train(name, "--workers", 2, "--device", "cuda:0", *more, **kwargs)

    def test_two_workers_follow_one(self):
        common = ["--max-steps", 100, "--eval.every", 50, "--precision", "fp32"]
        self.train("one", *common, "--device", "cuda:0")
        done = self.workers("two", *common)
        self.assertIn("2 workers share a GPU", done.stderr)
        for a, b in zip(self.records("one"), self.records("two")):
            self.assertLess(abs(a["loss"] / b["loss"] - 1), 1e-4, f"step {a['step']}")
        a, b = (self.records(name, "evaluation")[-1] for name in ("one", "two"))
        self.assertLess(abs(a["nll"] - b["nll"]), 1e-3)
        self.assertEqual(a["step"], b["step"])

    def test_two_workers_with_muon_do_not_drift_apart(self):
        common = ["--max-steps", 60, "--eval.every", 60, "--checkpoint.every", 20, "--optimizer.kind", "muon"]
        self.train("one", *common, "--device", "cuda:0")
        done = self.workers("two", *common)
        self.assertNotIn("drifted", done.stderr)
        a, b = (self.records(name, "evaluation")[-1]["nll"] for name in ("one", "two"))
        self.assertLess(abs(a - b), 0.05)

    def test_every_method_trains_and_gives_the_same_bits_across_a_stop(self):
        common = ["--eval.every", 0, "--compress-warmup", 10]
        self.workers("none", *common, "--max-steps", 60)
        plain = self.records("none")
        for method in ("bf16", "int4", "powersgd:2", "topk:0.05", "local:7"):
            with self.subTest(method=method):
                whole, parts = f"whole-{method}", f"parts-{method}"
                some = [*common, "--compress", method]
                done = self.workers(whole, *some, "--max-steps", 60)
                self.assertNotIn("drifted", done.stderr)
                known = ["--algorithms", self.path(f"{whole}/algorithms.txt")]
                self.workers(parts, *some, *known, "--max-steps", 6)
                for steps in (33, 60):
                    self.workers(parts, *some, "--max-steps", steps)
                self.workers(f"again-{method}", *some, *known, "--max-steps", 60)
                for file in ("model.safetensors", "optimizer.safetensors"):
                    self.assertEqual(self.digest(f"again-{method}", file), self.digest(parts, file))
                loss = self.records(whole)[-1]["loss"]
                self.assertLess(abs(loss / plain[-1]["loss"] - 1), 0.15)

    def test_fp16_is_scaled_alike_and_compressed(self):
        self.workers("run", "--max-steps", 60, "--eval.every", 0, "--precision", "fp16", "--compress",
                     "powersgd:4", "--compress-warmup", 10)
        steps = self.records("run")
        self.assertLess(steps[-1]["loss"], 0.9 * steps[0]["loss"])
        done = self.workers("apart", "--max-steps", 5, "--precision", "fp16", "--compress", "local:2",
                            "--optimizer.loss-scaling", "logmax", check=False)
        self.assert_fails(done, 2, "--compress local", "--precision fp16", "logmax")

    def test_local_steps_in_fp16_have_one_loss_scale(self):
        # From a scale that overflows: on its way down there are steps that overflow on one rank only. A
        # scale of its own on each rank would not continue with the same bits from a checkpoint, which has one.
        some = ["--eval.every", 0, "--compress-warmup", 4, "--compress", "local:3", "--precision", "fp16",
                "--optimizer.max-skipped", 100]
        self.workers("whole", *some, "--max-steps", 9)

        def raise_scale(manifest):
            manifest["training"]["state"]["loss_scale"].update(scale=2.0 ** 40, ceiling=2.0 ** 40)

        self.change_manifest("whole/last", raise_scale)
        shutil.copytree(self.path("whole"), self.path("parts"), symlinks=True)
        self.workers("whole", *some, "--max-steps", 60)
        for steps in (35, 60):
            self.workers("parts", *some, "--max-steps", steps)
        for file in ("model.safetensors", "optimizer.safetensors", "workers.safetensors"):
            self.assertEqual(self.digest("whole", file), self.digest("parts", file))
        scales = [r.get("loss_scale") for r in self.records("whole") if r["step"] > 10]
        self.assertEqual(scales, [r.get("loss_scale") for r in self.records("parts") if r["step"] > 10])
        self.assertLess(scales[-1], 2.0 ** 36)

    def test_the_number_of_workers_may_change(self):
        self.workers("run", "--max-steps", 20, "--eval.every", 0)
        self.train("run", "--max-steps", 30, "--device", "cuda:0", "--workers", 1)
        self.workers("run", "--max-steps", 40)
        self.assertEqual([r["step"] for r in self.records("run")], list(range(1, 41)))


class Nccl(GpuCase):
    """Two processes on one GPU that claim to be on two machines: NCCL then connects them by sockets."""

    def start(self, name, *more, workers=2, transport="nccl", **environment):
        port = harness.free_port()
        processes = []
        for rank in range(workers):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(workers), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NCCL_HOSTID": f"machine-{rank}",
                   "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", **environment}
            arguments = ["train", "--data", self.data, "--run", self.path(name), *SMALL, "--device", "cuda:0",
                         "--memory", "4GB", "--transport", transport, *more]
            processes.append(subprocess.Popen([REIGEN, *map(str, arguments)], env=env, text=True,
                                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
        for process in processes:
            self.addCleanup(process.kill)
        return processes

    def finish(self, processes, codes=(0, 0)):
        said = [p.communicate(timeout=120)[1] for p in processes]
        self.assertEqual([p.returncode for p in processes], list(codes), said)
        return said

    def wait_for_step(self, name, step):
        deadline = time.time() + 60
        path = self.path(f"{name}/measurements/rank-0.jsonl")
        while time.time() < deadline:
            if os.path.exists(path) and any(r["step"] >= step for r in self.records(name)):
                return
            time.sleep(0.05)
        self.fail(f"step {step} was not reached")

    def test_two_ranks_follow_one(self):
        common = ["--max-steps", 100, "--eval.every", 50, "--precision", "fp32"]
        self.train("one", *common, "--device", "cuda:0")
        said = self.finish(self.start("two", *common))
        self.assertRegex(said[0], r"gradients over NCCL \d")
        for a, b in zip(self.records("one"), self.records("two")):
            self.assertLess(abs(a["loss"] / b["loss"] - 1), 1e-4, f"step {a['step']}")

    def test_rounded_gradients_give_the_same_bits_across_a_stop(self):
        common = ["--eval.every", 0, "--compress", "bf16"]
        self.finish(self.start("whole", *common, "--max-steps", 40))
        known = ["--algorithms", self.path("whole/algorithms.txt")]
        self.finish(self.start("again", *common, *known, "--max-steps", 40))
        self.finish(self.start("parts", *common, *known, "--max-steps", 15))
        self.finish(self.start("parts", *common, "--max-steps", 40))
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(self.digest("again", file), self.digest("parts", file))

    def test_auto_measures_the_link_of_nccl(self):
        said = self.finish(self.start("run", "--max-steps", 20, "--eval.every", 0, "--compress", "auto"))
        self.assertRegex(said[0], "auto chose (none|bf16)")
        self.assertIn("gradients over NCCL", said[0])

    def test_without_nccl_gradients_go_through_host_memory(self):
        nowhere = {"NCCL_SOCKET_IFNAME": "=nowhere0"}
        some = ["--max-steps", 10, "--eval.every", 0, "--start-within", "10s"]
        said = self.finish(self.start("run", *some, transport="auto", **nowhere))
        self.assertIn("gradients through host memory", said[0])
        said = self.finish(self.start("other", *some, **nowhere), codes=(2, 2))
        self.assertRegex(said[0], "error: .*--transport nccl")

    def test_a_rank_that_dies_or_hangs_is_noticed(self):
        for number, name in ((signal.SIGKILL, "killed"), (signal.SIGSTOP, "stopped")):
            with self.subTest(name):
                processes = self.start(name, "--max-steps", 1000000, "--eval.every", 0, "--checkpoint.every", 20,
                                       "--silence", "3s")
                self.wait_for_step(name, 30)
                begun = time.time()
                os.kill(processes[1].pid, number)
                said = processes[0].communicate(timeout=60)[1]
                self.assertLess(time.time() - begun, 30)
                self.assertEqual(processes[0].returncode, 5, said)
                self.assertIn("lost rank 1", said)
                self.assert_resumable(name, said)
                processes[1].kill()
                processes[1].communicate()
                run("inspect", self.path(name), "--verify")


def has_fault_injection():
    """A build with -DREIGEN_FAULT_INJECTION=ON knows the variable that the two tests below set."""
    with open(REIGEN, "rb") as binary:
        return b"REIGEN_BREAK_GPU_AT_STEP" in binary.read()


class Elastic(GpuCase):
    """Processes on one GPU of which some end: the others keep the state on the device and continue."""

    STEPS = 150

    def job(self, name, workers, *more, **kwargs):
        job = ElasticJob(REIGEN, self.arguments(*more), self.path(name), workers, **kwargs)
        self.addCleanup(job.close)
        return job

    def arguments(self, *more):
        return ["--data", self.data, *SMALL, "--device", "cuda:0", "--memory", "4GB", "--precision", "fp32",
                "--max-steps", self.STEPS, "--eval.every", 75, "--checkpoint.every", 50, "--silence", "3s", *more]

    def losses_after(self, job, lost, reference, tolerance=1e-3):
        codes = job.wait([rank for rank in job.workers if rank not in lost])
        self.assertTrue(all(codes[rank] == 0 for rank in codes if rank not in lost), job.all_output())
        job.check_steps(reference, self.STEPS, tolerance)  # sums have another order
        changes = records_in(job.run, "membership")
        self.assertEqual(sorted(entry["worker"] for change in changes for entry in change["lost"]), sorted(lost))

    def test_survivors_continue_through_host_memory(self):
        for optimizer, tolerance in (("adam", 1e-3), ("muon", 0.03)):  # Muon iterates in bf16
            chosen = ["--optimizer.kind", optimizer]
            reference = reference_losses(REIGEN, self.arguments(*chosen), self.path(f"one-{optimizer}"))
            for name, workers, lost in (("last", 2, [1]), ("first", 3, [0]), ("two", 5, [0, 2])):
                with self.subTest(optimizer=optimizer, lost=lost):
                    job = self.job(f"{name}-{optimizer}", workers, *chosen)
                    job.wait_for_step(60)
                    for rank in lost:
                        job.kill(rank)
                    self.losses_after(job, lost, reference, tolerance)

    def test_rounded_gradients_after_a_loss(self):
        job = self.job("int4", 3, "--compress", "int4")
        job.wait_for_step(60)
        job.kill(1)
        codes = job.wait([0, 2])
        self.assertEqual((codes[0], codes[2]), (0, 0), job.all_output())
        reference = reference_losses(REIGEN, self.arguments(), self.path("one"))
        job.check_steps(reference, self.STEPS, 0.1)

    def test_nccl_is_formed_again(self):
        reference = reference_losses(REIGEN, self.arguments(), self.path("one"))
        machines = {rank: ["env", f"NCCL_HOSTID=machine-{rank}", "NCCL_SOCKET_IFNAME=lo", "NCCL_IB_DISABLE=1"]
                    for rank in range(3)}
        for name, fault in (("killed", "kill"), ("stopped", "stop")):
            with self.subTest(name):
                job = self.job(f"nccl-{name}", 3, "--transport", "nccl", prefixes=machines)
                job.wait_for_step(60)
                getattr(job, fault)(1)
                self.losses_after(job, [1], reference)
                self.assertIn("gradients over NCCL", job.output(0))


class Failures(GpuCase):
    def need_fault_injection(self):
        if not has_fault_injection():
            self.skipTest("this binary was built without REIGEN_FAULT_INJECTION")

    def test_an_error_of_the_gpu_leaves_the_last_checkpoint(self):
        self.need_fault_injection()
        env = {**os.environ, "REIGEN_BREAK_GPU_AT_STEP": "45"}
        done = self.train("run", "--max-steps", 100, "--checkpoint.every", 20, "--eval.every", 0,
                          check=False, env=env)
        self.assert_fails(done, 6, "CUDA", "step 40")
        self.assert_resumable("run", done.stderr)
        run("inspect", self.path("run"), "--verify")
        self.train("run", "--max-steps", 60)

    def test_an_error_of_the_gpu_ends_several_workers_cleanly(self):
        self.need_fault_injection()
        env = {**os.environ, "REIGEN_BREAK_GPU_AT_STEP": "45"}
        done = self.train("run", "--max-steps", 100, "--checkpoint.every", 20, "--eval.every", 0, "--workers", 2,
                          "--device", "cuda:0", check=False, env=env)
        self.assert_fails(done, 6, "CUDA", "step 40")
        self.assert_resumable("run", done.stderr)
        run("inspect", self.path("run"), "--verify")

    def test_the_memory_limit_is_checked_and_decides_the_micro_batches(self):
        done = self.train("run", "--max-steps", 10, "--eval.every", 0, "--memory", "700MB",
                          "--batch.target-tokens", 20000)
        peak = re.search(r"peak memory +([\d.]+) MB of 700 MB", done.stderr)
        self.assertIsNotNone(peak, done.stderr)
        self.assertGreater(self.records("run")[0]["micro_batches"], 1)
        done = self.train("much", "--max-steps", 1, "--memory", "9000GB", check=False)
        self.assert_fails(done, 2, "--memory")

    def test_a_loss_scale_that_only_falls_ends_the_run(self):
        done = self.train("run", "--max-steps", 500, "--precision", "fp16", "--schedule.rate", "1",
                          "--optimizer.clip", 0, "--eval.every", 0, check=False)
        self.assert_fails(done, 8, "--precision bf16 or fp32")


if __name__ == "__main__":
    if gpus() == 0:
        print("no GPU, or no CUDA in this build")
        sys.exit(77)
    harness.main()
