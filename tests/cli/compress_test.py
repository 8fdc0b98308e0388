"""Compression between workers through the real binary: every method trains, stops and resumes."""

import array
import json
import os
import signal
import struct

import harness
from workers_test import WorkersCase

METHODS = ["int4", "powersgd:2", "topk:0.05", "local:7"]
if harness.TEST_ALL:
    METHODS += ["bf16", "fp16", "int8"]  # the same code as none and int4 with different formats


class Compression(WorkersCase):
    def options(self, method, steps):
        return ["--workers", 2, "--compress", method, "--compress-warmup", 10, "--eval.every", 0,
                "--max-steps", steps]

    def records(self, name):
        return self.losses(name)

    def files(self, name):
        names = ["model.safetensors", "optimizer.safetensors"]
        for file in ("workers.safetensors", "average.safetensors"):
            if os.path.exists(self.path(f"{name}/last/{file}")):
                names.append(file)
        return {file: self.digest(name, file) for file in names}

    def test_every_method_trains_and_gives_the_same_bits_across_a_stop(self):
        self.train("none", *self.options("none", 60))
        plain = self.losses("none")
        for method in METHODS:
            with self.subTest(method=method):
                whole, parts = f"whole-{method}", f"parts-{method}"
                done = self.train(whole, *self.options(method, 60))
                self.assertEqual(self.chosen(whole), method)
                self.assertNotIn("drifted", done.stderr)
                if harness.TEST_ALL or method == "powersgd:2":
                    self.train(parts, *self.options(method, 6))  # in the warm-up
                self.train(parts, *self.options(method, 33))  # among local steps
                self.train(parts, *self.options(method, 60))
                self.assertEqual(self.files(whole), self.files(parts))
                steps = self.losses(whole)
                self.assertLess(steps[60]["loss"], 0.9 * steps[1]["loss"])
                self.assertLess(abs(steps[60]["loss"] / plain[60]["loss"] - 1), 0.15)
                self.assertIn("compression", steps[60]["spans"])

    def test_muon_and_the_average_of_the_weights_give_the_same_bits_across_a_stop(self):
        for method in ("int4", "powersgd:2", "local:7", *(["topk:0.05", "bf16"] if harness.TEST_ALL else [])):
            with self.subTest(method=method):
                muon = ["--optimizer.kind", "muon", "--ema.decay", "0.9"]
                whole, parts = f"whole-{method}", f"parts-{method}"
                done = self.train(whole, *self.options(method, 40), *muon)
                self.assertNotIn("drifted", done.stderr)
                self.train(parts, *self.options(method, 25), *muon)
                self.train(parts, *self.options(method, 40), *muon)
                self.assertIn("average.safetensors", self.files(whole))
                self.assertEqual(self.files(whole), self.files(parts))

    def floats(self, path):
        """All parameters of a safetensors file, in the order of their names."""
        with open(path, "rb") as f:
            header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
            data = f.read()
        values = array.array("f")
        for name in sorted(header.keys() - {"__metadata__"}):
            begin, end = header[name]["data_offsets"]
            values.frombytes(data[begin:end])
        return values

    def test_the_average_is_that_of_the_weights_of_all_workers(self):
        checkpoints = ["--ema.decay", "0.6", "--checkpoint.every", 1, "--checkpoint.keep", 100]
        for name, more, outer in (("plain", [], 1), ("sharded", ["--shard-optimizer"], 1), ("local:4", [], 4)):
            with self.subTest(name):
                method, steps, warmup = ("local:4", 20, 8) if outer > 1 else ("none", 10, 0)
                self.train(name, *self.options(method, steps), "--compress-warmup", warmup, *checkpoints, *more)
                read = lambda step, file: self.floats(self.path(f"{name}/checkpoints/step-{step:08}/{file}.safetensors"))
                for step in range(max(warmup, 1) + outer, steps + 1, outer):
                    d = min(0.6, (1 + step) / (10 + step)) ** outer
                    before, now = read(step - outer, "average"), read(step, "average")
                    wanted = [d * a + (1 - d) * w for a, w in zip(before, read(step, "model"), strict=True)]
                    self.assertLess(max(abs(a - b) for a, b in zip(wanted, now, strict=True)), 1e-6)
                    self.assertGreater(max(abs(a - b) for a, b in zip(before, now, strict=True)), 1e-5)

    def test_a_signal_between_outer_steps_loses_nothing(self):
        options = self.options("local:20", 70)
        self.train("whole", *options)
        process = self.start("parts", *options)
        self.wait_for_step("parts", 15, process)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 130)
        self.train("parts", *options)
        self.assertEqual(self.files("whole"), self.files("parts"))

    def test_fewer_bytes_are_sent_after_the_warm_up(self):
        self.train("run", *self.options("powersgd:1", 12))
        steps = self.losses("run")
        self.assertLess(3 * steps[12]["communication"]["sent"], steps[10]["communication"]["sent"])

    def test_a_different_number_of_workers_drops_the_compressor_state_with_a_warning(self):
        for method in ("powersgd:2", "local:7"):
            with self.subTest(method=method):
                name = f"run-{method}"
                self.train(name, *self.options(method, 20))
                done = self.train(name, "--max-steps", 24, "--workers", 3)
                self.assertIn("is dropped", done.stderr)
                done = self.train(name, "--max-steps", 26, "--workers", 1)
                self.assertIn("is dropped", done.stderr)
                self.assertEqual(self.manifest(name)["step"], 26)

    def test_an_unknown_method_is_refused(self):
        done = self.train("run", *self.options("gzip", 5), check=False)
        self.assert_fails(done, 2, "powersgd:RANK")


if __name__ == "__main__":
    harness.main()
