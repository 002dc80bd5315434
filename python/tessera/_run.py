"""A run directory as Python values; docs/formats.md describes the files."""
import functools
import json
import pathlib
from typing import NamedTuple

import numpy as np

from ._error import Error
from ._history import History
from ._models import Models

try:
    import tomllib
except ImportError:  # before Python 3.11
    tomllib = None


# Columns that are relied on: i whole numbers, f numbers, U text, O bytes.
_CLIENT = {"id": "i", "name": "U", "newcomer": "i"}
_METRICS = {"client": "i", "n": "i", "correct": "i"}
_EXHIBIT = {"round": "i", "name": "U", "kind": "U", "title": "U", "rows": "U", "columns": "U",
            "shape": "U", "value": "O"}


class Exhibit(NamedTuple):
    """Numbers of the method that people look at (attention, similarity, embeddings)."""
    round: int
    name: str
    kind: str  # matrix, graph, points or images
    title: str
    rows: list  # a name for each of value's rows
    columns: list  # and columns
    value: np.ndarray  # float64; NaN is "no value"


class Run:
    """What a run measured and learned. Read when asked for, so a running one can be watched."""

    def __init__(self, path):
        self.path = pathlib.Path(path).absolute()  # also after os.chdir
        self._history = History(self.path / "history.sqlite")
        self.models = Models(self.path / "models", self._names_by_id)

    def __repr__(self):
        meta = self.meta
        return (f"<tessera.Run {self.path}: {meta['method']}, {len(self.names)} clients, "
                f"{'finished' if self.finished else 'not finished'}>")

    @property
    def finished(self):
        return (self.path / "summary.json").is_file()

    @property
    def summary(self):
        """summary.json as a dict; an Error while the run is not finished."""
        if not self.finished:
            raise Error(f"{self.path}: the run is not finished, so there is no summary; continue "
                        "it with resume=True")
        return read_json(self.path / "summary.json", dict)

    @property
    def meta(self):
        """Facts of the run by name, as text: method, dataset, model, seed, headline, …"""
        return dict(self._history.meta)

    @property
    def headline(self):
        """The view that tables lead with, "pre" or "post"."""
        return self._history.meta.get("headline", "post")

    @property
    def class_names(self):
        return _json_list(self._history.meta.get("class_names", "[]"), "class_names", self.path)

    @property
    def config_text(self):
        """The experiment with every default written out, as TOML."""
        try:
            return (self.path / "config.toml").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Error(f"{self.path}/config.toml: cannot be read ({error})") from error

    @property
    def config(self):
        """The same as a dict; before Python 3.11, which has no TOML parser, as text."""
        if tomllib is None:
            return self.config_text
        try:
            return tomllib.loads(self.config_text)
        except tomllib.TOMLDecodeError as error:
            raise Error(f"{self.path}/config.toml: not valid TOML: {error}") from error

    @property
    def tables(self):
        """Names of the tables of the history."""
        return self._history.tables()

    def table(self, name):
        """Any table of the history, column by column; clients by name."""
        return self._named(self._history.table(name))

    @property
    def rounds(self):
        """{column: array}, a value for every round: loss, bytes_up, wall_seconds, …"""
        return self._history.table("rounds", "ORDER BY round")

    @property
    def clients(self):
        """{column: array}, a value for every client: name, newcomer, train, val, test (samples)."""
        out = self._history.table("clients", "ORDER BY id", need=_CLIENT)
        del out["id"]
        out["newcomer"] = out["newcomer"].astype(bool)
        return out

    @property
    def names(self):
        """The clients' names, in the order of `clients`."""
        return list(self._names_by_id.values())

    def evals(self, who="clients", view=None, part="test"):
        """{column: array}, a value for every evaluation: round, mean, std, worst10, …

        who: "clients" or "newcomers"; view: "pre", "post", "global", or None for the headline;
        part: "test" or "val".
        """
        view = view or self.headline
        rows = self._history.table(
            "evals", "WHERE who = ? AND view = ? AND part = ? ORDER BY round", (who, view, part))
        if not len(rows["round"]):
            self._explain_none("evals", ("who", "view", "part"), (who, view, part))
        return {key: value for key, value in rows.items() if key not in ("who", "view", "part")}

    def client_metrics(self, view=None, part="test", round=None, who="clients"):
        """{column: array}, a value for every client: client (its name), n, correct, accuracy, …

        round: of which evaluation; None for the last one. view, part and who as in evals().
        """
        view = view or self.headline
        known = self._rounds_of(view, part)
        if not known:
            self._explain_none("client_evals", ("view", "part"), (view, part))
        round = round if round is not None or not known else known[-1]
        if known and round not in known:
            raise Error(f"{self.path}: round {round} was not evaluated (evaluated were: "
                        f"{', '.join(map(str, known))})")
        if who not in ("clients", "newcomers"):
            raise Error(f"who = '{who}': must be 'clients' or 'newcomers'")
        rows = self._history.table(
            "client_evals", "WHERE round = ? AND view = ? AND part = ? AND client IN "
            "(SELECT id FROM clients WHERE newcomer = ?) ORDER BY client",
            (round, view, part, int(who == "newcomers")), need=_METRICS)
        rows = self._named({"client": rows.pop("client"), **rows})
        n = rows["n"].astype(float)
        rows["accuracy"] = np.divide(rows["correct"], n, out=np.full(len(n), np.nan), where=n > 0)
        return {key: value for key, value in rows.items() if key not in ("round", "view", "part")}

    @property
    def exhibits(self):
        """{name: [Exhibit of every evaluation]}; exhibits[name][-1] is the last."""
        rows = self._history.table("exhibits", "ORDER BY name, round", need=_EXHIBIT)
        out = {}
        for row in zip(*(rows[key] for key in _EXHIBIT)):
            exhibit = self._exhibit(*row)
            out.setdefault(exhibit.name, []).append(exhibit)
        return out

    @functools.cached_property
    def _names_by_id(self):
        rows = self._history.table("clients", "ORDER BY id", need=_CLIENT)
        return dict(zip(rows["id"].tolist(), rows["name"].tolist()))

    def _named(self, rows):
        """Ids stay inside: people know clients by name."""
        if "client" in rows:
            rows["client"] = np.array([self._names_by_id.get(i, str(i))
                                       for i in rows["client"].tolist()], dtype=str)
        return rows

    def _rounds_of(self, view, part):
        rows = self._history.distinct("client_evals", ["round"], "WHERE view = ? AND part = ?",
                                      (view, part))
        return [round for round, in rows]

    def _explain_none(self, table, keys, asked):
        """An Error that names what there is; nothing while there is no evaluation at all."""
        there = ["/".join(map(str, row)) for row in self._history.distinct(table, keys)]
        if there:
            raise Error(f"{self.path}: no evaluations of " +
                        ", ".join(f"{key} = '{value}'" for key, value in zip(keys, asked)) +
                        f" ({'/'.join(keys)}: {', '.join(there)})")

    def _exhibit(self, round, name, kind, title, rows, columns, shape, value):
        place = f"{self.path}/history.sqlite: exhibit '{name}' of round {round}"
        sizes = _json_list(shape, "shape", place)
        if not sizes or not all(isinstance(n, int) and n > 0 for n in sizes) or not isinstance(
                value, bytes):
            raise Error(f"{place}: its shape is damaged")
        count = 1
        for n in sizes:
            count *= n
        if count * 8 != len(value):
            raise Error(f"{place}: {len(value)} bytes do not fill the shape {sizes}")
        numbers = np.frombuffer(value, "<f8").astype(np.float64).reshape(sizes)
        given = [_json_list(rows, "rows", place), _json_list(columns, "columns", place)]
        axes = [given[axis] or self._axis(kind, axis, sizes) for axis in (0, 1)]
        return Exhibit(int(round), str(name), str(kind), str(title), *axes, numbers)

    def _axis(self, kind, axis, sizes):
        """Where an exhibit names nothing: the clients if there are as many, else 1, 2, …"""
        if axis >= len(sizes):
            return []
        count = len(self.names) - int(self.clients["newcomer"].sum())
        may = axis == 0 or kind not in ("points", "images")
        if may and sizes[axis] in (count, len(self.names)):
            return self.names[:sizes[axis]]
        return [str(i + 1) for i in range(sizes[axis])]


def load(run_dir):
    """The run in a directory, finished or not; an Error if there is none."""
    path = pathlib.Path(run_dir)
    if not path.is_dir():
        raise Error(f"{path}: there is no such directory")
    if (path / "table.json").is_file() and not (path / "history.sqlite").is_file():
        raise Error(f"{path}: a comparison, not a run; use tessera.load_comparison()")
    return Run(path)


def read_json(path, kind):
    """The file's value, which must be of this type."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Error(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(value, kind):
        raise Error(f"{path}: a JSON {'object' if kind is dict else 'array'} is expected")
    return value


def _json_list(text, what, place):
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise Error(f"{place}: its {what} cannot be read ({error})") from error
    if not isinstance(value, list):
        raise Error(f"{place}: its {what} is not a list")
    return value
