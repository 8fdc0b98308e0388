"""The program built for arm64, under qemu: beside the program of this machine, and in a root of its own."""

import json
import os
import shutil
import subprocess
import unittest

import harness
from harness import SOURCE, run
from train_test import SMALL

ARM64 = os.environ["REIGEN_ARM64"]
# For this process's children and theirs: where qemu finds the loader.
os.environ["QEMU_LD_PREFIX"] = f"{SOURCE}/build/arm64-root"
# A processor with I8MM, one with dot products, one with neither (ops/cpu/int8_kernels.h).
PROCESSORS = ("max", "cortex-a76", "cortex-a72")
# Whether the kernel starts arm64 programs by qemu: only so can the program start itself.
needs_starts = unittest.skipUnless(os.path.exists("/proc/sys/fs/binfmt_misc/qemu-aarch64"),
                                   "this kernel starts no arm64 programs: scripts/setup.sh --arm64, as root")


def arm64(*args, processor="max", check=True, **kwargs):
    command = ["qemu-aarch64-static", ARM64, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False,
                          env={**os.environ, "QEMU_CPU": processor}, **kwargs)
    if check and done.returncode != 0:
        raise AssertionError(f"{command} exited {done.returncode}: {done.stderr}")
    return done


class BesideAmd64(harness.Case):
    """A model of this machine's program, and the same of the other."""

    @classmethod
    def setUpClass(cls):
        cls.data = cls.prepare_for_class(pairs=3000, vocab_size=400)
        cls.model = cls.data + "-run"
        run("train", "--data", cls.data, "--run", cls.model, *SMALL, "--recipe", "classic", "--max-steps", 300,
            "--eval.every", 300, "--checkpoint.every", 300)
        cls.int8 = cls.data + "-int8"
        run("quantize", cls.model, "-o", cls.int8)
        with open(cls.data + "/test.en", encoding="utf-8") as file:
            cls.text = "".join(file.readlines()[:40])

    def assert_nearly_same(self, got, wanted):
        pairs = list(zip(got.splitlines(), wanted.splitlines(), strict=True))
        self.assertEqual(len(pairs), 40)
        self.assertGreaterEqual(sum(a == b for a, b in pairs), 39)  # rounding may tip a close call
        self.assertGreater(len(set(got.splitlines())), 10)

    def test_a_checkpoint_translates_to_the_same_text(self):
        self.assert_nearly_same(arm64("translate", "--model", self.model, input=self.text).stdout,
                                run("translate", "--model", self.model, input=self.text).stdout)

    def test_a_checkpoint_in_int8_translates_to_the_same_text_on_each_processor(self):
        wanted = run("translate", "--model", self.int8, input=self.text).stdout
        for processor in PROCESSORS:
            with self.subTest(processor=processor):
                self.assert_nearly_same(
                    arm64("translate", "--model", self.int8, processor=processor, input=self.text).stdout, wanted)

    def test_evaluation_has_the_same_loss(self):
        for model in (self.model, self.int8):
            nll = [json.loads(program("evaluate", "--model", model, "--json").stdout)["nll"]
                   for program in (run, arm64)]
            self.assertAlmostEqual(nll[0], nll[1], delta=1e-4)

    def test_weights_are_rounded_to_the_same_bytes(self):
        arm64("quantize", self.model, "-o", self.path("int8"))
        self.assertEqual(self.read("int8/model.safetensors", "rb"), self.read(self.int8 + "/model.safetensors", "rb"))

    def test_a_run_in_bf16_continues(self):
        args = ["train", "--data", self.data, "--run", self.path("run"), *SMALL, "--recipe", "classic",
                "--precision", "bf16", "--eval.every", 100, "--checkpoint.every", 5]
        run(*args, "--max-steps", 5)
        done = arm64("train", "--run", self.path("run"), "--max-steps", 10)
        self.assertIn("bf16", done.stderr)
        self.assertEqual(json.loads(self.read("run/last/manifest.json"))["step"], 10)


