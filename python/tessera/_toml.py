"""Values and experiments as TOML: numbers, text, lists and nested sections."""
import math
import os
import re

from ._error import Error

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def plain(value):
    """numpy scalars and arrays, tuples and paths as what they mean in a file."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):  # numpy, without importing it here
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def text(string):
    """A string on one line, every character that TOML does not allow there escaped."""
    def escape(c):
        if c in _SHORT:
            return _SHORT[c]
        if 0xD800 <= ord(c) <= 0xDFFF:
            raise Error(f"the text {string!r} is not Unicode and cannot be written as TOML")
        return f"\\u{ord(c):04X}" if ord(c) < 0x20 or ord(c) == 0x7F else c

    return '"' + "".join(map(escape, string)) + '"'


def number(value):
    """A float always has a point or an exponent: 1e-05, 2.0, inf."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(float(value))


def toml_value(value, key):
    """`value` as TOML; `key` is for the message where it cannot be."""
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not -2**63 <= value < 2**63:
            raise Error(f"{key}: {value} does not fit into 64 bits")
        return str(int(value))
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(item, key) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name(k, key)} = {toml_value(v, key)}"
                               for k, v in value.items()) + "}"
    what = "None" if value is None else f"a value of type {type(value).__name__}"
    raise Error(f"{key}: {what} has no meaning in TOML; leave the key out or give a number, "
                "a text, true or false, or a list")


def name(key, place=""):
    """A key, quoted where it must be."""
    if not isinstance(key, str):
        raise Error(f"{place or 'config'}: the key {key!r} is not text")
    return key if _BARE.fullmatch(key) else text(key)


def toml(config):
    """A dict as the text of a TOML file; a dict inside it is a section."""
    lines = []
    _section(config, "", lines)
    return "\n".join(lines) + "\n"


def _section(table, path, lines):
    inner = []
    for key, value in table.items():
        full = f"{path}.{name(key, path)}" if path else name(key, path)
        if isinstance(value, dict):
            inner.append((full, value))
        else:
            lines.append(f"{name(key)} = {toml_value(value, full)}")
    # Keys of a section must come before its sub-sections.
    for full, value in inner:
        lines += ["", f"[{full}]"]
        _section(value, full, lines)


def flatten(sets, path=""):
    """{"train": {"lr": 0.1}} and {"train.lr": 0.1} as pairs ("train.lr", 0.1)."""
    for key, value in sets.items():
        if not isinstance(key, str):
            raise Error(f"sets: the key {key!r} is not text")
        full = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            yield from flatten(value, full)
        else:
            yield full, value
