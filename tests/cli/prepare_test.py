"""`reigen corpus`, `prepare` and `inspect` as a user runs them, compared with SentencePiece's tools."""

import gzip
import hashlib
import json
import lzma
import os
import random
import subprocess
import unittest

from harness import Case, main, run
from shard_file import read_pairs


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def folder_digests(folder):
    return {name: digest(os.path.join(folder, name)) for name in os.listdir(folder)}


def spm_encode(model, lines):
    """The ids of SentencePiece's own tool, a list per line."""
    done = subprocess.run(["spm_encode", "--model", model, "--output_format", "id"],
                          input="".join(line + "\n" for line in lines).encode(),
                          capture_output=True, check=True)
    return [[int(word) for word in line.split()] for line in done.stdout.decode().splitlines()]


class Corpus(Case):
    def test_is_the_same_every_time_and_for_any_number_of_threads(self):
        for name, threads in (("a", 1), ("b", 2), ("c", 7)):
            run("corpus", "--pairs", 20000, "--threads", threads, "--output", self.path(name))
        self.assertEqual(folder_digests(self.path("a")), folder_digests(self.path("b")))
        self.assertEqual(folder_digests(self.path("a")), folder_digests(self.path("c")))
        run("corpus", "--pairs", 20000, "--seed", 2, "--output", self.path("d"))
        self.assertNotEqual(folder_digests(self.path("a")), folder_digests(self.path("d")))

    def test_writes_the_requested_number_of_pairs_with_none_in_two_splits(self):
        text = self.corpus(pairs=30000)
        pairs = {}
        for split, count in (("train", 30000), ("valid", 100), ("test", 100)):
            sides = [self.read(f"text/{split}.{side}").splitlines() for side in ("en", "de")]
            self.assertEqual([len(side) for side in sides], [count, count])
            pairs[split] = set(zip(*sides))
        self.assertFalse(pairs["train"] & pairs["test"])
        self.assertFalse(pairs["train"] & pairs["valid"])
        self.assertFalse(pairs["valid"] & pairs["test"])
        german = {}
        for english, side in set.union(*pairs.values()):
            self.assertEqual(german.setdefault(english, side), side)


