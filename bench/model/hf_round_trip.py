#!/usr/bin/env python3
"""Compares Reigen with Hugging Face transformers, both ways, on models made here.

    bench/model/hf_round_trip.py --reigen build/release/reigen --out /tmp/hf

Needs torch, transformers, sentencepiece; for the last part onnx and onnxruntime. Nothing is downloaded. Four parts:
A, B: MarianMT and Pegasus models of several shapes, trained for some steps by transformers, are imported;
C: models trained by Reigen are exported, loaded, saved again by transformers and imported; D: ONNX files of some.
Log-probabilities are compared token by token on 100 sentences, greedy translations line by line, pieces one by one. A
check that fails does not end the program. Writes OUT/results.json and OUT/hf.tar.xz: small models with the values that
transformers computes, for tests/fixtures.
"""

import argparse
import concurrent.futures
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import time
import traceback
import unicodedata

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import sentencepiece
import torch
import transformers
from transformers import (AutoModelForSeq2SeqLM, AutoTokenizer, MarianConfig, MarianMTModel, MarianTokenizer,
                          PegasusConfig, PegasusForConditionalGeneration)

LIMIT = 1e-4  # largest difference of a token's log-probability
TIE = 1e-3    # greedy translations may differ where the two likeliest tokens are so near

# Kinds of text that the built-in corpus lacks: unknown characters, numbers, marks, one word.
HARD = [("Ω ≈ 3.14 (see §2)!", "Ω ≈ 3,14 (siehe §2)!"), ("Yes.", "Ja."), ("a b c 1 2 3", "a b c 1 2 3"),
        ("“Zoë” — naïve café №5", "„Zoë“ — naives Café №5"), ("日本語 and हिन्दी", "日本語 und हिन्दी")]


class Report:
    """Rows of checks: part, model, what was compared, pass or FAIL, figures."""

    def __init__(self, seconds):
        self.rows = []
        self.start = time.monotonic()
        self.seconds = seconds

    def check(self, part, name, what, work):
        """Runs `work`, which returns (passed, figures), and records it; returns whether it did not raise."""
        if time.monotonic() - self.start > self.seconds:
            self.add(part, name, what, "SKIP", "out of time")
            return False
        try:
            passed, figures = work()
            self.add(part, name, what, "pass" if passed else "FAIL", figures)
            return True
        except Exception as error:  # any error is a result here
            lines = [line for line in str(error).strip().splitlines() if line.strip()] or [""]
            self.add(part, name, what, "FAIL", f"{type(error).__name__}: {lines[-1][:300]}")
            traceback.print_exc(file=sys.stderr)
            return False

    def add(self, part, name, what, result, figures):
        self.rows.append({"part": part, "model": name, "check": what, "result": result, "figures": figures})
        print(f"{time.monotonic() - self.start:6.1f} s  {part}  {name:<22} {what:<28} {result}  {figures}", flush=True)


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return file.read().split("\n")[:-1]


def write_lines(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))
    return path


class Reigen:
    def __init__(self, program, threads):
        self.program, self.threads = program, threads

    def __call__(self, *args, text=None):
        done = subprocess.run([self.program, *map(str, args)], capture_output=True, encoding="utf-8", input=text,
                              timeout=120, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"reigen {args[0]} exited {done.returncode}: {done.stderr.strip()[-400:]}")
        return done.stdout

    def scores(self, model, sources, targets, *more):
        out = self("score", "--model", model, "--sources", sources, "--targets", targets, "--tokens", "--quiet",
                   "--device", "cpu", "--threads", self.threads, *more)
        return [json.loads(line) for line in out.split("\n")[:-1]]

    def greedy(self, model, lines, *more):
        out = self("translate", "--model", model, "--beam", 1, "--decode.max-ratio", 100, "--quiet", "--device", "cpu",
                   "--threads", self.threads, *more, text="".join(f"{line}\n" for line in lines))
        return out.split("\n")[:-1]


