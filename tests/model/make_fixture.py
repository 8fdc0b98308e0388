#!/usr/bin/env python3
"""Makes tests/model/fixture.safetensors: a small Transformer's weights, a batch, its loss and the
gradients of all parameters as PyTorch computes them in double precision.

    python3 tests/model/make_fixture.py fixture.safetensors

Needs torch and safetensors. Parameter names are Reigen's, with the model's options as prefix, so
that one file holds several variants (pre-norm tied, post-norm untied with biases and gelu, ...).
"""

import math
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

D, HEADS, FFN, LAYERS, VOCAB, MAXLEN = 16, 2, 24, 2, 29, 12
SMOOTHING = 0.1
SOURCE = [[5, 9, 2, 7, 1], [3, 1], [11, 28, 4, 4, 4, 8, 1]]
TARGET = [[6, 6, 1], [10, 12, 13, 14, 2, 1], [1]]
BOS = 2
VARIANTS = {
    "pre": dict(post=False, tied=True, learned=False, act="relu", biases=False),
    "post": dict(post=True, tied=False, learned=True, act="gelu", biases=True),
    "swish": dict(post=False, tied=False, learned=False, act="swish", biases=True),
}


class Model:
    def __init__(self, post, tied, learned, act, biases):
        self.post, self.tied, self.learned, self.act, self.biases = post, tied, learned, act, biases
        self.p = {}

    def new(self, name, *shape, norm=False):
        value = torch.randn(*shape, dtype=torch.float64) * (0.1 if norm else 0.3)
        if norm and name.endswith("gain"):
            value += 1
        value = value.float().double().requires_grad_()
        return self.p.setdefault(name, value)

    def linear(self, name, x, rows, cols, bias):
        y = x @ self.new(f"{name}.weight", rows, cols).T
        return y + self.new(f"{name}.bias", 1, rows) if bias else y

    def norm(self, name, x):
        gain, shift = self.new(f"{name}.gain", 1, D, norm=True), self.new(f"{name}.shift", 1, D, norm=True)
        return F.layer_norm(x, (D,), gain[0], shift[0], 1e-5)

    def heads(self, x):
        return x.view(-1, HEADS, D // HEADS).transpose(0, 1)

    def attention(self, name, x, memory, causal):
        if memory is None:
            q, k, v = self.linear(f"{name}.query_key_value", x, 3 * D, D, self.biases).chunk(3, -1)
        else:
            q = self.linear(f"{name}.query", x, D, D, self.biases)
            k, v = self.linear(f"{name}.key_value", memory, 2 * D, D, self.biases).chunk(2, -1)
        q, k, v = self.heads(q), self.heads(k), self.heads(v)
        scores = q @ k.transpose(1, 2) / math.sqrt(D // HEADS)
        if causal:
            mask = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(mask, -math.inf)
        out = (scores.softmax(-1) @ v).transpose(0, 1).reshape(-1, D)
        return self.linear(f"{name}.output", out, D, D, self.biases)

    def feed_forward(self, name, x):
        z = self.linear(f"{name}.input", x, FFN, D, True)
        act = {"relu": F.relu, "gelu": lambda t: F.gelu(t, approximate="tanh"), "swish": F.silu}
        return self.linear(f"{name}.output", act[self.act](z), D, FFN, True)

    def sublayer(self, name, x, f):
        if self.post:
            return self.norm(f"{name}_norm", x + f(name, x))
        return x + f(name, self.norm(f"{name}_norm", x))

    def stack(self, side, x, memory):
        for layer in range(LAYERS):
            name = f"{side}.{layer}"
            causal = side == "decoder"
            x = self.sublayer(f"{name}.self", x, lambda n, h: self.attention(n, h, None, causal))
            if side == "decoder":
                x = self.sublayer(f"{name}.cross", x, lambda n, h: self.attention(n, h, memory, False))
            x = self.sublayer(f"{name}.ffn", x, self.feed_forward)
        return x if self.post else self.norm(f"{side}.norm", x)

    def embed(self, side, ids):
        table = self.new("embedding.weight" if self.tied else f"{side}_embedding.weight", VOCAB, D)
        if self.learned:
            positions = self.new("positions.weight", MAXLEN, D)
        else:
            angle = torch.arange(MAXLEN, dtype=torch.float64)[:, None] * torch.exp(
                torch.arange(0, D, 2, dtype=torch.float64) * (-math.log(10000) / D))
            positions = torch.cat([angle.sin(), angle.cos()], 1).float().double()
        return table[ids] * math.sqrt(D) + positions[: len(ids)]

    def loss(self):
        smoothed = nll = 0
        for source, target in zip(SOURCE, TARGET):
            memory = self.stack("encoder", self.embed("source", source), None)
            hidden = self.stack("decoder", self.embed("target", [BOS] + target[:-1]), memory)
            table = self.new("embedding.weight" if self.tied else "projection.weight", VOCAB, D)
            logits = hidden @ table.T
            gold = torch.tensor(target)
            smoothed = smoothed + F.cross_entropy(logits, gold, label_smoothing=SMOOTHING, reduction="sum")
            nll = nll + F.cross_entropy(logits, gold, reduction="sum")
        return smoothed, nll


def main():
    out = {}
    for number, (name, options) in enumerate(VARIANTS.items()):
        torch.manual_seed(number)
        model = Model(**options)
        smoothed, nll = model.loss()
        smoothed.backward()
        out[f"{name}.loss"] = torch.tensor([smoothed.item(), nll.item()], dtype=torch.float64).float()
        for key, value in model.p.items():
            out[f"{name}.weight.{key}"] = value.detach().float().contiguous()
            out[f"{name}.gradient.{key}"] = value.grad.float().contiguous()
    save_file(out, sys.argv[1])


if __name__ == "__main__":
    main()