class Prepare(Case):
    def test_figures_agree_with_the_files_and_with_spm_encode(self):
        text = self.corpus()
        run(*self.prepare_args(text))
        manifest = json.loads(self.read("data/manifest.json"))
        train = manifest["train"][0]
        self.assertEqual(train["lines_read"], 5000)
        self.assertEqual(train["lines_read"] - train["lines_kept"], sum(train["dropped"].values()))
        for given in train["inputs"]:
            self.assertEqual(given["sha256"], digest(given["path"]))
            self.assertEqual(given["bytes"], os.path.getsize(given["path"]))
        english = self.read("text/train.en").splitlines()
        german = self.read("text/train.de").splitlines()
        kept = list(dict.fromkeys(zip(english, german)))
        self.assertEqual(train["lines_kept"], len(kept))
        for side, lines in (("source", [e for e, _ in kept]), ("target", [g for _, g in kept])):
            ids = spm_encode(self.path("data/vocab.model"), lines)
            self.assertEqual(train[side]["pieces"], sum(map(len, ids)))
            self.assertEqual(train[side]["bytes"], sum(len(line.encode()) + 1 for line in lines))
            histogram = {}
            for line in ids:
                histogram[len(line)] = histogram.get(len(line), 0) + 1
            self.assertEqual(dict(train[side]["length_histogram"]), histogram)
            stored = [pair[0 if side == "source" else 1]
                      for shard in train["shards"]
                      for pair in read_pairs(self.path("data/" + shard["file"]))]
            self.assertEqual(stored, [line + [1] for line in ids])
        for split in ("valid", "test"):
            for side in ("en", "de"):
                self.assertEqual(self.read(f"data/{split}.{side}"), self.read(f"text/{split}.{side}"))

    def test_checksums_satisfy_sha256sum(self):
        run(*self.prepare_args(self.corpus()))
        subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=self.path("data"), check=True)
        listed = {line.split()[1] for line in self.read("data/SHA256SUMS").splitlines()}
        self.assertEqual(listed | {"SHA256SUMS", ".reigen"}, set(os.listdir(self.path("data"))))

    def test_two_runs_are_byte_identical_with_one_and_two_threads(self):
        text = self.corpus(pairs=20000)
        for kind in ("bpe", "unigram"):
            for threads in (1, 2):
                run(*self.prepare_args(text, f"{kind}{threads}"), "--threads", threads,
                    "--vocab.type", kind, "--vocab.sample-pairs", 7000)
            self.assertEqual(folder_digests(self.path(kind + "1")),
                             folder_digests(self.path(kind + "2")))

    def test_encodes_odd_text_exactly_as_spm_encode(self):
        run(*self.prepare_args(self.corpus()))
        rng = random.Random(1)
        alphabet = "ab zehn the \u0301\u0308 \u00a0\u200b\u3000 ﬁ½™Ⅳ ▁ 日本 🙂\u00ad\u202f´¨ (),."
        lines = ["".join(rng.choice(alphabet) for _ in range(rng.randint(1, 40)))
                 for _ in range(3000)]
        lines = [line.replace("\n", " ") + "x" for line in lines]
        self.write("odd.en", "\n".join(lines) + "\n")
        self.write("odd.de", "\n".join(reversed(lines)) + "\n")
        off = [f"--no-clean.{rule}" for rule in
               ("utf8", "control", "nfkc", "whitespace", "empty", "copy", "heldout", "duplicate")]
        # The vocabulary above, and one with normalisation rules that cross spaces.
        self.write("rules.tsv", "0061 0020 0062\t0063\n0020 0074\t0054\n")
        subprocess.run(["spm_train", f"--input={self.path('text/train.en')}", "--model_type=bpe",
                        "--vocab_size=500", f"--model_prefix={self.path('rules')}",
                        f"--normalization_rule_tsv={self.path('rules.tsv')}", "--minloglevel=3",
                        "--pad_id=0", "--eos_id=1", "--bos_id=2", "--unk_id=3"], check=True)
        for number, model in enumerate((self.path("data/vocab.model"), self.path("rules.model"))):
            run("prepare", "--source", "en", "--target", "de", "--train", self.path("odd.en"),
                self.path("odd.de"), "--vocab", model, *off,
                "--clean.min-script=0", "--clean.max-ratio=0", "--clean.max-pieces=0",
                "--clean.min-pieces=0", "--output", self.path(f"odd{number}"))
            pairs = read_pairs(self.path(f"odd{number}/train-00000.shard"))
            self.assertEqual([source for source, _ in pairs],
                             [ids + [1] for ids in spm_encode(model, lines)])

    def test_trains_the_same_model_as_spm_train(self):
        text = self.corpus()
        run(*self.prepare_args(text), "--no-clean.duplicate")
        both = self.read("text/train.en") + self.read("text/train.de")
        self.write("both.txt", both)
        subprocess.run(
            ["spm_train", f"--input={self.path('both.txt')}", f"--model_prefix={self.path('spm')}",
             "--vocab_size=800", "--model_type=bpe", "--character_coverage=1.0", "--pad_id=0",
             "--eos_id=1", "--bos_id=2", "--unk_id=3", "--minloglevel=3"], check=True)
        subprocess.run(["spm_export_vocab", f"--model={self.path('data/vocab.model')}",
                        f"--output={self.path('ours.vocab')}"], check=True)
        self.assertEqual(self.read("ours.vocab"), self.read("spm.vocab"))

    def test_accepts_text_cut_into_pieces_with_its_vocabulary(self):
        run(*self.prepare_args(self.corpus()))
        model = self.path("data/vocab.model")
        subprocess.run(["spm_export_vocab", f"--model={model}", f"--output={self.path('p.vocab')}"],
                       check=True)
        for split in ("train", "test"):
            for side in ("en", "de"):
                with open(self.path(f"{split}.tok.{side}"), "wb") as out:
                    subprocess.run(["spm_encode", "--model", model, self.path(f"text/{split}.{side}")],
                                   stdout=out, check=True)
        run("prepare", "--source", "en", "--target", "de",
            "--train", self.path("train.tok.en"), self.path("train.tok.de"),
            "--test", self.path("test.tok.en"), self.path("test.tok.de"),
            "--vocab", self.path("p.vocab"), "--output", self.path("cut"))
        self.assertEqual(digest(self.path("cut/train-00000.shard")),
                         digest(self.path("data/train-00000.shard")))
        self.assertEqual(self.read("cut/test.de"), self.read("text/test.de"))

    def test_mixes_formats_compressions_names_and_weights_from_yaml(self):
        text = self.corpus(pairs=3000)
        english = self.read("text/train.en").splitlines()
        german = self.read("text/train.de").splitlines()
        rows = [f"{e}\t{g}\n" for e, g in zip(english, german)]
        self.write("a.tsv.gz", gzip.compress("".join(rows[:1000]).encode()))
        self.write("b.en.xz", lzma.compress("".join(e + "\n" for e in english[1000:2000]).encode()))
        self.write("b.de", "".join(g + "\n" for g in german[1000:2000]))
        self.write("c.tsv", "".join(rows[2000:]))
        subprocess.run(["zstd", "-q", "--rm", self.path("c.tsv")], check=True)
        self.write("po.po", 'msgid ""\nmsgstr "x"\n\nmsgid "Open the door"\nmsgstr "Öffne die Tür"\n')
        self.write("run.yaml", f"""
source: en
target: de
train:
  - {{path: {self.path('a.tsv.gz')}, name: first, weight: 2}}
  - [{self.path('b.en.xz')}, {self.path('b.de')}, weight=0.5]
  - {self.path('c.tsv.zst')}
  - path: {self.path('po.po')}
vocab:
  size: 123456
clean: {{max-pieces: 100}}
output: {self.path('mixed')}
""".replace("  - " + self.path("c.tsv.zst"), f"  - [{self.path('c.tsv.zst')}]"))
        run("prepare", "--config", self.path("run.yaml"), "--vocab-size=700")
        manifest = json.loads(self.read("mixed/manifest.json"))
        self.assertEqual([(c["name"], c["weight"], c["lines_read"]) for c in manifest["train"]],
                         [("first", 2, 1000), ("b", 0.5, 1000), ("c", 1, 1000), ("po", 1, 1)])
        self.assertEqual(manifest["options"]["vocab"]["size"], 700)
        self.assertEqual(manifest["options"]["clean"]["max-pieces"], 100)
        # The same pairs in plain files give the same tokens in the same order.
        kept = [pair for c in manifest["train"] for s in c["shards"]
                for pair in read_pairs(self.path("mixed/" + s["file"]))]
        run("prepare", "--source", "en", "--target", "de", "--train", f"{text}/train.en",
            f"{text}/train.de", "--vocab", self.path("mixed/vocab.model"), "--output",
            self.path("plain"))
        self.assertEqual(kept[:-1], read_pairs(self.path("plain/train-00000.shard")))

    def test_reads_pipes(self):
        text = self.corpus()
        run(*self.prepare_args(text))
        done = subprocess.run(
            ["bash", "-c", f'"$0" prepare --source en --target de --train <(cat {text}/train.en) '
             f'<(cat {text}/train.de) --vocab {self.path("data/vocab.model")} --output '
             f'{self.path("piped")}', os.environ["REIGEN"]], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(digest(self.path("piped/train-00000.shard")),
                         digest(self.path("data/train-00000.shard")))

    def test_shows_dropped_pairs_on_request(self):
        self.write("t.tsv", "hello\thello\n" + "".join(f"one {i}\teins {i}\n" for i in range(200)))
        done = run("prepare", "--source", "en", "--target", "de", "--train", self.path("t.tsv"),
                   "--vocab-size", 64, "--examples", 1, "--output", self.path("data"))
        self.assertIn("Dropped by copy:\n  t, line 1\n    en: hello\n    de: hello\n", done.stdout)


class Inspect(Case):
    def test_shows_sizes_counts_and_lengths(self):
        run(*self.prepare_args(self.corpus()))
        text = run("inspect", self.path("data"), "--verify").stdout
        data = json.loads(run("inspect", self.path("data"), "--json").stdout)
        kept = data["train"][0]["lines_kept"]
        self.assertIn(f"Training set: {kept:,} lines", text)
        self.assertIn("median", text)
        self.assertIn("Verified: all 9 files", text)
        self.assertEqual(data, json.loads(self.read("data/manifest.json")))


if __name__ == "__main__":
    main()
