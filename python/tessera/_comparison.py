"""What `tessera compare` wrote: a table, and a run for each of its cells."""
import collections.abc
import pathlib

from ._error import Error
from ._run import load, read_json


class Runs(collections.abc.Mapping):
    """Name of a run ("fedavg-s1") -> Run, opened when it is asked for."""

    def __init__(self, folder, names):
        self._folder, self._names = folder, dict.fromkeys(names)

    def __getitem__(self, name):
        if name not in self._names:
            raise Error(f"{self._folder}: no run '{name}' (there are: {', '.join(self._names)})")
        return load(self._folder / name)

    def __contains__(self, name):
        return name in self._names

    def __iter__(self):
        return iter(self._names)

    def __len__(self):
        return len(self._names)

    def get(self, name, default=None):
        return self[name] if name in self._names else default

    def __repr__(self):
        return f"<runs {', '.join(self._names)} in {self._folder}>"


class Comparison:
    """Methods side by side.

    `table` is a list with a dict for every row, as in table.json: method, accuracy_mean, runs, …
    A row with `failed` has no numbers but that reason. `runs` opens the runs by name.
    """

    def __init__(self, path):
        self.path = pathlib.Path(path).absolute()  # also after os.chdir
        file = self.path / "table.json"
        if not file.is_file():
            raise Error(f"{self.path}: not a comparison of Tessera (there is no table.json)")
        self.table = read_json(file, list)
        for row in self.table:
            names = row.get("runs") if isinstance(row, dict) else None
            if not isinstance(names, list) or not isinstance(row.get("method"), str):
                raise Error(f"{file}: a row lacks 'method' or 'runs'")
            if not all(isinstance(name, str) and pathlib.PurePath(name).name == name != ".."
                       for name in names):
                raise Error(f"{file}: 'runs' must hold names of directories beside it")
        self.runs = Runs(self.path, [name for row in self.table for name in row["runs"]])

    def row(self, method):
        """The row of a method, as the table calls it: "fedavg", "fedavg (post)"."""
        for row in self.table:
            if row["method"] == method:
                return row
        raise Error(f"{self.path}: no row '{method}' (there are: "
                    f"{', '.join(row['method'] for row in self.table)})")

    def __repr__(self):
        return f"<tessera.Comparison {self.path}: {', '.join(r['method'] for r in self.table)}>"


def load_comparison(directory):
    """The comparison in a directory; an Error if there is none."""
    return Comparison(directory)
