"""Models of Hugging Face's Marian and Pegasus classes without transformers: random ones are written as
`save_pretrained` and older programs write them, and log-probabilities are computed from the files alone.

Written from the classes' documentation and code (modeling_marian.py, modeling_pegasus.py), in plain Python.
"""

import json
import math
import os
import random
import shutil
import struct

from ct2_model import ACTIVATIONS, add, dot, softmax

# By name there: relu, gelu in its tanh form, swish, gelu.
KINDS = {"relu": 0, "gelu_new": 1, "gelu_pytorch_tanh": 1, "swish": 2, "silu": 2, "gelu": 3}


def to_16_bits(values, dtype):
    if dtype == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    bits = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
    return struct.pack(f"<{len(values)}H", *((b + 0x7FFF + ((b >> 16) & 1)) >> 16 for b in bits))


def from_bytes(data, dtype):
    if dtype == "BF16":
        return struct.unpack(f"<{len(data) // 2}f", b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2)))
    return struct.unpack(f"<{len(data) // (4 if dtype == 'F32' else 2)}{'f' if dtype == 'F32' else 'e'}", data)


class HfModel:
    """Reads config.json and model.safetensors of a folder."""

    def __init__(self, folder):
        with open(f"{folder}/config.json", encoding="utf-8") as file:
            self.config = json.load(file)
        with open(f"{folder}/model.safetensors", "rb") as file:
            data = file.read()
        (size,) = struct.unpack("<Q", data[:8])
        header, self.tensors = json.loads(data[8:8 + size]), {}
        header.pop("__metadata__", None)
        for name, t in header.items():
            values = from_bytes(data[8 + size:][slice(*t["data_offsets"])], t["dtype"])
            width = t["shape"][-1]
            self.tensors[name] = [values[i:i + width] for i in range(0, len(values), width)]
        self.pre = self.config["model_type"] == "pegasus"
        self.act = ACTIVATIONS[KINDS[self.config["activation_function"]]]
        find = lambda *names: next(self.tensors[name] for name in names if name in self.tensors)
        shared, tied = self.config.get("share_encoder_decoder_embeddings", True), self.config["tie_word_embeddings"]
        sides = ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"]
        own = all(name in self.tensors for name in sides)
        self.source = self.tensors[sides[0]] if own else find("model.shared.weight")
        self.target = self.tensors[sides[1]] if own else self.source
        assert own or shared
        self.projection = self.target if tied else self.tensors["lm_head.weight"]
        self.bias = find("final_logits_bias")[0] if "final_logits_bias" in self.tensors else [0] * len(self.target)

    def linear(self, name, x):
        return add([dot(row, x) for row in self.tensors[name + ".weight"]], self.tensors[name + ".bias"][0])

    def norm(self, name, x):
        mean = sum(x) / len(x)
        scale = 1 / math.sqrt(sum((v - mean)**2 for v in x) / len(x) + 1e-5)
        gain, shift = self.tensors[name + ".weight"][0], self.tensors[name + ".bias"][0]
        return [(v - mean) * scale * g + s for v, g, s in zip(x, gain, shift)]

    def sublayer(self, name, states, function):
        out = function([self.norm(name, x) for x in states] if self.pre else states)
        out = [add(x, y) for x, y in zip(states, out)]
        return out if self.pre else [self.norm(name, x) for x in out]

    def attention(self, name, queries, memory, causal):
        heads, width = self.config["encoder_attention_heads"], len(queries[0])
        size, out = width // heads, []
        q = [self.linear(name + ".q_proj", x) for x in queries]
        k, v = ([self.linear(f"{name}.{p}_proj", x) for x in memory] for p in "kv")
        for t, query in enumerate(q):
            last, joined = t + 1 if causal else len(k), []
            for h in range(0, width, size):
                weights = softmax([dot(query[h:h + size], key[h:h + size]) / math.sqrt(size) for key in k[:last]])
                joined += [sum(w * value[h + i] for w, value in zip(weights, v)) for i in range(size)]
            out.append(self.linear(name + ".out_proj", joined))
        return out

    def feed_forward(self, name, states):
        return [self.linear(name + "fc2", [self.act(v) for v in self.linear(name + "fc1", x)]) for x in states]

    def position(self, place, width):
        angles = [place / 10_000**(2 * i / width) for i in range(width // 2)]
        return [*map(math.sin, angles), *map(math.cos, angles)]

    def stack(self, side, table, ids, memory=None):
        scale = math.sqrt(len(table[0])) if self.config["scale_embedding"] else 1
        states = [add([scale * v for v in table[i]], self.position(t, len(table[0]))) for t, i in enumerate(ids)]
        for layer in range(self.config[side + "_layers"]):
            name = f"model.{side}.layers.{layer}."
            states = self.sublayer(name + "self_attn_layer_norm", states, lambda x, n=name: self.attention(
                n + "self_attn", x, x, memory is not None))
            if memory is not None:
                states = self.sublayer(name + "encoder_attn_layer_norm", states, lambda x, n=name: self.attention(
                    n + "encoder_attn", x, memory, False))
            states = self.sublayer(name + "final_layer_norm", states, lambda x, n=name: self.feed_forward(n, x))
        return [self.norm(f"model.{side}.layer_norm", x) for x in states] if self.pre else states

    def score(self, source, target):
        """Log-probabilities of target ids; both lists end with the end of sentence."""
        memory = self.stack("encoder", self.source, source)
        states = self.stack("decoder", self.target, [self.config["decoder_start_token_id"], *target[:-1]], memory)
        return [math.log(softmax(add([dot(row, x) for row in self.projection], self.bias))[i])
                for x, i in zip(states, target)]


class RandomModel:
    """A folder with a model of random shape. `pieces`: those of source.spm and of target.spm, special ones left out."""

    def __init__(self, folder, seed, models, pieces):
        r = self.random = random.Random(seed)
        self.folder = folder
        os.mkdir(folder)
        for name, path in zip(("source.spm", "target.spm"), models):
            shutil.copy(path, f"{folder}/{name}")
        self.pre = r.random() < 0.4
        separate = not self.pre and r.random() < 0.4
        self.dtype = r.choice(["F32", "F32", "F16", "BF16"])
        self.lists = [self.piece_list(p, separate) for p in (pieces if separate else [sorted({*pieces[0], *pieces[1]})])]
        spare = r.choice([0, 0, 3])  # rows that fill up a table
        source, target = (len(self.lists[i]) + spare for i in (0, -1))
        heads = r.choice([1, 2, 4])
        self.width = heads * r.choice([2, 4, 6]) * (4 // heads)
        self.biases = r.random() < 0.8
        pad, shared = self.lists[-1]["<pad>"], self.pre or (not separate and r.random() < 0.7)
        inner = r.choice([1, 7, self.width, 3 * self.width])
        self.config = {
            "model_type": "pegasus" if self.pre else "marian", "vocab_size": source, "d_model": self.width,
            "encoder_layers": r.choice([1, 2, 3]), "decoder_layers": r.choice([1, 2]), "encoder_ffn_dim": inner,
            "decoder_ffn_dim": inner, "encoder_attention_heads": heads, "decoder_attention_heads": heads,
            "max_position_embeddings": r.choice([100, 512]), "activation_function": r.choice(list(KINDS)),
            "scale_embedding": r.random() < 0.6, "tie_word_embeddings": r.random() < 0.65, "pad_token_id": pad,
            "eos_token_id": self.lists[-1]["</s>"], "decoder_start_token_id": pad, "is_encoder_decoder": True}
        if not shared:
            self.config.update(share_encoder_decoder_embeddings=False, decoder_vocab_size=target)
        self.tensors = {}
        self.tables(source, target, shared, separate)
        for side in ("encoder", "decoder"):
            self.stack(side, inner)
        self.write()

    def piece_list(self, pieces, separate):
        """Piece to id: some pieces are missing, and special ones are anywhere."""
        r, left_out = self.random, self.random.choice([0, 0, 7])
        pieces = [piece for i, piece in enumerate(pieces) if not left_out or i % left_out]
        r.shuffle(pieces)
        for place, special in enumerate(("</s>", "<unk>", "<pad>")):  # both lists have one id of padding
            pieces.insert(place if separate else r.randrange(len(pieces)), special)
        return {piece: i for i, piece in enumerate(pieces)}

    def add(self, name, shape, spread=0.25, around=0.0):
        self.tensors[name] = (shape, [self.random.gauss(around, spread) for _ in range(math.prod(shape))])

    def tables(self, source, target, shared, separate):
        r, tied = self.random, self.config["tie_word_embeddings"]
        # transformers 5 also has tables of both sides where config.json shares them but does not tie the projection.
        if shared and (tied or r.random() < 0.5):
            self.add("model.shared.weight", [source, self.width])
        else:
            self.add("model.encoder.embed_tokens.weight", [source, self.width])
            self.add("model.decoder.embed_tokens.weight", [target, self.width])
        if not tied:
            self.add("lm_head.weight", [target, self.width])
        elif r.random() < 0.3:
            self.tensors["lm_head.weight"] = self.tensors.get("model.decoder.embed_tokens.weight") or self.tensors[
                "model.shared.weight"]
        if (bias := r.choice(["none", "zero", "random"])) != "none":
            self.add("final_logits_bias", [1, target], spread=0.5 if bias == "random" else 0.0)

    def linear(self, name, outputs, inputs, bias=True):
        self.add(name + ".weight", [outputs, inputs], 0.6 / math.sqrt(inputs))
        self.add(name + ".bias", [outputs], 0.25 if bias else 0.0)

    def norm(self, name):
        self.add(name + ".weight", [self.width], around=1.0)
        self.add(name + ".bias", [self.width])

    def stack(self, side, inner):
        for layer in range(self.config[side + "_layers"]):
            name = f"model.{side}.layers.{layer}."
            for attention in ["self_attn", "encoder_attn"][:1 if side == "encoder" else 2]:
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    self.linear(f"{name}{attention}.{part}", self.width, self.width, self.biases)
                self.norm(f"{name}{attention}_layer_norm")
            self.linear(name + "fc1", inner, self.width)
            self.linear(name + "fc2", self.width, inner)
            self.norm(name + "final_layer_norm")
        if self.pre:
            self.norm(f"model.{side}.layer_norm")

    def write(self):
        header, body = {}, b""
        for name, (shape, values) in self.tensors.items():
            data = struct.pack(f"<{len(values)}f", *values) if self.dtype == "F32" else to_16_bits(values, self.dtype)
            header[name] = {"dtype": self.dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
            body += data
        text = json.dumps(header).encode()
        with open(f"{self.folder}/model.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + body)
        files = {"config": self.config, "vocab": self.lists[0],
                 "tokenizer_config": {"source_lang": "en", "target_lang": "de"}}
        if len(self.lists) > 1:
            files["target_vocab"] = self.lists[1]
        for name, value in files.items():
            with open(f"{self.folder}/{name}.json", "w", encoding="utf-8") as file:
                json.dump(value, file)

    def ids(self, side, pieces):
        """Ids of a sentence's pieces, by the list of the source (0) or the target (-1)."""
        listed = self.lists[side]
        return [listed.get(piece, listed["<unk>"]) for piece in pieces] + [listed["</s>"]]
