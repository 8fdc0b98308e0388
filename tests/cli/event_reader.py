"""Reads TensorBoard's event files without TensorBoard: framing and protobuf's wire format, field by field."""

import glob
import struct


def records(path):
    """The payloads of a TFRecord file."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        yield data[at + 12:at + 12 + length]
        at += 12 + length + 4


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of a message: whole numbers, or bytes of fixed size or length."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                assert kind == 2, f"wire type {kind}"
                size, at = _varint(data, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def message(data):
    """Field number to the list of its values."""
    found = {}
    for number, value in fields(data):
        found.setdefault(number, []).append(value)
    return found


def values(run):
    """(step, tag, scalar or None, message of the value) of all summaries of a run, in order."""
    for path in sorted(glob.glob(f"{run}/tensorboard/events.out.tfevents.*")):
        for payload in records(path):
            event = message(payload)
            for summary in event.get(5, []):
                for value in message(summary).get(1, []):
                    value = message(value)
                    scalar = struct.unpack("<f", value[2][0])[0] if 2 in value else None
                    yield event.get(2, [0])[0], value[1][0].decode(), scalar, value
