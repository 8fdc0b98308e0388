"""Files from elsewhere: datasets, vocabularies, checkpoints and run directories made to do harm.

Each is refused with the exit code of its kind and the name of the file; files outside stay as they are.
"""

import hashlib
import json
import os
import re
import shutil
import socket
import struct
import tarfile

from harness import SOURCE, Case, main, run

CONFIG, DATA, CHECKPOINT, COMM, IO = 2, 3, 4, 5, 7
FIXTURE = os.path.join(SOURCE, "tests", "fixtures", "0.1", "files.tar.xz")
SMALL_MODEL = os.path.join(SOURCE, "tests", "fuzz", "seeds", "vocabulary", "bpe.model")
TRAIN = ["--model.width", 8, "--model.heads", 2, "--model.ffn-width", 16, "--model.encoder-layers", 1,
         "--model.decoder-layers", 1, "--max-steps", 2, "--quiet"]


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def rewrite(folder, change):
    """Changes manifest.json, and corrects SHA256SUMS for it."""
    path = f"{folder}/manifest.json"
    before = sha256(path)
    with open(path) as file:
        manifest = json.load(file)
    change(manifest)
    with open(path, "w") as file:
        json.dump(manifest, file)
    with open(f"{folder}/SHA256SUMS") as file:
        sums = file.read()
    with open(f"{folder}/SHA256SUMS", "w") as file:
        file.write(sums.replace(before, sha256(path)))


def length_field(number, payload):
    """A field of a protobuf message that has bytes."""
    size, out = len(payload), bytes([number << 3 | 2])
    while size >= 128:
        out += bytes([size & 127 | 128])
        size >>= 7
    return out + bytes([size]) + payload


class HostileCase(Case):
    def setUp(self):
        super().setUp()
        with tarfile.open(FIXTURE) as archive:
            archive.extractall(self.folder)
        self.data = self.path("dataset")
        self.run_folder = self.path("run")
        self.checkpoint = self.path("run/checkpoints/step-00000048")

    def fails(self, code, name, *args, **kwargs):
        done = run(*args, check=False, **kwargs)
        self.assert_fails(done, code, name)
        self.assertNotIn("internal error", done.stderr)


class Datasets(HostileCase):
    def use_vocabulary(self, model):
        """Replaces the vocabulary by one of 13 pieces; the manifest agrees with it."""
        shutil.copy(model, f"{self.data}/vocab.model")

        def change(manifest):
            manifest["vocabulary"].update(bytes=os.path.getsize(model), sha256=sha256(model), size=13)
        old = json.loads(self.read("dataset/manifest.json"))["vocabulary"]["sha256"]
        rewrite(self.data, change)
        sums = self.read("dataset/SHA256SUMS").replace(old, sha256(model))
        self.write("dataset/SHA256SUMS", sums)

    def test_tokens_beyond_the_vocabulary_are_refused_by_every_command(self):
        self.use_vocabulary(SMALL_MODEL)
        train = ["train", "--data", self.data, "--run", self.path("new"), *TRAIN]
        self.fails(DATA, ".shard", *train)
        self.fails(DATA, ".shard", *train, "--workers", 2)
        self.fails(DATA, ".shard", "doctor", "--data", self.data, *TRAIN[:10])
        self.fails(DATA, ".shard", "inspect", self.data, "--verify")

    def test_a_manifest_that_does_not_match_its_files_is_refused(self):
        changes = [
            ("vocab.model", lambda m: m["vocabulary"].update(size=100)),
            ("vocab.model", lambda m: m["vocabulary"].update(sha256="0" * 64)),
            ("train-00000.shard", lambda m: m["train"][0]["shards"][0].update(pairs=399)),
            ("valid.shard", lambda m: m["valid"][0]["shards"][0].update(source_tokens=1)),
            ("options.clean", lambda m: m["options"].pop("clean")),
            ("manifest.json", lambda m: m["texts"][0].update(file="../manifest.json")),
        ]
        good = self.read("dataset/manifest.json")
        for name, change in changes:
            rewrite(self.data, change)
            self.fails(DATA, name, "inspect", self.data)
            self.fails(DATA, name, "train", "--data", self.data, "--run", self.path("new"), *TRAIN)
            self.assertFalse(os.path.exists(self.path("new/checkpoints")))
            self.write("dataset/manifest.json", good)

    def test_evaluate_checks_the_dataset_that_it_scores(self):
        rewrite(self.data, lambda m: m["vocabulary"].update(size=100))
        self.fails(DATA, "manifest.json", "evaluate", "--model", self.run_folder, "--data", self.data)


