"""A model of CTranslate2 without CTranslate2: reads model.bin and computes log-probabilities.

Written from its loader and its layers (src/models/model.cc, src/layers/transformer.cc), in plain
Python: for models of a few thousand parameters.
"""

import json
import math
import struct


class Ct2File:
    """model.bin: variables by name, as (type code, shape, values), and aliases."""

    TYPES = {0: ("f", 4), 1: ("b", 1), 2: ("h", 2)}

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        self.at = 0
        self.version = self.number("I")
        self.spec, self.revision = self.text(), self.number("I")
        self.variables = {}
        self.names = []
        for _ in range(self.number("I")):
            name = self.text()
            shape = [self.number("I") for _ in range(self.number("B"))]
            code, size = self.TYPES[self.number("B")]
            count = self.number("I") // size
            assert count == math.prod(shape), name
            values = struct.unpack_from(f"<{count}{code}", self.data, self.at)
            self.at += count * size
            self.variables[name] = (code, shape, values)
            self.names.append(name)
        self.aliases = dict((self.text(), self.text()) for _ in range(self.number("I")))
        assert self.at == len(self.data)

    def number(self, code):
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def text(self):
        size = self.number("H")
        text = self.data[self.at:self.at + size - 1].decode()
        assert self.data[self.at + size - 1] == 0
        self.at += size
        return text


def add(a, b):
    return [x + y for x, y in zip(a, b)]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def softmax(scores):
    top = max(scores)
    parts = [math.exp(s - top) for s in scores]
    total = sum(parts)
    return [p / total for p in parts]


def gelu_tanh(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {0: lambda x: max(0.0, x), 1: gelu_tanh, 2: lambda x: x / (1 + math.exp(-x)),
               3: lambda x: 0.5 * x * math.erfc(-x / math.sqrt(2))}


class Ct2Model:
    def __init__(self, folder):
        self.file = Ct2File(f"{folder}/model.bin")
        with open(f"{folder}/config.json") as file:
            self.config = json.load(file)
        self.cache = {}

    def find(self, name):
        return self.file.variables.get(self.file.aliases.get(name, name))

    def flag(self, name):
        return self.find(name)[2][0]

    def vector(self, name):
        found = self.find(name)
        return None if found is None else found[2]

    def rows(self, name):
        """A matrix as rows; int8 is divided by the scale of its row."""
        name = self.file.aliases.get(name, name)
        if name not in self.cache:
            code, (count, width), values = self.file.variables[name]
            rows = [values[r * width:(r + 1) * width] for r in range(count)]
            if code == "b":
                scales = self.file.variables[name + "_scale"][2]
                rows = [[v / s for v in row] for row, s in zip(rows, scales)]
            self.cache[name] = rows
        return self.cache[name]

    def linear(self, scope, x):
        out = [dot(row, x) for row in self.rows(scope + "/weight")]
        bias = self.vector(scope + "/bias")
        return out if bias is None else add(out, bias)

    def norm(self, scope, x):
        mean = sum(x) / len(x)
        variance = sum((v - mean)**2 for v in x) / len(x)
        scale = 1 / math.sqrt(variance + self.config["layer_norm_epsilon"])
        gamma, beta = self.vector(scope + "/gamma"), self.vector(scope + "/beta")
        return [(v - mean) * scale * g + b for v, g, b in zip(x, gamma, beta)]

    def sublayer(self, scope, pre, states, function):
        """Residual and norm around a function of all states."""
        inputs = [self.norm(scope + "/layer_norm", x) for x in states] if pre else states
        out = [add(x, y) for x, y in zip(states, function(inputs))]
        return out if pre else [self.norm(scope + "/layer_norm", x) for x in out]

    def attention(self, scope, heads, queries, memory=None):
        """Self-attention: linear_0 has queries, keys and values. Cross: linear_0, and linear_1."""
        width = len(queries[0])
        if memory is None:
            fused = [self.linear(scope + "/linear_0", x) for x in queries]
            q, k, v = ([row[i * width:(i + 1) * width] for row in fused] for i in range(3))
        else:
            q = [self.linear(scope + "/linear_0", x) for x in queries]
            fused = [self.linear(scope + "/linear_1", x) for x in memory]
            k, v = ([row[i * width:(i + 1) * width] for row in fused] for i in range(2))
        size = width // heads
        causal = memory is None and scope.startswith("decoder")
        out = []
        for t, query in enumerate(q):
            last = t + 1 if causal else len(k)
            joined = []
            for h in range(0, width, size):
                weights = softmax([dot(query[h:h + size], key[h:h + size]) / math.sqrt(size)
                                   for key in k[:last]])
                joined += [sum(w * value[h + i] for w, value in zip(weights, v))
                           for i in range(size)]
            out.append(self.linear(scope + ("/linear_1" if memory is None else "/linear_2"),
                                   joined))
        return out

    def feed_forward(self, scope, kind, states):
        act = ACTIVATIONS[kind]
        return [self.linear(scope + "/linear_1",
                            [act(v) for v in self.linear(scope + "/linear_0", x)]) for x in states]

    def stack(self, name, table, ids, memory=None):
        heads, pre = self.flag(f"{name}/num_heads"), self.flag(f"{name}/pre_norm")
        kind = self.flag(f"{name}/activation")
        assert self.flag(f"{name}/scale_embeddings") == 1
        positions = self.rows(f"{name}/position_encodings/encodings")
        table = self.rows(table)
        scale = math.sqrt(len(table[0]))
        states = [[scale * v + p for v, p in zip(table[i], positions[t])]
                  for t, i in enumerate(ids)]
        layer = 0
        while self.find(f"{name}/layer_{layer}/ffn/linear_0/weight"):
            scope = f"{name}/layer_{layer}"
            states = self.sublayer(f"{scope}/self_attention", pre, states,
                                   lambda x, s=scope: self.attention(f"{s}/self_attention", heads, x))
            if memory is not None:
                states = self.sublayer(
                    f"{scope}/attention", pre, states,
                    lambda x, s=scope: self.attention(f"{s}/attention", heads, x, memory))
            states = self.sublayer(f"{scope}/ffn", pre, states,
                                   lambda x, s=scope: self.feed_forward(f"{s}/ffn", kind, x))
            layer += 1
        if self.find(f"{name}/layer_norm/gamma"):
            states = [self.norm(f"{name}/layer_norm", x) for x in states]
        return states

    def score(self, source, start, target):
        """Log-probabilities of target ids, given source ids; both end with the end of sentence."""
        memory = self.stack("encoder", "encoder/embeddings_0/weight", source)
        states = self.stack("decoder", "decoder/embeddings/weight", [start, *target[:-1]], memory)
        return [math.log(softmax(self.linear("decoder/projection", x))[i])
                for x, i in zip(states, target)]
