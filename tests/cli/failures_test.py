"""Bad input, bad disks and sudden ends: a clear error, the right exit code, no incomplete output."""

import errno
import gzip
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

from harness import REIGEN, Case, main, run

CONFIG, DATA, IO, INTERRUPTED = 2, 3, 7, 130


class Failures(Case):
    def prepare(self, *train, output="data", **kwargs):
        return run("prepare", "--source", "en", "--target", "de", "--train", *train,
                   "--vocab-size", 100, "--output", self.path(output), check=False, **kwargs)

    def test_a_missing_file_is_named(self):
        done = self.prepare(self.path("no.en"), self.path("no.de"))
        self.assert_fails(done, DATA, self.path("no.en"))
        self.assert_nothing_left()

    def test_a_missing_second_corpus_is_found_before_the_first_is_read(self):
        text = self.corpus()
        done = self.prepare(f"{text}/train.en", f"{text}/train.de", "--train", self.path("no.tsv"))
        self.assert_fails(done, DATA, "no.tsv")
        self.assert_nothing_left()

    def test_unequal_line_counts_are_both_named(self):
        self.write("a.en", "1\n2\n3\n")
        self.write("a.de", "1\n2\n")
        done = self.prepare(self.path("a.en"), self.path("a.de"))
        self.assert_fails(done, DATA, "a.en has 3 lines", "a.de has 2")
        self.assert_nothing_left()

    def test_a_truncated_gzip_is_an_error(self):
        packed = gzip.compress("".join(f"a{i}\tb{i}\n" for i in range(9999)).encode())
        self.write("a.tsv.gz", packed[:-20])
        self.assert_fails(self.prepare(self.path("a.tsv.gz")), DATA, "a.tsv.gz")
        self.assert_nothing_left()

    def test_a_directory_without_write_permission_is_named(self):
        text = self.corpus()
        os.mkdir(self.path("locked"))
        os.chmod(self.path("locked"), 0o555)
        os.chmod(self.folder, 0o755)
        extra = {}
        if os.getuid() == 0:  # root may write anywhere, so the program runs as a different user
            shutil.copy(REIGEN, self.path("reigen"))
            extra = {"user": 65534}
        binary = self.path("reigen") if extra else REIGEN
        done = subprocess.run(
            [binary, "prepare", "--source", "en", "--target", "de", "--train", f"{text}/train.en",
             f"{text}/train.de", "--output", self.path("locked/data")],
            capture_output=True, text=True, **extra)
        self.assert_fails(done, IO, "locked", "Permission denied")
        self.assertEqual(os.listdir(self.path("locked")), [])

    def mount_small_disk(self, size):
        disk = self.path("disk")
        os.mkdir(disk)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk],
                              capture_output=True)
        if made.returncode != 0:
            self.skipTest("mounting a tmpfs is not permitted here")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        return disk

    def test_a_full_disk_is_an_error_and_leaves_it_as_it_was(self):
        text = self.corpus(pairs=30000)
        disk = self.mount_small_disk("1m")
        for extra in ([], ["--vocab", self.path("data/vocab.model")]):
            if extra:
                run(*self.prepare_args(text))
            done = self.prepare(f"{text}/train.en", f"{text}/train.de", *extra, output="disk/data")
            self.assert_fails(done, IO, os.strerror(errno.ENOSPC), disk)
            self.assertEqual(os.listdir(disk), [])
        done = run("corpus", "--pairs", 50000, "--output", f"{disk}/text", check=False)
        self.assert_fails(done, IO, os.strerror(errno.ENOSPC), disk)
        self.assertEqual(os.listdir(disk), [])

    def start_long_prepare(self):
        text = self.corpus(pairs=200000)
        started = subprocess.Popen([REIGEN, *map(str, self.prepare_args(text))],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for _ in range(1000):
            if os.path.exists(self.path("data.partial")):
                return started
            time.sleep(0.01)
        self.fail("prepare did not start")

    def test_kill_nine_leaves_nothing_complete_and_the_next_run_succeeds(self):
        started = self.start_long_prepare()
        time.sleep(0.2)
        started.kill()
        started.communicate()
        self.assertFalse(os.path.exists(self.path("data")))
        self.assertFalse(os.path.exists(self.path("data.partial/manifest.json")))
        self.assert_fails(run("inspect", self.path("data.partial"), check=False), DATA,
                          "is incomplete")
        text = self.corpus(pairs=2000)
        run(*self.prepare_args(text))
        run("inspect", self.path("data"), "--verify")
        self.assertEqual(sorted(n for n in os.listdir(self.folder) if n.startswith("data")), ["data"])

    def test_ctrl_c_and_sigterm_tidy_up(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            started = self.start_long_prepare()
            time.sleep(0.1)
            started.send_signal(number)
            _, errors = started.communicate(timeout=60)
            self.assertEqual(started.returncode, INTERRUPTED, errors)
            self.assertIn(b"stopped by a signal", errors)
            self.assert_nothing_left()

    def start_vocabulary_training(self):
        rng = random.Random(1)
        words = ["".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(12))
                 for _ in range(100000)]
        self.write("t.tsv", "".join(f"{a}\t{b}\n" for a, b in zip(words[::2], words[1::2])))
        started = subprocess.Popen(
            [REIGEN, "prepare", "--source", "en", "--target", "de", "--train", self.path("t.tsv"),
             "--clean.max-ratio=0", "--output", self.path("data")], stderr=subprocess.PIPE, text=True,
            start_new_session=True)
        self.assertIn("training a vocabulary", started.stderr.readline())
        time.sleep(0.5)
        return started

    def test_ctrl_c_ends_the_training_of_a_vocabulary_at_once(self):
        for number in (signal.SIGINT, signal.SIGHUP):
            started = self.start_vocabulary_training()
            began = time.monotonic()
            os.killpg(started.pid, number)  # as a terminal does: to parent and child alike
            _, errors = started.communicate(timeout=60)
            self.assertEqual(started.returncode, INTERRUPTED, errors)
            self.assertLess(time.monotonic() - began, 20)  # the training itself takes minutes
            self.assert_nothing_left()

    def test_kill_nine_while_a_vocabulary_trains_leaves_no_process_and_no_lock(self):
        started = self.start_vocabulary_training()
        started.kill()
        started.communicate(timeout=60)  # returns once no process has its standard error open
        text = self.corpus(pairs=2000)
        run(*self.prepare_args(text))

    def test_overwrite_never_deletes_foreign_files(self):
        text = self.corpus()
        self.write("text/notes.txt", "precious")
        done = run("corpus", "--pairs", 10, "--output", text, "--overwrite", check=False)
        self.assert_fails(done, CONFIG, "notes.txt")
        self.assertEqual(self.read("text/notes.txt"), "precious")

    def test_two_runs_on_one_output_do_not_mix(self):
        started = self.start_long_prepare()
        text = self.path("text")
        done = self.prepare(f"{text}/train.en", f"{text}/train.de")
        self.assert_fails(done, CONFIG, self.path("data"))
        _, errors = started.communicate(timeout=120)
        self.assertEqual(started.returncode, 0, errors)
        run("inspect", self.path("data"), "--verify")

    def test_a_corrupted_shard_is_found_and_named(self):
        run(*self.prepare_args(self.corpus()))
        path = self.path("data/train-00000.shard")
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        self.assert_fails(run("inspect", self.path("data"), "--verify", check=False), DATA,
                          "train-00000.shard", "damaged")

    def test_an_existing_output_is_replaced_only_with_overwrite(self):
        text = self.corpus()
        run(*self.prepare_args(text))
        before = self.read("data/SHA256SUMS")
        self.assert_fails(run(*self.prepare_args(text), check=False), CONFIG, "--overwrite")
        self.assertEqual(self.read("data/SHA256SUMS"), before)
        # A failing run with --overwrite leaves the old dataset complete.
        self.write("bad.tsv.gz", gzip.compress(b"a\tb\n" * 99)[:-9])
        done = run("prepare", "--source", "en", "--target", "de", "--train", self.path("bad.tsv.gz"),
                   "--output", self.path("data"), "--overwrite", check=False)
        self.assert_fails(done, DATA)
        run("inspect", self.path("data"), "--verify")
        run(*self.prepare_args(text, vocab_size=600), "--overwrite")
        self.assertNotEqual(self.read("data/SHA256SUMS"), before)

    def test_an_unknown_yaml_key_suggests_the_right_one(self):
        self.write("a.yaml", "source: en\nvocab:\n  sise: 100\n")
        done = run("prepare", "--config", self.path("a.yaml"), check=False)
        self.assert_fails(done, CONFIG, "a.yaml", "'vocab.sise'", "'vocab.size'")

    def test_values_out_of_range_name_value_and_limit(self):
        done = self.prepare("x.tsv", "--clean.min-script", "7")
        self.assert_fails(done, CONFIG, "--clean.min-script", "'7'", "from 0 to 1")

    def test_a_vocabulary_too_large_for_the_text_names_the_largest_size(self):
        self.write("t.tsv", "".join(f"one {i}\teins {i}\n" for i in range(50)))
        done = run("prepare", "--source", "en", "--target", "de", "--train", self.path("t.tsv"),
                   "--output", self.path("data"), check=False)
        self.assert_fails(done, CONFIG, "--vocab-size 32000", "at most")
        self.assert_nothing_left()

    def test_a_broken_vocabulary_is_named(self):
        self.write("v.model", "not a model")
        text = self.corpus()
        done = self.prepare(f"{text}/train.en", f"{text}/train.de", "--vocab", self.path("v.model"))
        self.assert_fails(done, DATA, "v.model", "not a SentencePiece model")
        self.assert_nothing_left()


if __name__ == "__main__":
    main()