class Corpora(HostileCase):
    def test_tags_that_are_nested_without_end_are_refused(self):
        head = '<?xml version="1.0"?><tmx version="1.4"><header/><body><tu><tuv xml:lang="en"><seg>'
        for name, text in (("closed.tmx", head + "<hi>" * 100_000 + "a" + "</hi>" * 100_000 +
                            '</seg></tuv><tuv xml:lang="de"><seg>b</seg></tuv></tu></body></tmx>'),
                           ("open.tmx", head + "<hi>" * 1_000_000)):
            self.write(name, text)
            done = run("prepare", "--source", "en", "--target", "de", "--train", self.path(name), "--vocab",
                       f"{self.data}/vocab.model", "--output", self.path("out"), check=False)
            self.assert_fails(done, DATA, name, "nested")
            self.assert_nothing_left("out")


class Vocabularies(HostileCase):
    def test_a_broken_normaliser_is_refused_by_prepare_and_translate(self):
        with open(f"{self.data}/vocab.model", "rb") as file:
            model = file.read()
        units = [1 << 31] * 256
        units[0] = (1 << 20) << 10  # the root points far outside of the trie
        trie = struct.pack("<256I", *units)
        charsmap = struct.pack("<I", len(trie)) + trie + b"x\0"
        self.write("bad.model", model + length_field(3, length_field(2, charsmap)))
        self.write("t.tsv", "a house\tein Haus\n" * 20)
        self.fails(DATA, "bad.model", "prepare", "--source", "en", "--target", "de", "--train",
                   self.path("t.tsv"), "--vocab", self.path("bad.model"), "--output", self.path("out"))
        self.assert_nothing_left("out")
        shutil.copy(self.path("bad.model"), f"{self.checkpoint}/vocab.model")
        old = [f for f in json.loads(self.read(f"{self.checkpoint}/manifest.json"))["files"]
               if f["file"] == "vocab.model"][0]["sha256"]
        new = sha256(self.path("bad.model"))

        def change(manifest):
            for file in manifest["files"]:
                if file["file"] == "vocab.model":
                    file.update(sha256=new, bytes=os.path.getsize(self.path("bad.model")))
        rewrite(self.checkpoint, change)
        self.write(f"{self.checkpoint}/SHA256SUMS",
                   self.read(f"{self.checkpoint}/SHA256SUMS").replace(old, new))
        self.fails(DATA, "vocab.model", "translate", "--model", self.checkpoint, input="a house\n")


class Checkpoints(HostileCase):
    def test_wrong_fields_are_bad_checkpoints(self):
        changes = [
            lambda m: m.update(scores="good"),
            lambda m: m["scores"].update(bleu="good"),
            lambda m: m["training"].update(device=3),
            lambda m: m.update(vocabulary_pieces=10 ** 12),
            lambda m: m["model"].update({"max-length": 65536, "width": 65536}),
            lambda m: m["files"][0].update(file="../manifest.json"),
            lambda m: m.update(source_language="en\n\n```sh\nrm -r .\n```"),
            lambda m: m.update(target_language="\x1b[2J"),
            lambda m: m["scores"].update({"bleu\n": 1}),
        ]
        good = {name: self.read(f"{self.checkpoint}/{name}") for name in ("manifest.json", "SHA256SUMS")}
        for change in changes:
            rewrite(self.checkpoint, change)
            self.fails(CHECKPOINT, "manifest.json", "inspect", self.checkpoint)
            self.fails(CHECKPOINT, "manifest.json", "translate", "--model", self.checkpoint, input="a\n")
            for name, text in good.items():
                self.write(f"{self.checkpoint}/{name}", text)

    def test_a_checkpoint_that_cannot_be_read_costs_only_its_steps(self):
        """The newest checkpoint has a directory in place of a file: read() fails, with no message of ours."""
        os.remove(f"{self.checkpoint}/model.safetensors")
        os.mkdir(f"{self.checkpoint}/model.safetensors")
        done = run("train", "--run", self.run_folder, "--data", self.data, "--max-steps", 20, "--quiet")
        self.assertIn("model.safetensors", done.stderr)
        steps = [json.loads(line) for line in self.read("run/measurements/rank-0.jsonl").splitlines()]
        self.assertEqual([r["step"] for r in steps if r["kind"] == "step"], list(range(1, 21)))


