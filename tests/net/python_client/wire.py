"""Messages as bytes: safetensors, envelopes and checksums (docs/protocol.md, "Fields")."""
import hashlib
import json
import struct

import numpy

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1",
         "BOOL": "?"}


class Damaged(ValueError):
    """Bytes that are no message."""


def encode(tensors, metadata):
    """The bytes of named arrays and texts."""
    header, data = {"__metadata__": metadata}, b""
    for name, array in tensors.items():
        kind = next(key for key, dtype in TYPES.items() if numpy.dtype(dtype) == array.dtype)
        begin = len(data)
        data += numpy.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def decode(message):
    """(arrays by name, metadata); Damaged says what is wrong."""
    if len(message) < 8:
        raise Damaged("too short for a header")
    length, = struct.unpack("<Q", message[:8])
    if length > len(message) - 8:
        raise Damaged("cut off in its header")
    header = json.loads(message[8:8 + length], object_pairs_hook=once)
    data, metadata, tensors, at = message[8 + length:], header.pop("__metadata__", {}), {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        dtype = numpy.dtype(TYPES[entry["dtype"]])
        if begin != at or end > len(data) or end - begin != dtype.itemsize * int(numpy.prod(entry["shape"], dtype=object)):
            raise Damaged(f"'{name}' lies at {begin} … {end}, expected at {at}")
        tensors[name] = numpy.frombuffer(data[begin:end], dtype).reshape(entry["shape"])
        at = end
    if at != len(data):
        raise Damaged("bytes at the end belong to nothing")
    return tensors, metadata


def once(pairs):
    """An object whose keys are all different."""
    out = dict(pairs)
    if len(out) != len(pairs):
        raise Damaged("a key is there twice")
    return out


def below(prefix, tensors):
    """Those whose names begin with the prefix, without it."""
    return {name[len(prefix):]: array for name, array in tensors.items() if name.startswith(prefix)}


def reply(task, tensors=None, numbers=(0.0, 0.0), **more):
    """The bytes that answer a task: its envelope, the numbers that every reply has, and what its kind adds."""
    metadata = {key: task[key] for key in ("client", "kind", "round", "attempt")} | more
    return encode({"numbers": numpy.array([numbers], "<f8")} | (tensors or {}), metadata)


def refusal(task, message, error="invalid"):
    """The reply of a client that cannot do a task."""
    return reply(task, error=error, message=message)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def make_crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = make_crc_table()


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ CRC_TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF
