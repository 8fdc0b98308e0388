"""Reads a shard by its documented layout alone, so that the document is tested, too."""

import struct
from array import array


def read_pairs(path):
    """All (source ids, target ids) of a shard, end of sentence included."""
    with open(path, "rb") as file:
        data = file.read()
    magic, version, width, pairs, sources, targets = struct.unpack_from("<8sIIQQQ", data)
    assert magic == b"REIGSHRD" and version == 1, (magic, version)
    at = 64
    ends = []
    for _ in range(2):
        ends.append(array("I", data[at:at + 4 * pairs]))
        at += 4 * pairs
    kind = {2: "H", 4: "I"}[width]
    source = array(kind, data[at:at + width * sources])
    at += width * sources
    target = array(kind, data[at:at + width * targets])
    assert at + width * targets == len(data)

    def cut(tokens, stops):
        begin = 0
        for stop in stops:
            yield tokens[begin:stop].tolist()
            begin = stop

    return list(zip(cut(source, ends[0]), cut(target, ends[1])))
