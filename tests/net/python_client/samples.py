"""From a client's file to its samples (docs/protocol.md, "From a file to samples" and what follows)."""
import csv
import io
import math
import re

import numpy

import wire
from chance import Stream, derive


class Unfit(Exception):
    """Why this client cannot take part, in one sentence."""


def names_in(text):
    """The pieces of a list between commas; those in double quotes are taken as they are."""
    pieces, quoted = [""] if text else [], False
    for character in text:
        quoted ^= character == '"'
        if character == "," and not quoted:
            pieces.append("")
        else:
            pieces[-1] += character
    pieces = [piece.strip() for piece in pieces]
    return [piece[1:-1].replace('""', '"') if piece.startswith('"') else piece for piece in pieces]


def declared(text):
    """Categories by column: "sex: f | m; ward: ICU | ER"."""
    out = {}
    for part in text.split(";") if text.strip() else []:
        name, _, texts = part.partition(":")
        out[name.strip()] = [category.strip() for category in texts.split("|")]
    return out


def number(text):
    """A finite number, or None for any other text."""
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


class Samples:
    """x float32 [n, …], y int64 [n], which rows are whose part, and what enrolment has to know."""

    def __init__(self, path, options, name):
        self.classes = names_in(options["class_names"])
        self.columns, self.kept = [], []
        self.train, self.val, self.test = [], [], []
        with open(path, "rb") as file:
            content = file.read()
        if str(path).lower().endswith(".csv"):
            labels = self.read_table(content.decode(), options, name)
        else:
            labels = self.read_arrays(content, options, name)
        self.y = self.classes_of(labels)
        self.split(options, derive_all(derive(options["seed"], 5), name.encode()))
        self.scale(options)
        self.digest = wire.sha256(name.encode() + b"\n" + content)

    def read_table(self, text, options, name):
        header, *rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
        categories, ignored, owner = declared(options["categories"]), names_in(options["ignore"]), options["client"]
        inputs = names_in(options["columns"]) or [
            name for name in header if name not in (options["label"], owner) and name not in ignored]
        for wanted in [options["label"], *names_in(options["categorical"]), *categories, *inputs]:
            if wanted not in header:
                raise Unfit(f"the table has no column '{wanted}'")
        for column in names_in(options["categorical"]):
            if column not in categories:
                raise Unfit(f"the categories of column '{column}' are not declared")
        mine = [row for row in rows if not owner or row[header.index(owner)] == name]
        parts = []
        for column in inputs:
            cells = [row[header.index(column)] for row in mine]
            if any(cell in ("", "NA") for cell in cells):
                raise Unfit(f"column '{column}' lacks a cell")
            if column in categories:
                known = categories[column]
                if not set(cells) <= set(known):
                    raise Unfit(f"column '{column}' holds a text that is not declared")
                parts += [[float(cell == category) for cell in cells] for category in known]
                self.columns += [f"{column}={category}" for category in known]
                self.kept += [True] * len(known)
            else:
                values = [number(cell) for cell in cells]
                if None in values:
                    raise Unfit(f"column '{column}' holds text; it is not among the categorical ones")
                parts.append(values)
                self.columns.append(column)
                self.kept.append(False)
        self.x = numpy.array(parts, numpy.float64).T.astype(numpy.float32)
        self.train = list(range(len(mine)))
        place = header.index(options["label"])
        return [row[place] for row in mine]

    def read_arrays(self, content, options, name):
        with numpy.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = dict(file)
        if "x" in arrays:
            parts, rows = [""], slice(None)
            if options["client"]:
                rows = numpy.array([str(owner) == name for owner in arrays[options["client"]]])
        else:
            parts, rows = [part for part in ("_train", "_val", "_test") if "x" + part in arrays], slice(None)
        pieces, labels = [], []
        for part in parts:
            x, y = arrays["x" + part][rows], arrays["y" + part][rows].reshape(-1)
            getattr(self, part[1:] or "train").extend(range(len(labels), len(labels) + len(y)))
            pictures = x.dtype == numpy.uint8 and x.ndim == 4
            pieces.append((x / 255.0 if pictures else x).astype(numpy.float32))
            labels += [str(label) for label in y.tolist()]
        self.x = numpy.concatenate(pieces)
        return labels

    def classes_of(self, labels):
        whole = [value is not None and value == int(value) for value in map(number, labels)]
        texts = [str(int(number(label))) if is_whole else label for label, is_whole in zip(labels, whole)]
        if len(set(texts)) < 2:
            raise Unfit("every label is the same, so there is nothing to tell apart")
        if all(text in self.classes for text in texts):
            return numpy.array([self.classes.index(text) for text in texts])
        if all(whole) and all(0 <= int(text) < len(self.classes) for text in texts):
            return numpy.array([int(text) for text in texts])
        raise Unfit("a label is not in class_names")

    def split(self, options, key):
        if options["order"] != "random":
            raise Unfit(f"order = \"{options['order']}\" is not implemented here")
        if not self.test:
            self.test = self.taken(options["test"], 1, derive(key, 1))
        if not self.val and options["val"] > 0 and len(self.train) > 1:
            self.val = self.taken(options["val"], 0, derive(key, 2))
        self.train = Stream(derive(key, 3)).shuffled(self.train)
        if options["samples"] > 0:
            self.train = self.train[:options["samples"]]

    def taken(self, share, least, key):
        """Moves random rows of each class out of the training rows."""
        by_class = [[row for row in self.train if self.y[row] == c] for c in range(len(self.classes))]
        sizes = [len(rows) for rows in by_class]
        counts = [max(0, min(n - 1, math.floor(share * n + 1e-9))) for n in sizes]
        lacking = [(-round(1e9 * (share * n - count)), c) for c, (n, count) in enumerate(zip(sizes, counts))]
        wanted = min(sum(max(0, n - 1) for n in sizes), math.floor(share * sum(sizes) + 0.5 + 1e-9))
        while sum(counts) < wanted:
            for _, c in sorted(lacking):
                if sum(counts) < wanted and counts[c] + 1 < sizes[c]:
                    counts[c] += 1
        if sum(counts) < least:
            counts[sizes.index(max(sizes))] = 1
        out, rest = [], []
        for c, rows in enumerate(by_class):
            order = Stream(derive(key, c)).shuffled(rows)
            out, rest = out + order[:counts[c]], rest + order[counts[c]:]
        self.train = sorted(rest)
        return sorted(out)

    def scale(self, options):
        by = options["standardize"]
        if by == "none" or (by == "auto" and options["set"] == "npz"):
            return
        if by != "client":
            raise Unfit(f"standardize = \"{by}\" needs everybody's rows")
        axes = (0, 2, 3) if self.x.ndim == 4 else tuple(range(self.x.ndim - 1))
        rows = self.x[self.train].astype(numpy.float64)
        mean, square = rows.mean(axes, keepdims=True), (rows**2).mean(axes, keepdims=True)
        variance = square - mean**2
        varies = variance > 1e-14 * square
        scale = numpy.where(varies, 1 / numpy.sqrt(numpy.where(varies, variance, 1)), 0)
        if self.kept:
            mean, scale = numpy.where(self.kept, 0, mean), numpy.where(self.kept, 1, scale)
        mean, scale = mean.astype(numpy.float32), scale.astype(numpy.float32)
        self.x = ((self.x.astype(numpy.float64) - mean) * scale.astype(numpy.float64)).astype(numpy.float32)

    def part(self, rows):
        return self.x[rows].reshape(len(rows), -1), self.y[rows]


def derive_all(key, parts):
    for part in parts:
        key = derive(key, part)
    return key