class ByItself(harness.Case):
    def prepare(self):
        text = self.path("text")
        arm64("corpus", "--pairs", 600, "--valid-pairs", 20, "--test-pairs", 20, "--output", text, "--quiet")
        arm64(*self.prepare_args(text, vocab_size=300), "--quiet")

    def train(self, *more):
        return ["train", "--data", self.path("data"), "--run", self.path("run"), *SMALL, "--recipe", "classic",
                "--max-steps", 20, "--eval.every", 20, "--checkpoint.every", 10, *more]

    def test_it_prepares_trains_translates_evaluates_and_quantizes(self):
        self.prepare()
        self.assertIn("done:", arm64(*self.train()).stderr)
        lines = arm64("translate", "--model", self.path("run"), input="one\ntwo\n").stdout
        self.assertEqual(len(lines.splitlines()), 2)
        self.assertGreater(json.loads(arm64("evaluate", "--model", self.path("run"), "--json").stdout)["nll"], 0)
        arm64("quantize", self.path("run"), "-o", self.path("int8"))
        arm64("inspect", self.path("int8"), "--verify")
        # The dataset is the one that this machine's program makes of the same text.
        run(*self.prepare_args(self.path("text"), output="same", vocab_size=300), "--quiet")
        self.assertEqual(self.read("data/SHA256SUMS"), self.read("same/SHA256SUMS"))

    @needs_starts
    def test_two_workers_train_together(self):
        self.prepare()
        # Not by name of the emulator: the program starts its workers by itself, too.
        done = subprocess.run([ARM64, *map(str, self.train("--workers", 2))], capture_output=True, text=True,
                              timeout=1200, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 workers", done.stderr)


@needs_starts
class Packages(harness.Case):
    def package(self, *args):
        subprocess.run([f"{SOURCE}/packaging/package.sh", "--arm64", *args], check=True, stdout=subprocess.DEVNULL)

    def in_root(self, root, *command, **kwargs):
        done = subprocess.run(["chroot", root, *map(str, command)], capture_output=True, text=True, timeout=1200,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, check=False, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("not root: no arm64 root can be entered")

    def test_debian_installs_the_package(self):
        self.package("deb")
        deb, = (name for name in os.listdir(f"{SOURCE}/build/package") if name.endswith("_arm64.deb"))
        shutil.copy(f"{SOURCE}/build/package/{deb}", self.path(deb))
        mirror = [os.environ["MIRROR"]] if os.environ.get("MIRROR") else []
        subprocess.run(["mmdebstrap", "--quiet", "--variant=apt", "--architectures=arm64",
                        "--hook-dir=/usr/share/mmdebstrap/hooks/file-mirror-automount", f"--include={self.path(deb)}",
                        "bookworm", self.path("root"), *mirror], check=True)
        root = self.path("root")
        version = self.in_root(root, "reigen", "--version").splitlines()[0]
        self.assertEqual(version, arm64("--version").stdout.splitlines()[0])
        self.in_root(root, "reigen", "corpus", "--pairs", 100, "--valid-pairs", 10, "--test-pairs", 10,
                     "--output", "/text")
        self.assertTrue(os.path.exists(f"{root}/usr/share/man/man1/reigen.1.gz"))
        self.assertIn("arm64", self.in_root(root, "dpkg-query", "-W", "-f", "${Architecture}", "reigen"))

    def test_the_archive_runs_in_a_root_with_nothing_else_in_it(self):
        root = self.path("root")
        os.mkdir(root)
        self.package("tree", f"{root}/reigen")
        os.mkdir(f"{root}/training")
        self.in_root(root, "/reigen/bin/reigen", "corpus", "--pairs", 600, "--valid-pairs", 20, "--test-pairs", 20,
                     "--output", "/training/text", "--quiet")
        self.assertIn("train.en", os.listdir(f"{root}/training/text"))


if __name__ == "__main__":
    harness.main()
