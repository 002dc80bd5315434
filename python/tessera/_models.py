"""The personal models of a run, by the client's name."""
import collections.abc
import functools
import pathlib
import urllib.parse

from ._error import Error
from ._safetensors import read_metadata, read_safetensors


_GLOBAL = "global"  # what `tessera predict --client` calls the model of the whole federation


class Models(collections.abc.Mapping):
    """Client name -> StateDict; a file is read when it is asked for, and each time anew.

    models["global"] is the model of the whole federation, where the method has one; it is no
    client's and so not among the names. Methods whose personal model is not a single network save
    none; then this is empty.
    """

    def __init__(self, folder, names_by_id):
        self._folder = pathlib.Path(folder)
        self._names_by_id = names_by_id

    def __getitem__(self, client):
        return read_safetensors(self.file(client))

    def __iter__(self):
        return iter(self._files)

    def __len__(self):
        return len(self._files)

    def __contains__(self, client):
        return self._find(client) is not None

    def get(self, client, default=None):
        return self[client] if client in self else default

    def __repr__(self):
        return f"<models of {len(self)} clients in {self._folder}>"

    def file(self, client):
        """Where the model of a client is."""
        found = self._find(client)
        if found is None:
            raise Error(f"{self._folder}: no model of client '{client}' ({self._known()})")
        return found

    def metadata(self, client):
        """What the file says of itself, without reading its numbers."""
        return read_metadata(self.file(client))

    def _find(self, client):
        shared = self._folder / f"{_GLOBAL}.safetensors"
        if str(client) == _GLOBAL and _GLOBAL not in self._files and shared.is_file():
            return shared
        return self._files.get(str(client))

    def _known(self):
        names = list(self._files)
        if not names:
            return "there are none: the run is not finished, or its method saves none"
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        return "there are: " + ", ".join(names[:8]) + more

    @functools.cached_property
    def _files(self):
        """{name: file}, in the order of the run's clients."""
        files = {}
        for path in sorted(self._folder.glob("client-*.safetensors")):
            name = self._name(path)
            if name in files:
                raise Error(f"{path}: both it and {files[name].name} say they are the model of "
                            f"client '{name}'")
            files[name] = path
        order = {name: place for place, name in enumerate(self._names_by_id.values())}
        return dict(sorted(files.items(), key=lambda item: order.get(item[0], len(order))))

    def _name(self, path):
        metadata = read_metadata(path)
        if "client_name" in metadata:
            return metadata["client_name"]
        # Files before version 0.2.0 know the client's number alone.
        number = metadata.get("client", "")
        if number.isdecimal() and int(number) in self._names_by_id:
            return self._names_by_id[int(number)]
        return urllib.parse.unquote(path.stem[len("client-"):])
