"""Shared by the whole-run tests: the binary under test, scratch folders, small corpora."""

import functools
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest

REIGEN = os.environ["REIGEN"]
SOURCE = os.environ["REIGEN_SOURCE"]

# On a machine of a cloud, --preemption auto would ask its metadata server: no test does.
os.environ.setdefault("REIGEN_METADATA_URL", "http://127.0.0.1:9")

# Whether this is `make test-all`. A test that only it runs has a shorter one that covers most of the
# same behaviour.
TEST_ALL = bool(os.environ.get("REIGEN_TEST_ALL"))
long_test = unittest.skipUnless(TEST_ALL, "only in make test-all")


def second_try(test):
    """For a test of what a real run measured, on which other work of the machine may have had a larger effect
    than what the test planted: if it fails, it is tried once more with new runs, and fails if they fail, too."""
    @functools.wraps(test)
    def tried(case):
        try:
            return test(case)
        except AssertionError as error:
            print(f"\n{case.id()} is tried again: {error}", file=sys.stderr, flush=True)
        case.doCleanups()
        case.setUp()
        return test(case)
    return tried


def run(*args, check=True, **kwargs):
    """Runs reigen; returns the finished process with text output."""
    done = subprocess.run(
        [REIGEN, *map(str, args)], capture_output=True, text=True, **{"timeout": 600, **kwargs}
    )
    if check and done.returncode != 0:
        raise AssertionError(f"reigen {args} exited {done.returncode}: {done.stderr}")
    return done


def free_port():
    """A free TCP port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Case(unittest.TestCase):
    """A test with a scratch folder, `self.path(name)`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="reigen-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return self.path(name)

    def read(self, name, mode="r"):
        with open(self.path(name), mode) as file:
            return file.read()

    def corpus(self, pairs=5000, name="text"):
        """The built-in corpus; returns its folder."""
        run("corpus", "--pairs", pairs, "--valid-pairs", 100, "--test-pairs", 100,
            "--output", self.path(name), "--overwrite", "--quiet")
        return self.path(name)

    def prepare_args(self, text, output="data", vocab_size=800):
        pair = lambda split: (f"{text}/{split}.en", f"{text}/{split}.de")
        return ["prepare", "--source", "en", "--target", "de", "--train", *pair("train"),
                "--valid", *pair("valid"), "--test", *pair("test"),
                "--vocab-size", vocab_size, "--output", self.path(output)]

    @classmethod
    def prepare_for_class(cls, pairs, vocab_size):
        """Prepared data that all tests of a class share; returns its folder."""
        case = cls("setUp")
        case.setUp()
        cls.addClassCleanup(case.doCleanups)
        run(*case.prepare_args(case.corpus(pairs=pairs), vocab_size=vocab_size), "--quiet")
        return case.path("data")

    def assert_fails(self, done, code, *values):
        """An exit code, and an error that names these values: a path, an option, a limit."""
        self.assertEqual(done.returncode, code, done.stderr)
        for value in values:
            self.assertIn(value, done.stderr)
        self.assertTrue(done.stderr.rstrip().splitlines()[-1].startswith("error: "), done.stderr)

    def assert_resumable(self, name, errors):
        """The output of a run that ended early gives the command to resume it, and the step."""
        step = json.loads(self.read(f"{name}/last/manifest.json"))["step"]
        self.assertIn(f"reigen train --run {self.path(name)}", errors)
        self.assertIn(f"step {step:,}", errors)

    def change_manifest(self, checkpoint, change):
        """Changes the manifest of a checkpoint, and its checksum."""
        manifest = json.loads(self.read(f"{checkpoint}/manifest.json"))
        change(manifest)
        text = json.dumps(manifest)
        self.write(f"{checkpoint}/manifest.json", text)
        digest = hashlib.sha256(text.encode()).hexdigest()
        lines = self.read(f"{checkpoint}/SHA256SUMS").splitlines()
        self.write(f"{checkpoint}/SHA256SUMS", "".join(
            f"{digest}  manifest.json\n" if line.endswith("  manifest.json") else f"{line}\n" for line in lines))

    def assert_nothing_left(self, output="data"):
        left = [n for n in os.listdir(self.folder) if n.startswith(output)]
        self.assertEqual(left, [])


def main():
    unittest.main(verbosity=2)
