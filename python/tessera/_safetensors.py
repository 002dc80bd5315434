"""Reads safetensors files with numpy alone.

The header decides nothing before it is checked: its length against the file, every tensor's place
against its shape, all places together against the data. A damaged file gives one Error.
"""
import hashlib
import json
import os

import numpy as np

from ._error import Error

_DTYPES = {"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4",
           "I32": "<i4", "U64": "<u8", "I64": "<i8", "F16": "<f2", "BF16": "<u2", "F32": "<f4",
           "F64": "<f8"}
_LONGEST_HEADER = 100_000_000  # bytes, as in the reference implementation
_MOST_DIMENSIONS = 32  # of numpy


class StateDict(dict):
    """Tensors by name, in the order of the file; `metadata` is the file's, text by text.

    `{k: torch.from_numpy(v) for k, v in state.items()}` goes into load_state_dict. bfloat16, which
    numpy does not have, becomes float32 without loss.
    """

    def __init__(self, tensors, metadata):
        super().__init__(tensors)
        self.metadata = metadata

    def prepare(self, x):
        """Raw samples [n, …] as the network takes them: float32, scaled as in training."""
        x = np.asarray(x)
        if x.dtype == np.uint8 and x.ndim == 4 and self._described("input").get("pixels"):
            x = x / 255
        scaling = self._described("scaling")
        mean, scale = (np.array(scaling.get(key, []), np.float64) for key in ("mean", "scale"))
        if mean.size:  # a constant for every channel of pictures, else for every column
            shape = (-1, 1, 1) if x.ndim == 4 else (-1,)
            if x.ndim < 2 or mean.shape != scale.shape or x.shape[-len(shape)] != mean.size:
                raise Error(f"samples of shape {list(x.shape[1:])} do not fit the scaling of "
                            f"{mean.size} values that the model was trained with")
            x = (x - mean.reshape(shape)) * scale.reshape(shape)
        return np.ascontiguousarray(x, dtype=np.float32)

    def _described(self, key):
        try:
            value = json.loads(self.metadata.get(key, "{}"))
        except (ValueError, RecursionError) as error:
            raise Error(f"the model's metadata '{key}' is not valid JSON ({error})") from error
        if not isinstance(value, dict):
            raise Error(f"the model's metadata '{key}' is not a JSON object")
        return value


class _Entry:
    def __init__(self, name, dtype, shape, begin, end):
        self.name, self.dtype, self.shape, self.begin, self.end = name, dtype, shape, begin, end


def read_metadata(path):
    """The texts of the header; no tensor is read."""
    with _open(path) as file:
        return _header(file, path)[0]


def read_safetensors(path):
    """The whole file as a StateDict. The digest of files that Tessera wrote is checked."""
    with _open(path) as file:
        metadata, entries, start = _header(file, path)
        raw = {}
        for entry in entries:
            file.seek(start + entry.begin)
            data = file.read(entry.end - entry.begin)
            if len(data) != entry.end - entry.begin:
                raise Error(f"{path}: became shorter while it was read")
            raw[entry.name] = data
    _check_digest(path, metadata, entries, raw)
    return StateDict({e.name: _array(path, e, raw[e.name]) for e in entries}, metadata)


def _open(path):
    try:
        return open(path, "rb")
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from error


def _header(file, path):
    """(metadata, entries in order of their data, where the data begin)."""
    size = os.fstat(file.fileno()).st_size
    if size < 8:
        raise Error(f"{path}: {size} bytes are too few for a safetensors file; it was cut off or "
                    "is something else")
    length = int.from_bytes(file.read(8), "little")
    if length > min(size - 8, _LONGEST_HEADER):
        raise Error(f"{path}: its header claims {length} bytes, the file has {size}; it was cut "
                    "off or is not a safetensors file")
    try:
        header = json.loads(file.read(length).decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise Error(f"{path}: its header is not valid JSON ({error})") from error
    if not isinstance(header, dict):
        raise Error(f"{path}: its header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise Error(f"{path}: its metadata are not texts by name")
    entries = sorted((_entry(path, name, value) for name, value in header.items()),
                     key=lambda e: (e.begin, e.end))
    _check_tiling(path, entries, size - 8 - length)
    return metadata, entries, 8 + length


def _once(pairs):
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a name occurs twice")
    return out


def _is_size(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _entry(path, name, value):
    value = value if isinstance(value, dict) else {}
    dtype, shape, place = (value.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise Error(f"{path}: tensor '{name}' has the unknown dtype {dtype!r}")
    if not isinstance(shape, list) or not all(map(_is_size, shape)):
        raise Error(f"{path}: tensor '{name}' has a damaged shape")
    if len(shape) > _MOST_DIMENSIONS:
        raise Error(f"{path}: tensor '{name}' has {len(shape)} dimensions; numpy knows "
                    f"{_MOST_DIMENSIONS}")
    if not isinstance(place, list) or len(place) != 2 or not all(map(_is_size, place)):
        raise Error(f"{path}: tensor '{name}' has damaged data_offsets")
    size = np.dtype(_DTYPES[dtype]).itemsize
    for n in shape:
        size *= n
    if place[1] - place[0] != size:
        raise Error(f"{path}: tensor '{name}' of shape {shape} needs {size} bytes, its "
                    f"data_offsets give {place[1] - place[0]}")
    return _Entry(name, dtype, shape, *place)


def _check_tiling(path, entries, data):
    at = 0
    for entry in entries:
        if entry.begin != at:
            raise Error(f"{path}: the data of tensor '{entry.name}' begin at {entry.begin}, not "
                        f"at {at}; the file is damaged")
        at = entry.end
    if at != data:
        raise Error(f"{path}: its tensors need {at} bytes, the file holds {data}; it was cut off "
                    "or is damaged")


def _check_digest(path, metadata, entries, raw):
    """docs/formats.md, "safetensors files of ours". Files of other programs have none."""
    expected = metadata.get("tessera_sha256")
    if expected is None:
        return
    digest = hashlib.sha256()

    def add(text):
        part = text.encode("utf-8")
        digest.update(b"%d " % len(part) + part)

    def in_order(texts):
        return sorted(texts, key=lambda text: text.encode("utf-8"))

    try:
        for key in in_order(metadata.keys() - {"tessera_sha256"}):
            add(key)
            add(metadata[key])
        by_name = {entry.name: entry for entry in entries}
        for name in in_order(by_name):
            add(name)
            add(by_name[name].dtype)
            add(",".join(map(str, by_name[name].shape)))
            digest.update(raw[name])
    except UnicodeEncodeError as error:
        raise Error(f"{path}: its header holds text that is not Unicode") from error
    if digest.hexdigest() != expected:
        raise Error(f"{path}: its contents do not match its tessera_sha256; the file is damaged")


def _array(path, entry, data):
    values = np.frombuffer(data, dtype=_DTYPES[entry.dtype])
    if entry.dtype == "BOOL" and (np.frombuffer(data, np.uint8) > 1).any():
        raise Error(f"{path}: tensor '{entry.name}' holds truth values other than 0 and 1")
    if entry.dtype == "BF16":  # the upper half of a float32
        values = (values.astype(np.uint32) << 16).view(np.float32)
    # A copy in the machine's byte order: torch.from_numpy wants memory that may be written.
    return values.astype(values.dtype.newbyteorder("="), copy=True).reshape(entry.shape)
