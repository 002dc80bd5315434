"""history.sqlite as arrays.

Columns are what the file has, so metrics of a newer program appear by themselves.
"""
import contextlib
import pathlib
import sqlite3

import numpy as np

from ._error import Error


class History:
    """The tables of one file. It is opened for every question, so it may still be growing."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        if not self.path.is_file():
            raise Error(f"{self.path.parent}: not a run of Tessera (there is no history.sqlite); "
                        "give the directory that `tessera run --out` wrote")
        self.meta = dict(self._read("SELECT key, value FROM meta")[1])
        if "format" not in self.meta or "method" not in self.meta:
            raise Error(f"{self.path}: not a history of Tessera")

    def tables(self):
        rows = self._read("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")[1]
        return [name for name, in rows]

    def table(self, name, where="", values=(), need=()):
        """{column: array} of the rows that fit.

        `need`: {column: numpy's letters of what it may hold} for columns that must be there.
        """
        if name not in self.tables():
            raise Error(f"{self.path}: there is no table '{name}' (there are: "
                        f"{', '.join(self.tables())})")
        kinds = {row[1]: row[2] for row in self._read(f'PRAGMA table_info("{name}")')[1]}
        columns, rows = self._read(f'SELECT * FROM "{name}" {where}', values)
        out = {column: _array([row[i] for row in rows], kinds.get(column, ""))
               for i, column in enumerate(columns)}
        for column in need:
            if column not in out or out[column].dtype.kind not in need[column]:
                what = "no column" if column not in out else "something else than expected in"
                raise Error(f"{self.path}: table '{name}' has {what} '{column}'; it is damaged or "
                            "of another version")
        return out

    def distinct(self, name, columns, where="", values=()):
        """Every combination of values that occurs, sorted."""
        picked = ", ".join(columns)
        return self._read(f'SELECT DISTINCT {picked} FROM "{name}" {where} ORDER BY {picked}',
                          values)[1]

    def _read(self, query, values=()):
        """(column names, rows)."""
        try:
            with contextlib.closing(sqlite3.connect(
                    self.path.absolute().as_uri() + "?mode=ro", uri=True)) as database:
                database.execute("PRAGMA trusted_schema = OFF")
                cursor = database.execute(query, values)
                return [column[0] for column in cursor.description or ()], cursor.fetchall()
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            raise Error(f"{self.path}: cannot be read as a history of Tessera ({error})") from error


def _array(values, kind):
    """Whole numbers as int64, numbers as float64. NULL is NaN, and makes whole numbers float64.

    Anything else (blobs, text that is missing) stays as Python objects.
    """
    if kind in ("INTEGER", "REAL") and all(
            v is None or isinstance(v, (int, float)) for v in values):
        if kind == "INTEGER" and all(isinstance(v, int) for v in values):
            return np.array(values, dtype=np.int64)
        return np.array([np.nan if v is None else v for v in values], dtype=np.float64)
    if kind == "TEXT" and all(isinstance(v, str) for v in values):
        return np.array(values, dtype=str)
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