# What transformers computes.

def batches(lines, size=20):
    return [slice(i, i + size) for i in range(0, len(lines), size)]


def token_ids(tokenizer, lines, target=False):
    given = {"text_target": list(lines)} if target else {"text": list(lines)}
    return tokenizer(**given, return_tensors="pt", padding=True)


@torch.no_grad()
def log_probabilities(model, tokenizer, sources, targets):
    """For each pair the ids of the target, end included, and their log-probabilities."""
    results = []
    for part in batches(sources):
        source, target = token_ids(tokenizer, sources[part]), token_ids(tokenizer, targets[part], target=True)
        ids = target["input_ids"].masked_fill(target["attention_mask"] == 0, model.config.pad_token_id)
        start = torch.full((len(ids), 1), model.config.decoder_start_token_id)
        logits = model(input_ids=source["input_ids"], attention_mask=source["attention_mask"],
                       decoder_input_ids=torch.cat([start, ids[:, :-1]], 1)).logits.float()
        values = logits.log_softmax(-1).gather(2, ids.unsqueeze(2)).squeeze(2)
        for row, line, length in zip(ids, values, target["attention_mask"].sum(1).tolist()):
            results.append((row[:length].tolist(), line[:length].tolist()))
    return results


@torch.no_grad()
def greedy(model, tokenizer, sources, limit):
    """For each line the ids, the text, and the smallest lead of a chosen token over the next one."""
    results = []
    for part in batches(sources):
        source = token_ids(tokenizer, sources[part])
        out = model.generate(input_ids=source["input_ids"], attention_mask=source["attention_mask"], num_beams=1,
                             do_sample=False, max_length=limit, return_dict_in_generate=True, output_scores=True)
        leads = torch.stack([s.float().topk(2).values.diff(dim=-1).abs().squeeze(-1) for s in out.scores], 1)
        texts = tokenizer.batch_decode(out.sequences, skip_special_tokens=True)
        end = model.config.eos_token_id
        for ids, text, lead in zip(out.sequences.tolist(), texts, leads):
            ids = ids[1:]
            count = ids.index(end) + 1 if end in ids else len(ids)
            results.append((ids[:count], text.strip(), lead[:count].min().item()))
    return results


def compare_scores(model, tokenizer, ours, sources, targets):
    theirs = log_probabilities(model, tokenizer, sources, targets)
    worst = tokens = lines = 0
    for (ids, values), own in zip(theirs, ours, strict=True):
        pieces = tokenizer.convert_ids_to_tokens(ids)
        if getattr(tokenizer, "separate_vocabs", False):
            names = {i: piece for piece, i in tokenizer.target_encoder.items()}
            pieces = [names[i] for i in ids]
        if pieces != own["pieces"]:
            lines += 1
            if lines == 1:
                print(f"  pieces there {pieces}\n  pieces here  {own['pieces']}", file=sys.stderr)
            continue
        tokens += len(ids)
        worst = max([worst, *(abs(a - b) for a, b in zip(values, own["log_probabilities"], strict=True))])
    return (worst <= LIMIT and lines == 0,
            f"largest difference {worst:.1e}, {tokens} tokens, {lines} lines with other pieces")


def compare_greedy(model, tokenizer, ours, sources, limit):
    theirs = greedy(model, tokenizer, sources, limit)
    equal = ties = unknown = cut = other = 0
    for (ids, text, lead), own in zip(theirs, ours, strict=True):
        if text == own.strip():
            equal += 1
        elif tokenizer.unk_token_id in ids:
            unknown += 1  # the source's unknown piece here, nothing there
        elif len(ids) >= limit - 1 and (text.startswith(own.strip()) or own.strip().startswith(text)):
            cut += 1  # at the largest length
        elif lead < TIE:
            ties += 1
        else:
            other += 1
            if other == 1:
                print(f"  greedy there {text}\n  greedy here  {own}", file=sys.stderr)
    return (other == 0 and equal > len(theirs) // 2,
            f"{equal} of {len(theirs)} equal, {other} different; not compared: {unknown} with <unk>, {ties} with a "
            f"tie, {cut} of the largest length")


