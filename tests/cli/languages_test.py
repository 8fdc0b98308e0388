"""Several target languages in one model: two synthetic ones, told apart by their tags alone.

The target of both is the source in capitals: in `xc` in the same order, in `xr` backwards. Some lines contain
the text of a tag, which is a word like any other.
"""

import json
import random
import re

import event_reader
import harness
from harness import run

TRAIN = ["--preset", "tiny", "--model.width", 64, "--model.heads", 4, "--model.ffn-width", 128,
         "--model.encoder-layers", 1, "--model.decoder-layers", 2, "--dropout.residual", 0, "--recipe", "classic",
         "--optimizer.kind", "adam", "--schedule.kind", "wsd", "--schedule.rate", 0.005,
         "--schedule.warmup-steps", 50, "--batch.target-tokens", 600, "--threads", 1, "--quiet"]
WORDS = [a + b for a in "bdfgklmnprst" for b in "ao"]


def capitals(words):
    return " ".join(words).upper()


TARGETS = {"xc": capitals, "xr": lambda words: capitals(words[::-1])}


class Languages(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.made = cls("setUp")
        cls.made.setUp()
        cls.addClassCleanup(cls.made.doCleanups)
        cls.sources = {}
        draw = random.Random(1)
        for to, target in TARGETS.items():
            for split, count in (("train", 3000), ("valid", 50), ("test", 30)):
                lines = [draw.choices(WORDS, k=draw.randint(2, 5)) for _ in range(count)]
                if split == "train":
                    for words in lines[::4]:
                        words[draw.randrange(len(words))] = draw.choice([">>xc<<", ">>xr<<"])
                cls.sources[split, to] = lines
                cls.made.write(f"{split}-{to}.en", "".join(" ".join(words) + "\n" for words in lines))
                cls.made.write(f"{split}-{to}.{to}", "".join(target(words) + "\n" for words in lines))
        run("prepare", "--source", "en", "--target", "xc", *cls.corpora("train", "valid", "test"),
            "--vocab-size", 100, "--output", cls.made.path("data"), "--quiet")
        cls.model = cls.made.path("run")
        run("train", "--data", cls.made.path("data"), "--run", cls.model, *TRAIN, "--max-steps", 400,
            "--eval.every", 200)

    @classmethod
    def corpora(cls, *splits):
        files = lambda split, to: (cls.made.path(f"{split}-{to}.en"), cls.made.path(f"{split}-{to}.{to}"))
        return [word for split in splits for to in TARGETS
                for word in (f"--{split}", *files(split, to), *([f"to={to}"] if to != "xc" else []))]

    def translated(self, lines, *more, model=None):
        done = run("translate", "--model", model or self.model, *more, "--quiet", input="\n".join(lines) + "\n")
        return done.stdout.splitlines()

    def last_evaluation(self):
        with open(f"{self.model}/measurements/rank-0.jsonl") as log:
            return [r for r in map(json.loads, log) if r["kind"] == "evaluation"][-1]

    def test_the_tag_chooses_the_language(self):
        lines = self.sources["test", "xc"]
        for to, target in TARGETS.items():
            found = self.translated([" ".join(words) for words in lines], "--to", to)
            self.assertEqual(len(found), len(lines))
            right = sum(line == target(words) for line, words in zip(found, lines))
            self.assertGreaterEqual(right, 0.8 * len(lines), to)

    def test_text_that_looks_like_a_tag_chooses_nothing(self):
        draw = random.Random(2)
        lines = [[">>xr<<", *draw.choices(WORDS, k=3)] for _ in range(20)]
        found = self.translated([" ".join(words) for words in lines], "--to", "xc")
        right = sum(line == capitals(words) for line, words in zip(found, lines))
        self.assertGreaterEqual(right, 15, found)

    def test_a_language_must_be_chosen_and_known(self):
        for more in ([], ["--to", "fr"]):
            self.assert_fails(run("translate", "--model", self.model, *more, check=False, input="ba\n"), 2,
                              "--to", "xc, xr")
        self.assert_fails(run("evaluate", "--hypotheses", "a", "--references", "b", "--to", "xc", check=False), 2,
                          "--to")

    def test_each_direction_is_evaluated(self):
        last = self.last_evaluation()
        directions = {d["name"]: d for d in last["directions"]}
        self.assertEqual(sorted(directions), ["en-xc", "en-xr"])
        tokens = sum(d["tokens"] for d in directions.values())
        self.assertEqual(tokens, last["tokens"])
        mean = sum(d["nll"] * d["tokens"] for d in directions.values()) / tokens
        self.assertAlmostEqual(mean, last["nll"], places=4)
        with open(f"{self.model}/log.txt") as log:
            text = log.read()
        shown = {}
        for step, tag, value, _ in event_reader.values(self.model):
            shown[step, tag] = value
        with open(f"{self.model}/report.json") as file:
            report = json.load(file)
        numbers = {d["name"]: d for d in report["numbers"]["directions"]}
        for name, scores in directions.items():
            self.assertIn(f"{name}: loss {scores['nll']:.4f}", text)
            self.assertAlmostEqual(shown[last["step"], f"eval/BLEU/{name}"], scores["bleu"], places=2)
            self.assertAlmostEqual(shown[last["step"], f"eval/loss/{name}"], scores["nll"], places=4)
            self.assertEqual(numbers[name]["bleu"], scores["bleu"])
        with open(f"{self.model}/report.html") as page:
            self.assertIn("BLEU by direction", page.read())

    def test_evaluate_scores_all_languages_or_one(self):
        both = json.loads(run("evaluate", "--model", self.model, "--no-bootstrap", "--json").stdout)
        self.assertEqual([d["name"] for d in both["directions"]], ["en-xc", "en-xr"])
        self.assertEqual(both["sentences"], 60)
        one = json.loads(run("evaluate", "--model", self.model, "--to", "xr", "--no-bootstrap", "--json").stdout)
        self.assertNotIn("directions", one)
        self.assertEqual(one["sentences"], 30)
        self.assertAlmostEqual(one["metrics"][0]["system"]["score"], both["directions"][1]["scores"]["BLEU"], places=6)
        self.assertAlmostEqual(one["nll"], both["directions"][1]["nll"], places=4)
        text = json.loads(run("evaluate", "--model", self.model, "--to", "xr", "--sources", self.made.path("test-xr.en"),
                              "--references", self.made.path("test-xr.xr"), "--no-bootstrap", "--json").stdout)
        self.assertAlmostEqual(text["nll"], one["nll"], places=4)
        self.assertIn("en-xr", run("evaluate", "--model", self.model, "--no-bootstrap").stdout)

    def test_a_dataset_is_described(self):
        text = run("inspect", self.made.path("data")).stdout
        self.assertIn("en to xc, xr", text)
        self.assertIn("(to xr)", text)

    def test_score_depends_on_the_language(self):
        right, wrong = (
            sum(map(float, run("score", "--model", self.model, "--to", to, "--sources", self.made.path("test-xr.en"),
                               "--targets", self.made.path("test-xr.xr")).stdout.split()))
            for to in ("xr", "xc"))
        self.assertGreater(right, wrong + 50)

    def test_samples_are_of_the_language(self):
        words = ["ba", "do", "fa"]
        found = self.translated([" ".join(words)] * 5, "--to", "xr", "--sample", "--top-k", 1)
        self.assertEqual(set(found), {TARGETS["xr"](words)})

    def test_cleaning_by_scores_knows_the_language(self):
        draw = random.Random(3)
        pairs = []
        for i in range(200):
            words = draw.sample(WORDS, 4)
            to = "xc" if i % 10 == 0 else "xr"
            pairs.append(f"{' '.join(words)}\t{TARGETS[to](words)}\n")
        self.write("noisy.tsv", "".join(pairs))
        done = run("prepare", "--source", "en", "--target", "xr", "--train", self.path("noisy.tsv"), "to=xr",
                   "--vocab", self.model, "--clean.score", self.model, "--clean.score-share", 0.1, "--examples", 20,
                   "--output", self.path("clean"))
        dropped = [int(n) for n in re.findall(r"noisy, line (\d+)", done.stdout)]
        self.assertEqual(len(dropped), 20)
        self.assertGreaterEqual(sum(n % 10 == 1 for n in dropped), 17)

    def test_exports_have_the_tags_as_pieces(self):
        run("export", self.model, "--to", "hf", "--output", self.path("hf"))
        pieces = json.loads(self.read("hf/vocab.json"))
        self.assertTrue({">>xc<<", ">>xr<<"} <= set(pieces))
        card = self.read("hf/README.md")
        self.assertIn('tokenizer([">>xc<< ..."]', card)
        self.assertIn("`>>xr<<`", card)
        run("import", self.path("hf"), "--output", self.path("back"))
        lines = [" ".join(words) for words in self.sources["test", "xr"]]
        self.assertEqual(self.translated(lines, "--to", "xr", model=self.path("back")),
                         self.translated(lines, "--to", "xr"))
        run("export", self.model, "--to", "ctranslate2", "--output", self.path("ct2"))
        self.assertEqual(json.loads(self.read("ct2/shared_vocabulary.json"))[pieces[">>xr<<"]], ">>xr<<")
        self.assertIn('pieces = [">>xc<<"] + source.encode', self.read("ct2/README.md"))

    def test_a_run_begins_with_the_model_and_keeps_its_languages(self):
        files = (self.made.path("train-xr.en"), self.made.path("train-xr.xr"))
        run("prepare", "--source", "en", "--target", "xr", "--train", *files, "--vocab", self.model,
            "--output", self.path("more"), "--quiet")  # without to=, which the vocabulary implies
        manifest = json.loads(self.read("more/manifest.json"))
        self.assertEqual(manifest["target_languages"], ["xc", "xr"])
        self.assertEqual(manifest["train"][0]["to"], "xr")
        run("train", "--from", self.model, "--data", self.path("more"), "--run", self.path("tuned"),
            "--recipe", "classic", "--optimizer.kind", "adam", "--max-steps", 2, "--batch.target-tokens", 600,
            "--schedule.rate", 1e-5, "--threads", 1, "--quiet")
        lines = [" ".join(words) for words in self.sources["test", "xc"]]
        self.assertEqual(self.translated(lines, "--to", "xc", model=self.path("tuned")),
                         self.translated(lines, "--to", "xc"))
        inspected = run("inspect", self.path("tuned/last")).stdout
        self.assertIn("target languages: xc, xr", inspected)
        self.assert_fails(run("prepare", "--source", "en", "--target", "xc", "--train", *files, "to=fr",
                              "--vocab", self.model, "--output", self.path("none"), check=False), 3, "xc, xr")


if __name__ == "__main__":
    harness.main()