class Records(HostileCase):
    """The options that a run from elsewhere has recorded."""

    def resumed(self, key, value, *more, **kwargs):
        """Resumes the run with that line in its config.yaml."""
        lines = [line for line in self.read("run/config.yaml").splitlines() if not line.startswith(f"{key}:")]
        self.write("run/config.yaml", "\n".join([*lines, f"{key}: {value}", ""]))
        return run("train", "--run", self.run_folder, "--data", self.data, "--max-steps", 52, "--workers", 1, *more,
                   check=False, **kwargs)

    def test_a_record_runs_no_program(self):
        for key in ("checkpoint.copy-to", "on-event", "eval.command"):
            command = f"touch {self.path('touched')}"
            done = self.resumed(key, f'"{"command:" if "copy" in key else ""}{command}"')
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"{key} is not taken from the record", done.stderr)
            self.assertFalse(os.path.exists(self.path("touched")), key)

    def test_a_record_opens_no_page(self):
        done = self.resumed("dashboard", "true", "--no-quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("live page", done.stderr)
        self.assertFalse(os.path.exists(f"{self.run_folder}/dashboard.url"))

    def test_a_record_names_no_program_of_other_hosts(self):
        ssh = self.write("ssh", f"#!/bin/sh\nprintf '%s\\n' \"$*\" > {self.path('asked')}\nexit 1\n")
        os.chmod(ssh, 0o755)
        done = self.resumed("remote-binary", "/run/from/elsewhere", "--workers", 0, "--hosts", "vm1:1",
                            env={**os.environ, "REIGEN_SSH": ssh})
        self.assertEqual(done.returncode, COMM, done.stderr)
        self.assertNotIn("elsewhere", self.read("asked"))

    def test_a_configuration_names_no_command(self):
        config = self.write("from-elsewhere.yaml", f'checkpoint:\n  copy-to: "command:touch {self.path("touched")}"\n')
        self.fails(CONFIG, "checkpoint.copy-to", "train", "--config", config, "--run", self.path("new"),
                   "--data", self.data, *TRAIN)
        self.assertFalse(os.path.exists(self.path("touched")))


class Links(HostileCase):
    """Links, FIFOs and files of the user in places where Reigen writes."""

    def setUp(self):
        super().setUp()
        self.victim = self.write("victim", "precious\n")

    def victim_is_safe(self):
        self.assertEqual(self.read("victim"), "precious\n")

    def corpus_fails(self, code, name):
        self.fails(code, name, "corpus", "--pairs", 5, "--output", self.path("out"))
        self.victim_is_safe()

    def test_the_lock_of_an_output(self):
        lock = self.path("out.partial.lock")
        os.symlink(self.victim, lock)
        self.corpus_fails(IO, "out.partial.lock")
        self.assertTrue(os.path.islink(lock))
        os.remove(lock)
        os.mkfifo(lock)
        self.corpus_fails(IO, "out.partial.lock")
        os.remove(lock)
        self.write("out.partial.lock", "my own notes")
        self.corpus_fails(CONFIG, "out.partial.lock")
        self.assertEqual(self.read("out.partial.lock"), "my own notes")
        self.write("out.partial.lock", "")
        run("corpus", "--pairs", 5, "--output", self.path("out"), "--quiet")
        self.assertFalse(os.path.exists(lock))

    def test_the_files_of_a_run(self):
        for name in (".lock", "log.txt", "config.yaml.new", "measurements/rank-0.jsonl",
                     "measurements/rank-1.jsonl", "measurements/manifest.json.new"):
            path = os.path.join(self.run_folder, name)
            aside = self.path("aside")
            if os.path.exists(path):
                os.rename(path, aside)
            os.symlink(self.victim, path)
            done = run("train", "--run", self.run_folder, "--data", self.data, "--max-steps", 60,
                       "--quiet", check=False)
            self.assertIn(done.returncode, (DATA, IO), (name, done.stderr))  # read or written first
            self.assertIn(os.path.basename(name), done.stderr)
            self.victim_is_safe()
            os.remove(path)
            if os.path.exists(aside):
                os.rename(aside, path)
        run("train", "--run", self.run_folder, "--data", self.data, "--max-steps", 50, "--quiet")

    def test_the_folders_of_a_run(self):
        os.mkdir(f"{self.run_folder}/metric")
        for name in ("measurements", "tensorboard", "checkpoints", "metric"):
            os.rename(f"{self.run_folder}/{name}", self.path(name))
            os.symlink(self.path(name), f"{self.run_folder}/{name}")
            before = sorted(os.listdir(self.path(name)))
            self.fails(CONFIG, name, "train", "--run", self.run_folder, "--data", self.data,
                       "--max-steps", 60, "--quiet")
            self.assertEqual(sorted(os.listdir(self.path(name))), before)
            os.remove(f"{self.run_folder}/{name}")
            os.rename(self.path(name), f"{self.run_folder}/{name}")

    def test_a_link_in_place_of_a_future_checkpoint(self):
        """A directory of the user that reigen wrote, which a checkpoint would replace."""
        run("corpus", "--pairs", 5, "--output", self.path("mine"), "--quiet")
        before = {name: sha256(self.path(f"mine/{name}")) for name in os.listdir(self.path("mine"))}
        link = f"{self.run_folder}/checkpoints/step-00000060"
        os.symlink(self.path("mine"), link)
        self.fails(CONFIG, "step-00000060", "train", "--run", self.run_folder, "--data", self.data,
                   "--max-steps", 60, "--quiet")
        after = {name: sha256(self.path(f"mine/{name}")) for name in os.listdir(self.path("mine"))}
        self.assertEqual(after, before)
        self.assertTrue(os.path.islink(link))

    def test_a_lock_file_that_is_no_lock(self):
        self.write("run/.lock", "my own notes")
        self.fails(CONFIG, ".lock", "train", "--run", self.run_folder, "--data", self.data)
        self.assertEqual(self.read("run/.lock"), "my own notes")

    def test_no_other_user_can_lock_a_run(self):
        self.write("run/.lock", "")
        os.chmod(f"{self.run_folder}/.lock", 0o664)  # of an earlier version
        run("train", "--run", self.run_folder, "--data", self.data, "--max-steps", 50, "--quiet")
        self.assertEqual(os.stat(f"{self.run_folder}/.lock").st_mode & 0o777, 0o660)

    def test_the_output_of_a_report(self):
        os.symlink(self.victim, f"{self.run_folder}/report.html.partial")
        self.fails(IO, "report.html.partial", "report", self.run_folder)
        self.victim_is_safe()

    def test_a_fifo_in_place_of_a_log(self):
        os.remove(f"{self.run_folder}/log.txt")
        os.mkfifo(f"{self.run_folder}/log.txt")
        run("report", self.run_folder)
        os.remove(f"{self.run_folder}/measurements/rank-1.jsonl")
        os.mkfifo(f"{self.run_folder}/measurements/rank-1.jsonl")
        self.fails(DATA, "rank-1.jsonl", "report", self.run_folder)

    def looked_at(self, *command):
        """All that a command shows or writes of a run, or an error of it; it has ended."""
        done = run(*command, check=False, timeout=60)
        self.assertIn(done.returncode, (0, DATA, IO), done.stderr)
        self.assertNotIn("internal error", done.stderr)
        shown = done.stdout + done.stderr
        for name in ("report.html", "report.json"):
            if os.path.exists(f"{self.run_folder}/{name}"):
                shown += self.read(f"run/{name}")
                os.remove(f"{self.run_folder}/{name}")
        return shown

    def test_no_reader_of_a_run_waits_for_a_fifo_or_follows_a_link(self):
        ended = {"process": 1, "host": "elsewhere", "identity": "", "code": 0, "error": ""}
        self.write("run/background.json", json.dumps(ended))
        for name in ("log.txt", "console.log", "config.yaml", "background.json", "doctor.json",
                     "measurements/rank-0.jsonl", "measurements/rank-1.jsonl", "measurements/rollup.json"):
            path = os.path.join(self.run_folder, name)
            if os.path.exists(path):
                os.rename(path, self.path("aside"))
            for make in (os.mkfifo, lambda p: os.symlink(self.victim, p), lambda p: os.symlink("/dev/zero", p)):
                make(path)
                for command in (["report"], ["top", "--once"], ["attach"]):
                    self.assertNotIn("precious", self.looked_at(*command, self.run_folder), (name, command))
                os.remove(path)
            if os.path.exists(self.path("aside")):
                os.rename(self.path("aside"), path)

    def test_attach_to_a_process_that_is_no_run(self):
        self.write("run/console.log", "a line\n")
        for process in (1, os.getppid(), 2**63):
            self.write("run/background.json", json.dumps({"process": process, "host": socket.gethostname()}))
            done = run("attach", self.run_folder, check=False, timeout=60)
            self.assertEqual(done.returncode, COMM, done.stderr)
        for text in ("", "{", "[]", '{"process": "1", "host": "h"}', '{"process": 1}', '{"process": 1, "host": 2}'):
            self.write("run/background.json", text)
            self.fails(DATA, "background.json", "attach", self.run_folder)

    def test_a_report_allows_no_script(self):
        run("report", self.run_folder)
        policy, = re.findall('http-equiv="Content-Security-Policy" content="([^"]*)"', self.read("run/report.html"))
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("script-src", policy)

    def test_a_file_with_holes_in_place_of_a_small_one(self):
        """One of 1 TB takes no room on a disk, but all memory of a process that reads it."""
        def holes(path):
            with open(path, "wb") as file:
                file.truncate(2 ** 40)
        for code, name, command in (
                (DATA, "SHA256SUMS", ["inspect", self.data, "--verify"]),
                (DATA, "holes.model", ["prepare", "--vocab", self.path("holes.model"), "--train", self.victim, self.victim,
                                       "--source", "en", "--target", "de", "--output", self.path("out")]),
                (DATA, "offers.yaml", ["doctor", "--offers", self.path("offers.yaml"), "--data", self.data]),
                (DATA, "config.yaml", ["train", "--run", self.run_folder, "--data", self.data])):
            place = {"SHA256SUMS": self.data, "config.yaml": self.run_folder}.get(name, self.folder)
            path = os.path.join(place, name)
            if os.path.exists(path):
                os.rename(path, self.path("aside"))
            holes(path)
            self.fails(code, name, *command, timeout=20)
            os.remove(path)
            if os.path.exists(self.path("aside")):
                os.rename(self.path("aside"), path)

    def test_a_fifo_or_a_device_in_place_of_a_file_that_is_read(self):
        for name, place in (("manifest.json", self.data), ("manifest.json", self.checkpoint),
                            ("SHA256SUMS", self.checkpoint), ("model.safetensors", self.checkpoint)):
            path = f"{place}/{name}"
            os.rename(path, self.path("aside"))
            for make in (os.mkfifo, lambda p: os.symlink("/dev/zero", p)):
                make(path)
                code = DATA if place == self.data else CHECKPOINT
                self.fails(code, name, "inspect", place, "--verify")
                os.remove(path)
            os.rename(self.path("aside"), path)


if __name__ == "__main__":
    main()