# A: models made by transformers.

class Texts:
    def __init__(self, reigen, folder):
        reigen("corpus", "--pairs", 8000, "--valid-pairs", 100, "--test-pairs", 100, "--output", folder, "--overwrite",
               "--quiet")
        self.folder = folder
        self.train = [read_lines(f"{folder}/train.{language}") for language in ("en", "de")]
        test = [read_lines(f"{folder}/test.{language}")[:100 - len(HARD)] for language in ("en", "de")]
        clean = lambda line: " ".join(unicodedata.normalize("NFKC", line).split())  # as Reigen's cleaner leaves it
        self.sources = [clean(line) for line in test[0] + [pair[0] for pair in HARD]]
        self.targets = [clean(line) for line in test[1] + [pair[1] for pair in HARD]]
        self.source_file = write_lines(f"{folder}/hundred.en", self.sources)
        self.target_file = write_lines(f"{folder}/hundred.de", self.targets)


def piece_model(folder, name, text, size, kind, **more):
    os.makedirs(folder, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(input=text, model_prefix=f"{folder}/{name}", vocab_size=size,
                                             model_type=kind, hard_vocab_limit=False, minloglevel=2, **more)
    os.rename(f"{folder}/{name}.model", f"{folder}/{name}.spm")
    return sentencepiece.SentencePieceProcessor(model_file=f"{folder}/{name}.spm")


def piece_list(models, seed, leave_out=0, first=(), last=("<pad>",)):
    """A vocab.json as OPUS-MT has it: end and unknown first, padding last, other ids than the models' own."""
    pieces = {model.id_to_piece(i) for model in models for i in range(3, model.get_piece_size())}
    pieces = sorted(pieces)
    random.Random(seed).shuffle(pieces)
    if leave_out:
        pieces = [piece for i, piece in enumerate(pieces) if i % leave_out]
    return {piece: i for i, piece in enumerate(["</s>", "<unk>", *first, *pieces, *last])}


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False)


def padded(rows, fill):
    length = max(map(len, rows))
    return torch.tensor([row + [fill] * (length - len(row)) for row in rows])


