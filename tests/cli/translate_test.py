"""translate, evaluate --model, average and inspect with a model trained by the real binary."""

import fcntl
import hashlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import time

import harness
from harness import REIGEN, run
from train_test import SMALL, TrainCase


class ModelCase(TrainCase):
    """A model that has learned a little: enough that its translations are words."""

    model = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("train", "--data", cls.data, "--run", cls.data + "-run", *SMALL, "--recipe", "classic",
            "--max-steps", 150, "--eval.every", 75, "--checkpoint.every", 50, "--eval.sentences", 0)
        cls.model = cls.data + "-run"

    def translate(self, text, *more, model=None):
        text = text if isinstance(text, bytes) else text.encode()
        done = subprocess.run([REIGEN, "translate", "--model", model or self.model, *map(str, more)],
                              input=text, capture_output=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode()


class Translating(ModelCase):
    def test_one_line_out_for_each_line_in(self):
        odd = [b"Simon moved to Milan.", b"", b"   ", b"\t", b"\xff\xfe broken \x80", b"a\x00b",
               "日本語 العربية 👩‍👩‍👧 ﬁ".encode(), "a\u2028b\u0085c\u000bd".encode(), b"word " * 3000,
               b"x" * 300_000, b"crlf\r", b"last without newline"]
        out = self.translate(b"\n".join(odd), "--beam", 2)
        self.assertTrue(out.endswith("\n"))
        lines = out[:-1].split("\n")
        self.assertEqual(len(lines), len(odd))
        self.assertEqual(len(out.splitlines()), len(odd))  # no other line break slipped in
        self.assertEqual(lines[1:4], ["", "", ""])
        self.assertNotEqual(lines[0], "")
        self.assertNotEqual(lines[8], "")

    def test_empty_input_gives_empty_output(self):
        self.assertEqual(self.translate(""), "")
        self.assertEqual(self.translate("\n\n\n"), "\n\n\n")

    def test_the_window_and_the_batch_change_nothing(self):
        text = self.read(self.data + "/test.en")
        whole = self.translate(text)
        self.assertEqual(len(whole.splitlines()), 100)
        same = sum(a == b for a, b in zip(whole.splitlines(),
                                          self.translate(text, "--window", 7).splitlines()))
        self.assertGreaterEqual(same, 98)  # rounding may tip a close call

    def test_nbest_has_scores_that_fall(self):
        out = self.translate("Simon moved to Milan.\n\nEmma paid.\n", "--nbest", 3, "--beam", 4)
        rows = [line.split(" ||| ") for line in out.splitlines()]
        by_line = {}
        for number, text, score in rows:
            by_line.setdefault(int(number), []).append((text, float(score)))
        self.assertEqual(sorted(by_line), [0, 1, 2])
        for number in (0, 2):
            scores = [score for _, score in by_line[number]]
            self.assertEqual(len(scores), 3)
            self.assertEqual(scores, sorted(scores, reverse=True))
            self.assertEqual(len({text for text, _ in by_line[number]}), 3)
        self.assert_fails(run("translate", "--model", self.model, "--nbest", 5, "--beam", 4,
                              check=False, input=""), 2, "nbest", "beam")

    def test_samples_depend_on_the_line_and_the_seed_only(self):
        text = self.read(self.data + "/test.en")
        whole = self.translate(text, "--sample", "--seed", 3).splitlines()
        self.assertEqual(len(whole), 100)
        parts = self.translate(text, "--sample", "--seed", 3, "--window", 7, "--decode.batch-tokens", 100,
                               "--threads", 1).splitlines()
        # Rounding decides where two sums are nearly equal.
        self.assertGreater(sum(a == b for a, b in zip(whole, parts)), 95)
        other = self.translate(text, "--sample", "--seed", 4).splitlines()
        self.assertLess(sum(a == b for a, b in zip(whole, other)), 50)
        searched = self.translate(text).splitlines()
        cold = self.translate(text, "--sample", "--top-k", 1, "--threads", 1).splitlines()
        greedy = self.translate(text, "--beam", 1, "--threads", 1).splitlines()
        self.assertGreater(sum(a == b for a, b in zip(cold, greedy)), 95)
        self.assertLess(sum(a == b for a, b in zip(whole, searched)), 60)
        lists = self.translate("Simon moved to Milan.\n" * 3, "--sample", "--nbest", 5).splitlines()
        self.assertEqual([line.split(" ||| ")[0] for line in lists], ["0"] * 5 + ["1"] * 5 + ["2"] * 5)
        self.assertGreater(len({line.split(" ||| ")[1] for line in lists}), 5)

    def test_json_has_scores_and_a_confidence(self):
        lines = [json.loads(line) for line in self.translate(self.read(self.data + "/test.en"), "--json").splitlines()]
        self.assertEqual([line["line"] for line in lines], list(range(100)))
        text = self.translate(self.read(self.data + "/test.en")).splitlines()
        for line, plain in zip(lines, text):
            one = line["translations"][0]
            self.assertEqual(one["text"], plain)
            self.assertLessEqual(one["log_probability"], 0)
            confidence = one["confidence"]
            self.assertLessEqual(0, confidence["low"])
            self.assertLessEqual(confidence["low"], confidence["chrf"])
            self.assertLessEqual(confidence["chrf"], confidence["high"])
            self.assertLessEqual(confidence["high"], 100)
        sampled = json.loads(self.translate("one\n", "--json", "--sample", "--nbest", 3))
        self.assertEqual(len(sampled["translations"]), 3)
        self.assertIsNone(sampled["translations"][0]["confidence"])

    def test_rules_and_prefixes_hold(self):
        text = self.read(self.data + "/test.en")
        first = text.splitlines()[:20]
        prefixes = ["Simon zog nach", ""] * 10
        out = self.translate("\n".join(first), "--prefix", self.write("prefixes", "\n".join(prefixes) + "\n"))
        for line, prefix in zip(out.splitlines(), prefixes):
            self.assertTrue(line.startswith(prefix), line)
        free = self.translate("\n".join(first)).splitlines()
        self.assertGreater(sum(a == b for a, b in zip(out.splitlines()[1::2], free[1::2])), 8)
        done = run("translate", "--model", self.model, "--input", self.data + "/test.en", "--prefix",
                   self.path("prefixes"), check=False)
        self.assert_fails(done, 3, self.path("prefixes"), "20 lines")
        done = run("translate", "--model", self.model, "--prefix", self.path("prefixes"), check=False,
                   input="\n".join(first[:19]))
        self.assert_fails(done, 3, self.path("prefixes"), "more lines")
        self.assertEqual(len(done.stdout.splitlines()), 19)
        done = run("translate", "--model", self.model, "--min-length", 5000, check=False, input="one\n")
        self.assert_fails(done, 2, "--min-length", "5000")
        longer = json.loads(self.translate("one\n", "--min-length", 60, "--json"))
        self.assertGreater(longer["translations"][0]["tokens"], 60)
        for line in self.translate(text, "--no-repeat-ngram", 2, "--min-length", 12, "--json").splitlines():
            self.assertGreater(json.loads(line)["translations"][0]["tokens"], 12)

    def test_an_ensemble_of_checkpoints_translates(self):
        text = self.read(self.data + "/test.en")
        checkpoints = sorted(os.listdir(self.model + "/checkpoints"))
        two = [f"{self.model}/checkpoints/{name}" for name in (checkpoints[0], checkpoints[-1])]
        together = self.translate(text, "--ensemble", two[1], model=two[0])
        self.assertEqual(len(together.splitlines()), 100)
        self.assertEqual(together, self.translate(text, "--ensemble", two[1], model=two[0]))
        self.assertNotEqual(together, self.translate(text, model=two[0]))
        alone = self.translate(text, model=two[1]).splitlines()
        doubled = self.translate(text, "--ensemble", two[1], model=two[1]).splitlines()
        self.assertGreater(sum(a == b for a, b in zip(alone, doubled)), 95)
        text_of = self.corpus(pairs=800, name="own")
        run(*self.prepare_args(text_of, "own-data", 300), "--quiet")
        run("train", "--data", self.path("own-data"), "--run", self.path("other"), *SMALL, "--max-steps", 1)
        done = run("translate", "--model", self.model, "--ensemble", self.path("other"), "--input", os.devnull,
                   check=False)
        self.assert_fails(done, 4, self.path("other"), "vocabulary")

    def test_unknown_characters_are_copied(self):
        out = self.translate("Simon moved to 東京.\n日本\n")
        self.assertNotIn("⁇", out)
        # Forced pieces that are unknown stand for translations with <unk>: the first one becomes the source's.
        self.write("prefix", "語\n語 語\n語\n")
        found = self.translate("Simon moved to 東京.\n日本 and 東京\nSimon moved.\n", "--prefix", self.path("prefix"))
        lines = found.split("\n")
        self.assertTrue(lines[0].startswith("東京"), found)
        self.assertTrue(lines[1].startswith("日本 東京"), found)
        self.assertNotIn("語", lines[2])
        self.assertNotIn("⁇", found)

    def test_prepare_drops_the_pairs_with_the_worst_scores(self):
        pair = [self.data + "/test.en", self.data + "/test.de"]
        scores = run("score", "--model", self.model, "--sources", pair[0], "--targets", pair[1], "--normalize",
                     "--quiet").stdout.split()
        worst = sorted(range(100), key=lambda line: float(scores[line]))[:25]
        common = ["--source", "en", "--target", "de", "--train", *pair, "--vocab", self.model, "--clean.score",
                  self.model, "--clean.score-share", 0.25, "--clean.max-ratio", 0, "--clean.duplicate=false"]
        done = run("prepare", *common, "--output", self.path("cleaned"), "--examples", 100)
        manifest = json.loads(self.read("cleaned/manifest.json"))
        self.assertEqual(manifest["train"][0]["dropped"]["score"], 25)
        dropped = {int(line.split("line ")[1]) - 1 for line in done.stdout.splitlines() if ", line " in line}
        self.assertEqual(dropped, set(worst))
        # Two models, here one in both roles: |H1 - H2| + (H1 + H2) / 2 of entropies H per token.
        shutil.copytree(os.path.realpath(self.model + "/best-loss"), self.path("reverse"))
        shutil.copytree(self.path("reverse"), self.path("forward"))
        self.change_manifest(self.path("reverse"),
                             lambda manifest: manifest.update(source_language="de", target_language="en"))
        entropies = [[-float(score) for score in run(
            "score", "--model", self.path(model), "--sources", sources, "--targets", targets, "--normalize",
            "--quiet").stdout.split()] for model, sources, targets in
            (("forward", *pair), ("reverse", *pair[::-1]))]
        worth = [abs(a - b) + (a + b) / 2 for a, b in zip(*entropies, strict=True)]
        common[common.index("--clean.score") + 1] = self.path("forward")
        done = run("prepare", *common, "--clean.score-reverse", self.path("reverse"), "--output", self.path("both"),
                   "--examples", 100)
        dropped = {int(line.split("line ")[1]) - 1 for line in done.stdout.splitlines() if ", line " in line}
        self.assertEqual(dropped, set(sorted(range(100), key=lambda line: -worth[line])[:25]))
        self.assertNotEqual(dropped, set(worst))
        backwards = run("prepare", *common, "--clean.score-reverse", self.model, "--output", self.path("no"),
                        check=False)
        self.assert_fails(backwards, 2, "de to en")
        self.assert_nothing_left("no")

    def test_a_checkpoint_alone_is_enough(self):
        shutil.copytree(self.model + "/last", self.path("copy"))
        os.remove(self.path("copy/optimizer.safetensors"))
        self.assertEqual(self.translate("Simon moved.\n", model=self.path("copy")),
                         self.translate("Simon moved.\n", model=self.model + "/last"))

    def test_outputs_of_every_kind(self):
        text = "Simon moved to Milan.\n"
        want = self.translate(text)
        self.translate(text, "--output", self.path("plain"))
        self.assertEqual(self.read("plain"), want)
        os.symlink("plain", self.path("link"))
        self.write("plain", "old")
        self.translate(text, "--output", self.path("link"))
        self.assertTrue(os.path.islink(self.path("link")))
        self.assertEqual(self.read("plain"), want)
        self.translate(text, "--output", "/dev/null")
        self.assertFalse(os.path.isfile("/dev/null"))
        for command in (["translate", "--model", self.model, "--output"],
                        ["evaluate", "--model", self.model, "--output"]):
            self.assert_fails(run(*command, self.folder, check=False, input=text), 2, "directory")
            self.assert_fails(run(*command, self.path("no/such"), check=False, input=text), 7,
                              self.path("no/such"))

    def test_a_damaged_or_missing_file_is_named(self):
        for file, damage in [("model.safetensors", "flip"), ("model.safetensors", "cut"),
                             ("vocab.model", "flip"), ("manifest.json", "flip"),
                             ("SHA256SUMS", "cut"), ("model.safetensors", "gone")]:
            with self.subTest(file=file, damage=damage):
                shutil.rmtree(self.path("bad"), ignore_errors=True)
                shutil.copytree(self.model + "/last", self.path("bad"))
                path = self.path("bad/" + file)
                if damage == "gone":
                    os.remove(path)
                elif damage == "cut":
                    os.truncate(path, os.path.getsize(path) // 2)
                else:
                    with open(path, "r+b") as f:
                        f.seek(os.path.getsize(path) // 2)
                        byte = f.read(1)[0]
                        f.seek(-1, os.SEEK_CUR)
                        f.write(bytes([byte ^ 4]))
                done = run("translate", "--model", self.path("bad"), check=False, input="a\n")
                self.assert_fails(done, 4, self.path("bad"))
                self.assertEqual(done.stdout, "")
        self.assert_fails(run("translate", "--model", self.path("none"), check=False, input=""), 4,
                          "not a directory")
        os.mkdir(self.path("empty"))
        self.assert_fails(run("translate", "--model", self.path("empty"), check=False, input=""), 4,
                          "neither a checkpoint nor a run")

    def test_a_closed_pipe_ends_it_without_an_error(self):
        command = f"yes 'Simon moved to Milan.' | {REIGEN} translate --model {self.model} " \
                  "--window 20 | head -3"
        done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(len(done.stdout.splitlines()), 3)
        self.assertNotIn("error", done.stderr)

    def test_a_signal_ends_it_while_its_output_is_not_read(self):
        self.write("many.en", "Simon moved to Milan on Monday.\n" * 5000)
        for number in (signal.SIGTERM, signal.SIGINT):
            read, write = os.pipe()
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
            child = subprocess.Popen(
                [REIGEN, "translate", "--model", self.model, "--input", self.path("many.en"),
                 "--beam", "1", "--window", "20", "--quiet"], stdout=write, stderr=subprocess.PIPE)
            os.close(write)
            self.addCleanup(child.kill)
            select.select([read], [], [], 60)  # the first window is there; the pipe is full soon
            time.sleep(1)
            self.assertIsNone(child.poll())
            child.send_signal(number)
            said = child.communicate(timeout=60)[1].decode()
            self.assertEqual(child.returncode, 130, said)
            os.close(read)

    def test_memory_stays_bounded_while_streaming(self):
        command = f"yes 'Simon moved to Milan on Monday.' | head -n 6000 | " \
                  f"/usr/bin/time -f %M {REIGEN} translate --model {self.model} --beam 1 " \
                  "--window 200 --quiet | wc -l"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.stdout.strip(), "6000")
        self.assertLess(int(done.stderr.split()[-1]), 150_000)  # kB


class Evaluating(ModelCase):
    def test_a_model_scores_the_same_as_its_translations(self):
        out = self.path("out.de")
        got = json.loads(run("evaluate", "--model", self.model, "--output", out, "--json").stdout)
        again = json.loads(run("evaluate", "--hypotheses", out, "--references",
                               self.data + "/test.de", "--json").stdout)
        self.assertEqual(got["metrics"], again["metrics"])
        self.assertEqual(got["sentences"], 100)
        self.assertGreater(got["perplexity"], 1)
        self.assertEqual(self.read(out), self.translate(self.read(self.data + "/test.en")))
        files = json.loads(run("evaluate", "--model", self.model, "--sources", self.data + "/test.en",
                               "--references", self.data + "/test.de", "--json").stdout)
        self.assertEqual(files["metrics"], got["metrics"])
        self.assertAlmostEqual(files["nll"], got["nll"], places=6)
        text = run("evaluate", "--model", self.model, "--split", "valid").stdout
        self.assertRegex(text, r"exact match \d+\.\d%")
        recorded = [json.loads(line) for line in self.read(self.model + "/measurements/rank-0.jsonl")
                    .splitlines()]
        best = json.loads(self.read(self.model + "/best-bleu/manifest.json"))
        step = next(r for r in recorded if r["kind"] == "evaluation" and r["step"] == best["step"])
        valid = json.loads(run("evaluate", "--model", self.model, "--split", "valid",
                               "--json").stdout)
        self.assertAlmostEqual(valid["nll"], step["nll"], places=6)

    def test_a_different_vocabulary_is_refused(self):
        run(*self.prepare_args(self.corpus(pairs=1500, name="t"), output="other", vocab_size=300),
            "--quiet")
        self.assert_fails(run("evaluate", "--model", self.model, "--data", self.path("other"),
                              check=False), 4, "vocabulary", "400", "300", "--sources")

    def test_contradictory_options_are_refused(self):
        for args, phrase in [([], "either --hypotheses"),
                             (["--model", "m", "--hypotheses", "h"], "not both"),
                             (["--hypotheses", "h"], "--references is required"),
                             (["--model", "m", "--sources", "s"], "need each other"),
                             (["--model", "m", "--split", "train"], "test or valid")]:
            self.assert_fails(run("evaluate", *args, check=False), 2, phrase)


class Averaging(ModelCase):
    def test_the_mean_translates_and_has_no_optimizer(self):
        run("average", "--run", self.model, "--last", 2, "--output", self.path("mean"))
        self.assertNotIn("optimizer.safetensors", os.listdir(self.path("mean")))
        self.assertEqual(len(self.translate("a\nb\n", model=self.path("mean")).splitlines()), 2)
        one = self.model + "/last"
        run("average", "--checkpoints", one, one, one, "--output", self.path("same"))
        with open(self.path("same/model.safetensors"), "rb") as a, \
                open(one + "/model.safetensors", "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.assert_fails(run("average", "--output", self.path("x"), check=False), 2, "--checkpoints")
        self.assert_fails(run("average", "--run", self.model, "--output", self.path("same"),
                              check=False), 2, "already exists")

    def test_different_models_are_refused(self):
        run("train", "--data", self.data, "--run", self.path("wide"), *SMALL, "--model.width", 64,
            "--max-steps", 1, "--no-eval.bleu")
        self.assert_fails(run("average", "--checkpoints", self.model, self.path("wide"), "--output",
                              self.path("mean"), check=False), 4, "different shapes")
        self.assertFalse(os.path.exists(self.path("mean")))


class Inspecting(ModelCase):
    def test_a_checkpoint_is_described(self):
        text = run("inspect", self.model, "--verify").stdout
        for phrase in ["model.safetensors", "optimizer.safetensors", "vocab.model", "manifest.json",
                       "SHA256SUMS", "embedding", "encoder.0", "decoder.0", "MB", "Verified"]:
            self.assertIn(phrase, text)
        got = json.loads(run("inspect", self.model + "/last", "--json").stdout)
        self.assertEqual(sum(m["parameters"] for m in got["modules"]), got["parameters"])
        size = sum(os.path.getsize(f"{self.model}/last/{f['file']}") for f in got["files"])
        self.assertEqual(size, got["bytes"])
        with open(self.path("x"), "wb"):
            pass
        shutil.copytree(self.model + "/last", self.path("bad"))
        with open(self.path("bad/optimizer.safetensors"), "ab") as f:
            f.write(b"x")
        self.assert_fails(run("inspect", self.path("bad"), "--verify", check=False), 4,
                          "optimizer.safetensors")


class Quantizing(ModelCase):
    def quantize(self):
        self.int8 = self.path("int8")
        run("quantize", self.model, "-o", self.int8)

    def test_every_command_that_uses_a_model_takes_it(self):
        self.quantize()
        text = self.read(self.data + "/test.en")
        out = self.translate(text, model=self.int8)
        same = sum(a == b for a, b in zip(out.splitlines(), self.translate(text).splitlines(), strict=True))
        self.assertGreater(same, 50)  # of 100; a model of 150 steps has many close calls
        self.assertEqual(out, self.translate(text, "--threads", 1, model=self.int8))
        nll = [json.loads(run("evaluate", "--model", model, "--json").stdout)["nll"]
               for model in (self.model, self.int8)]
        self.assertAlmostEqual(nll[0], nll[1], delta=0.02)
        self.assertNotEqual(nll[0], nll[1])
        scores = [float(line.split()[0]) for line in run(
            "score", "--model", self.int8, "--sources", self.data + "/test.en",
            "--targets", self.data + "/test.de").stdout.splitlines()]
        self.assertEqual(len(scores), 100)
        got = json.loads(run("inspect", self.int8, "--verify", "--json").stdout)
        self.assertTrue(got["quantized"])
        self.assertEqual(got["scores"], {})
        self.assertIn("int8", run("inspect", self.int8).stdout)
        of = lambda folder: os.path.getsize(f"{folder}/model.safetensors")
        self.assertLess(of(self.int8), 0.32 * of(self.model + "/last"))  # of a small model

    def test_it_is_not_trained_averaged_or_exported(self):
        self.quantize()
        for args in (["average", "--checkpoints", self.int8, self.int8, "-o", self.path("x")],
                     ["export", self.int8, "--to", "hf", "-o", self.path("x")],
                     ["quantize", self.int8, "-o", self.path("x")],
                     ["train", "--data", self.data, "--from", self.int8, "--run", self.path("x"), "--max-steps", 1,
                      "--recipe", "classic"]):
            self.assert_fails(run(*args, check=False), 4, self.int8, "int8")
            self.assertFalse(os.path.exists(self.path("x/last")))
            shutil.rmtree(self.path("x"), ignore_errors=True)
        shutil.copytree(self.model, self.path("run"), symlinks=True)
        shutil.rmtree(self.path("run/checkpoints"))
        os.mkdir(self.path("run/checkpoints"))
        last = os.readlink(self.path("run/last"))
        shutil.copytree(self.int8, self.path("run/" + last))
        self.assert_fails(run("train", "--run", self.path("run"), "--max-steps", 160, check=False), 4, "int8")
        self.assert_fails(run("quantize", self.model, "-o", self.int8, check=False), 2, "already exists")

    def test_a_file_made_to_do_harm_is_refused(self):
        self.quantize()
        with open(self.int8 + "/model.safetensors", "rb") as file:
            good = file.read()
        size = int.from_bytes(good[:8], "little")
        header = json.loads(good[8:8 + size])
        name = "embedding.weight"

        def use(change):
            changed = json.loads(json.dumps(header))
            change(changed)
            text = json.dumps(changed).encode()
            data = len(text).to_bytes(8, "little") + text + good[8 + size:]
            self.write("int8/model.safetensors", data)
            self.change_manifest("int8", lambda m: m["files"][0].update(
                bytes=len(data), sha256=hashlib.sha256(data).hexdigest()))
            sums = self.read("int8/SHA256SUMS").splitlines()
            sums[0] = hashlib.sha256(data).hexdigest() + "  model.safetensors"
            self.write("int8/SHA256SUMS", "\n".join(sums) + "\n")
            done = run("translate", "--model", self.int8, input="a\n", check=False)
            self.assert_fails(done, 4, "model.safetensors")
            self.assertEqual(done.stdout, "")

        rows, cols = header[name]["shape"]
        use(lambda h: h[name].update(dtype="U8"))
        use(lambda h: h[name].update(shape=[cols, rows]))
        use(lambda h: h.pop(name + ".scale"))
        use(lambda h: h[name + ".scale"].update(shape=[1, rows]))
        use(lambda h: h[name].update(data_offsets=[o + 1 for o in header[name]["data_offsets"]]))
        self.change_manifest("int8", lambda m: m.update(version=1))
        self.assert_fails(run("translate", "--model", self.int8, input="a\n", check=False), 4, self.int8)


del TrainCase
if __name__ == "__main__":
    harness.main()