def train(model, tokenizer, texts, steps, seed, prefix=""):
    """Some steps of Adam on the CPU, so that the model has learnt to end a sentence."""
    torch.manual_seed(seed)
    model.train()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3, betas=(0.9, 0.98))
    order = random.Random(seed)
    sources, targets = (lines[:1500] for lines in texts.train)
    # Cut into pieces once: the tokenizer takes longer than a step.
    sources = tokenizer([prefix + line for line in sources], truncation=True)["input_ids"]
    targets = tokenizer(text_target=targets, truncation=True)["input_ids"]
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 3e-3 * min(1, (step + 1) / 20)
        chosen = order.sample(range(len(sources)), 32)
        source = padded([sources[i] for i in chosen], -1)
        labels = padded([targets[i] for i in chosen], -100)
        loss = model(input_ids=source.clamp(min=0), attention_mask=(source >= 0).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval(), loss.item()


class Made:
    """A model of transformers in a folder, with tokenizer."""

    def __init__(self, folder, texts, seed, *, kind="marian", separate=False, tied=True, bias=True, pieces="unigram",
                 leave_out=0, tags=(), dtype=torch.float32, steps=120, sizes=(500, 400), coverage=1.0, rule="nmt_nfkc",
                 **config):
        shutil.rmtree(folder, ignore_errors=True)
        options = {"character_coverage": coverage, "normalization_rule_name": rule}
        models = [piece_model(folder, name, f"{texts.folder}/train.{language}", size, pieces, **options)
                  for name, language, size in (("source", "en", sizes[0]), ("target", "de", sizes[1]))]
        lists = [piece_list(models, seed, leave_out, tags)]
        if separate:
            # transformers has one id of padding for both.
            lists = [piece_list(models[i:i + 1], seed + i, first=["<pad>"], last=[]) for i in (0, 1)]
        write_json(f"{folder}/vocab.json", lists[0])
        files = {"source_spm": f"{folder}/source.spm", "target_spm": f"{folder}/target.spm",
                 "vocab": f"{folder}/vocab.json"}
        if separate:
            write_json(f"{folder}/target_vocab.json", lists[1])
            files["target_vocab_file"] = f"{folder}/target_vocab.json"
        self.tokenizer = MarianTokenizer(**files, source_lang="en", target_lang="de", separate_vocabs=separate,
                                         model_max_length=config.get("max_position_embeddings", 128))
        self.models = models
        self.missing = {models[i].id_to_piece(p) for i in (0, 1) for p in range(3, models[i].get_piece_size())
                        if models[i].id_to_piece(p) not in lists[-i if separate else 0]}
        unknown = self.tokenizer.unk_token_id
        self.missing_unknown = sum(self.tokenizer.convert_tokens_to_ids(p) == unknown for p in self.missing)
        self.prefix = tags[0] if tags else ""
        self.model = self.make(lists, kind, separate, tied, seed, config)
        self.model, self.loss = train(self.model, self.tokenizer, texts, steps, seed, self.prefix)
        self.finish(bias, lists[-1]["<pad>"], seed, dtype)
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        self.folder = folder
        # Weights may have been rounded; positions, which are not saved, were rounded with them.
        self.model = type(self.model).from_pretrained(folder, dtype=torch.float32).eval()

    @staticmethod
    def make(lists, kind, separate, tied, seed, config):
        torch.manual_seed(seed)
        shape = {"vocab_size": len(lists[0]), "d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
                 "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128,
                 "decoder_ffn_dim": 128, "max_position_embeddings": 128, "activation_function": "swish",
                 "scale_embedding": True, "dropout": 0.1, "init_std": 0.1, "tie_word_embeddings": tied,
                 "pad_token_id": lists[-1]["<pad>"], "decoder_start_token_id": lists[-1]["<pad>"],
                 "eos_token_id": 0, "forced_eos_token_id": 0, **config}
        if kind == "pegasus":
            return PegasusForConditionalGeneration(PegasusConfig(**shape))
        if separate:
            shape.update(share_encoder_decoder_embeddings=False, decoder_vocab_size=len(lists[1]))
        return MarianMTModel(MarianConfig(**shape))

    def usable(self, source, target):
        """Whether transformers gives each piece of a pair the id of its piece, or of the unknown one."""
        if self.missing_unknown == len(self.missing):
            return True
        pieces = [*self.models[0].encode(source, out_type=str), *self.models[1].encode(target, out_type=str)]
        return not self.missing.intersection(pieces)

    @torch.no_grad()
    def finish(self, bias, pad, seed, dtype):
        generator = torch.Generator().manual_seed(seed)
        if bias:
            noise = torch.randn(self.model.final_logits_bias.shape, generator=generator)
            self.model.final_logits_bias.copy_(0.3 * noise)
            self.model.generation_config.bad_words_ids = [[pad]]
        self.model.generation_config.max_length = self.model.config.max_position_embeddings
        self.model.to(dtype)


MADE = {
    "opus": {},
    "opus-relu-bpe": {"activation_function": "relu", "pieces": "bpe", "d_model": 48, "encoder_attention_heads": 3,
                      "decoder_attention_heads": 3, "encoder_layers": 3, "decoder_layers": 1, "bias": False},
    "opus-bfloat16": {"dtype": torch.bfloat16, "d_model": 50, "encoder_attention_heads": 5,
                      "decoder_attention_heads": 5},
    "opus-separate-tied": {"separate": True, "activation_function": "gelu", "encoder_ffn_dim": 200,
                           "decoder_ffn_dim": 200},
    "opus-separate-untied": {"separate": True, "tied": False, "activation_function": "gelu_new"},
    "opus-shared-untied": {"tied": False, "activation_function": "relu"},
    "opus-unscaled": {"scale_embedding": False, "encoder_layers": 1, "decoder_layers": 3},
    "opus-missing-pieces": {"leave_out": 12, "coverage": 0.999},
    "opus-tags": {"tags": [">>deu<<", ">>fra<<"]},
    "pegasus": {"kind": "pegasus", "activation_function": "relu"},
    "pegasus-unscaled": {"kind": "pegasus", "activation_function": "gelu", "scale_embedding": False, "bias": False},
    "pegasus-untied": {"kind": "pegasus", "tied": False, "d_model": 40, "encoder_attention_heads": 2,
                       "decoder_attention_heads": 2},
    "opus-float16-deep": {"dtype": torch.float16, "activation_function": "silu", "encoder_layers": 6,
                          "encoder_ffn_dim": 200, "decoder_ffn_dim": 200},
    "pegasus-gelu-tanh": {"kind": "pegasus", "activation_function": "gelu_pytorch_tanh", "encoder_layers": 1,
                          "decoder_layers": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96},
}


def imported(report, reigen, texts, folder):
    """Parts A and B."""
    for seed, (name, options) in enumerate(MADE.items(), start=1):
        made = {}

        def make():
            made["it"] = Made(f"{folder}/{name}", texts, seed, **options)
            parameters = sum(p.numel() for p in made["it"].model.parameters())
            return True, f"{parameters:,} parameters, loss {made['it'].loss:.2f}"

        if not report.check("A", name, "made by transformers", make):
            continue
        it, checkpoint = made["it"], f"{folder}/{name}-imported"
        if not report.check("B", name, "import", lambda: (True, reigen(
                "import", it.folder, "-o", checkpoint, "--overwrite"))):
            continue
        pairs = [pair for pair in zip(texts.sources, texts.targets) if it.usable(*pair)]
        sources, targets = [it.prefix + pair[0] for pair in pairs], [pair[1] for pair in pairs]
        source_file, target_file = (write_lines(f"{folder}/{name}.{language}", lines)
                                    for language, lines in (("en", sources), ("de", targets)))
        if it.missing:
            report.add("B", name, "pieces that the list lacks",
                       "pass" if it.missing_unknown == len(it.missing) else "note",
                       f"{it.missing_unknown} of {len(it.missing)} are unknown in transformers, all are here; "
                       f"{len(pairs)} lines compared")
        report.check("B", name, "log-probabilities", lambda: compare_scores(
            it.model, it.tokenizer, reigen.scores(checkpoint, source_file, target_file), sources, targets))
        limit = it.model.config.max_position_embeddings + 1
        report.check("B", name, "greedy", lambda: compare_greedy(
            it.model, it.tokenizer, reigen.greedy(checkpoint, sources), sources, limit))
        # Loaded again by transformers from our export of it.
        out = f"{folder}/{name}-exported"
        if name in ("pegasus-unscaled", "pegasus-untied"):
            continue  # untied pre-norm: has no equivalent there
        if report.check("B", name, "export again", lambda: (True, reigen(
                "export", checkpoint, "--to", "hf", "-o", out, "--overwrite"))):
            report.check("B", name, "log-probabilities again", lambda: compare_scores(
                AutoModelForSeq2SeqLM.from_pretrained(out).eval(), AutoTokenizer.from_pretrained(out),
                reigen.scores(checkpoint, source_file, target_file), sources, targets))


# C: models trained by Reigen.

SHAPES = {
    "pre": [],
    "pre-biases": ["--model.biases=true", "--model.activation", "gelu"],
    "pre-unigram-bytes": ["--model.activation", "gelu-erf"],
    "pre-bf16": ["--precision", "bf16"],
    "post": ["--model.norm", "post", "--model.activation", "swish"],
    "post-untied": ["--model.norm", "post", "--model.tied=false", "--model.biases=true"],
    "post-bias": ["--model.norm", "post", "--model.output-bias=true", "--model.activation", "gelu-erf"],
    "post-two": ["--model.norm", "post"],
    "post-two-untied": ["--model.norm", "post", "--model.tied=false", "--model.output-bias=true"],
    "post-tags": ["--model.norm", "post"],
}
LENGTH = 80  # model.max-length


def prepared(reigen, texts, folder):
    """Datasets by a part of a shape's name; the empty one is for all others."""
    files = lambda split: [f"{texts.folder}/{split}.{language}" for language in ("en", "de")]
    common = ["prepare", "--source", "en", "--target", "de", "--train", *files("train"), "--valid", *files("valid")]
    made = {}
    for name, more in {"two": ["--vocab-size", 400, "--vocab.joint=false"],
                       "unigram-bytes": ["--vocab-size", 900, "--vocab-type", "unigram", "--vocab.byte-fallback",
                                         "true", "--user-symbols", "<ph>"],
                       "": ["--vocab-size", 600]}.items():
        reigen(*common, *more, "--output", f"{folder}/data{name}", "--overwrite", "--quiet")
        made[name] = f"{folder}/data{name}"
    shouted = [write_lines(f"{folder}/{split}.xx", [line.upper() for line in read_lines(files(split)[1])])
               for split in ("train", "valid")]
    reigen(*common, "--train", files("train")[0], shouted[0], "to=xx", "--valid", files("valid")[0], shouted[1],
           "to=xx", "--vocab-size", 700, "--output", f"{folder}/datatags", "--overwrite", "--quiet")
    made["tags"] = f"{folder}/datatags"
    return made


def trained(reigen, name, options, data, folder):
    run = f"{folder}/{name}"
    shutil.rmtree(run, ignore_errors=True)
    chosen = data[next(key for key in ("two", "unigram-bytes", "tags", "") if key in name)]
    reigen("train", "--data", chosen, "--run", run, "--preset", "tiny", "--model.width", 64, "--model.heads", 4,
           "--model.ffn-width", 96, "--model.encoder-layers", 2, "--model.decoder-layers", 2,
           "--model.max-length", LENGTH, "--max-steps", 400, "--batch.target-tokens", 2000, "--eval.every", 0,
           "--recipe", "classic", "--schedule.rate", 0.002, "--schedule.warmup-steps", 60, "--device", "cpu",
           "--threads", 2,
           "--seed", 1, "--quiet", *options)


def loaded(folder):
    """The exported model; fails where transformers reports a key."""
    model, info = AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    wrong = {key: sorted(map(str, value)) for key, value in info.items() if value}
    return model.eval(), wrong


def compare_pieces(tokenizer, ours, lines):
    different = 0
    for line, own in zip(lines, ours, strict=True):
        pieces = tokenizer.convert_ids_to_tokens(tokenizer(line)["input_ids"])
        different += pieces != own["pieces"]
    return different == 0, f"{different} of {len(lines)} lines different"


def full_length(model, tokenizer, line):
    """A translation of the largest length, and a source that is cut."""
    source = tokenizer([" ".join([line] * 40)], return_tensors="pt", padding=True, truncation=True)
    with torch.no_grad():
        default = model.generate(**source)
        longest = model.generate(**source, num_beams=1, min_length=model.generation_config.max_length)
    tokens = source["input_ids"].shape[1]
    return (tokens == LENGTH and longest.shape[1] == LENGTH + 1,
            f"{tokens} source tokens, {longest.shape[1] - 1} tokens; by default {default.shape[1] - 1}")


def exported(report, reigen, texts, folder, data):
    """Part C; returns the exports by name."""
    made = {}
    pool = concurrent.futures.ThreadPoolExecutor(max(1, reigen.threads // 2))
    runs = {name: pool.submit(trained, reigen, name, options, data, folder) for name, options in SHAPES.items()}
    for name in SHAPES:
        run, out = f"{folder}/{name}", f"{folder}/{name}-hf"
        if not report.check("C", name, "train", lambda: (True, runs[name].result() or "400 steps")):
            continue
        if not report.check("C", name, "export", lambda: (True, reigen(
                "export", run, "--to", "hf", "-o", out, "--overwrite"))):
            continue
        it = {}

        def load():
            it["model"], wrong = loaded(out)
            it["tokenizer"] = MarianTokenizer.from_pretrained(out)
            made[name] = out
            return not wrong, f"{type(it['model']).__name__}, keys in the loading report: {wrong or 'none'}"

        if not report.check("C", name, "load", load):
            continue
        model, tokenizer = it["model"], it["tokenizer"]
        to = ["--to", "xx"] if name.endswith("tags") else []
        sources = [(">>xx<< " if to else "") + line for line in texts.sources]
        scores = lambda checkpoint: reigen.scores(checkpoint, texts.source_file, texts.target_file, *to)
        report.check("C", name, "log-probabilities", lambda: compare_scores(
            model, tokenizer, scores(run), sources, texts.targets))
        if "two" not in name and not to:
            report.check("C", name, "pieces of sources", lambda: compare_pieces(
                tokenizer, reigen.scores(run, texts.target_file, texts.source_file), sources))
        report.check("C", name, "greedy", lambda: compare_greedy(
            model, tokenizer, reigen.greedy(run, texts.sources, *to), sources, LENGTH + 1))
        report.check("C", name, "longest translation", lambda: full_length(model, tokenizer, sources[0]))

        def automatic():
            auto = AutoTokenizer.from_pretrained(out)
            same = all(auto(line)["input_ids"] == tokenizer(line)["input_ids"] for line in sources)
            return same, f"{type(auto).__name__}, {'the same ids' if same else 'other ids'}"

        report.check("C", name, "AutoTokenizer", automatic)

        def again():
            back, checkpoint = f"{folder}/{name}-saved", f"{folder}/{name}-back"
            shutil.rmtree(back, ignore_errors=True)
            model.save_pretrained(back)
            tokenizer.save_pretrained(back)
            reigen("import", back, "-o", checkpoint, "--overwrite")
            a, b = scores(run), scores(checkpoint)
            pieces = sum(x["pieces"] != y["pieces"] for x, y in zip(a, b, strict=True))
            worst = max(abs(x - y) for one, two in zip(a, b) for x, y in
                        zip(one["log_probabilities"], two["log_probabilities"]))
            return pieces == 0 and worst <= 1e-5, f"largest difference {worst:.1e}, {pieces} lines with other pieces"

        report.check("C", name, "save_pretrained, import", again)
    return made


# D: ONNX.

def onnx(report, script, made, folder):
    for name in ("pre", "post-two"):
        if name not in made:
            continue

        def export():
            done = subprocess.run([sys.executable, script, made[name], f"{folder}/{name}.onnx", "--check"], check=False,
                                  capture_output=True, encoding="utf-8", timeout=100)
            if done.returncode != 0:
                print(done.stdout + done.stderr, file=sys.stderr)
                raise RuntimeError((done.stderr or done.stdout).strip()[-300:])
            return True, done.stdout.strip().splitlines()[-1]

        report.check("D", name, "export_onnx.py --check", export)


# The fixture of tests/fixtures.

FIXTURE = {
    "marian": {"d_model": 32, "encoder_layers": 2, "decoder_layers": 1, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
               "sizes": (220, 200), "leave_out": 15},
    "marian-two": {"separate": True, "tied": False, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
                   "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "activation_function": "gelu", "sizes": (160, 160)},
    "pegasus": {"kind": "pegasus", "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 24,
                "decoder_ffn_dim": 24, "activation_function": "relu", "scale_embedding": False, "bias": False,
                "sizes": (160, 160)},
}


def fixture(texts, folder):
    place = f"{folder}/fixture"
    shutil.rmtree(place, ignore_errors=True)
    kept = {"config.json", "generation_config.json", "tokenizer_config.json", "model.safetensors", "source.spm",
            "target.spm", "vocab.json", "target_vocab.json"}
    expected = {"transformers": transformers.__version__, "torch": torch.__version__}
    for seed, (name, options) in enumerate(FIXTURE.items(), start=100):
        made = Made(f"{place}/{name}", texts, seed, dtype=torch.float16, rule="identity", steps=300, **options)
        pairs = [pair for pair in zip(texts.sources, texts.targets) if made.usable(*pair)]
        pairs = pairs[:12] + pairs[-4:]
        sources, targets = [p[0] for p in pairs], [p[1] for p in pairs]
        lines = []
        for pair, (ids, values), (found, text, lead) in zip(
                pairs, log_probabilities(made.model, made.tokenizer, sources, targets),
                greedy(made.model, made.tokenizer, sources, 129), strict=True):
            compared = lead > TIE and made.tokenizer.unk_token_id not in found and len(found) < 128
            lines.append({"source": pair[0], "target": pair[1], "ids": ids,
                          "log_probabilities": [round(v, 6) for v in values], "greedy": text if compared else None})
        expected[name] = lines
        for file in os.listdir(f"{place}/{name}"):
            if file not in kept:
                os.remove(f"{place}/{name}/{file}")
    write_json(f"{place}/expected.json", expected)

    def plain(info):
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        return info

    with tarfile.open(f"{folder}/hf.tar.xz", "w:xz", preset=9) as archive:
        archive.add(place, arcname="hf", filter=plain)
    size = os.path.getsize(f"{folder}/hf.tar.xz")
    return size < 150_000, (f"hf.tar.xz has {size:,} bytes; " + ", ".join(
        f"{name}: {len(lines)} pairs, {sum(bool(line['greedy']) for line in lines)} greedy"
        for name, lines in expected.items() if isinstance(lines, list)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reigen", required=True)
    parser.add_argument("--out", required=True, help="folder for models and results")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--parts", default="ABCDF", help="letters of the parts to run; F is the fixture")
    parser.add_argument("--seconds", type=int, default=330, help="no check begins after this time")
    o = parser.parse_args()
    os.makedirs(o.out, exist_ok=True)
    torch.set_num_threads(min(4, o.threads))  # the models are small
    transformers.logging.set_verbosity_error()
    report = Report(o.seconds)
    reigen = Reigen(os.path.abspath(o.reigen), o.threads)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/export_onnx.py")
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, sentencepiece "
          f"{sentencepiece.__version__}", flush=True)
    texts = Texts(reigen, f"{o.out}/text")
    made = {}
    if "C" in o.parts or "D" in o.parts:
        data = {}
        if report.check("C", "-", "prepare", lambda: (True, ", ".join(
                sorted(data.update(prepared(reigen, texts, o.out)) or data)))):
            made = exported(report, reigen, texts, o.out, data)
    if "F" in o.parts:
        report.check("F", "-", "fixture", lambda: fixture(texts, o.out))
    if "A" in o.parts or "B" in o.parts:
        imported(report, reigen, texts, o.out)
    if "D" in o.parts:
        onnx(report, script, made, o.out)
    write_json(f"{o.out}/results.json", report.rows)
    count = lambda result: sum(row["result"] == result for row in report.rows)
    print(f"{count('pass')} passed, {count('FAIL')} failed, {count('SKIP')} skipped")
    for row in report.rows:
        if row["result"] == "FAIL":
            print(f"FAIL {row['part']} {row['model']}: {row['check']}: {row['figures']}")
    sys.exit(count("FAIL") > 0)


if __name__ == "__main__":
    main()
