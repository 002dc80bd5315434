"""Reads what `tessera run --set debug.dump=DIR` writes (docs/formats.md)."""
import json
import struct

import numpy as np
import torch

from network import Network

DTYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64}


class Mismatch(Exception):
    """The dump is not what the specification leads to."""


def read_safetensors(path):
    """Name → tensor. Eight bytes with the header's length, a JSON header, then the data."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    out = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        values = np.frombuffer(data[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
        out[name] = torch.from_numpy(values.copy())
    return out


class Batches:
    """What one client took in one round, in order of use; reading it to the end is the check that
    the program took no batch more or less than the specification says."""

    def __init__(self, client, batch, positions, where):
        self.client, self.batch, self.positions, self.where = client, batch, positions, where
        self.used = 0

    def left(self):
        return len(self.positions) - self.used

    def next(self):
        if self.left() == 0:
            raise Mismatch(f"{self.where}: a batch more is needed than was taken")
        self.used += 1
        return self.client.rows(self.positions[self.used - 1])

    def check_disjoint(self, count):
        """The next `count` batches share no sample, unless the client has too few for that."""
        ahead = np.concatenate(self.positions[self.used:self.used + count])
        if self.client.size >= count * self.batch and len(np.unique(ahead)) != len(ahead):
            raise Mismatch(f"{self.where}: batches of one step overlap")

    def epochs(self, count):
        """Batches of `count` passes; each pass must visit every sample once."""
        for _ in range(count):
            steps = -(-self.client.size // self.batch)
            seen = np.sort(np.concatenate(self.positions[self.used:self.used + steps] or [[]]))
            if not np.array_equal(seen, np.arange(self.client.size)):
                raise Mismatch(f"{self.where}: an epoch does not visit every sample once")
            for _ in range(steps):
                yield self.next()

    def read_all(self, size):
        """All of `size` rows in order, for something else than training."""
        if self.left() == 0 or list(self.positions[self.used]) != list(range(size)):
            raise Mismatch(f"{self.where}: {size} rows should have been read in order")
        self.used += 1

    def finish(self):
        if self.left() > 0:
            raise Mismatch(f"{self.where}: {self.left()} batches were taken but not needed")


class Client:
    def __init__(self, path):
        arrays = np.load(path)
        self.x = torch.from_numpy(arrays["x_train"]).double()
        self.y = torch.from_numpy(arrays["y_train"])
        self.size = len(self.y)

    def rows(self, positions):
        return self.x[positions], self.y[positions]

    def all(self):
        return self.x, self.y


class Dump:
    """A run of the program. Numbers are float64: the reference's own rounding does not matter.
    `network` is the reference's, where the name does not say it."""

    def __init__(self, folder, models, network=None):
        facts = json.loads((folder / "run.json").read_text())
        self.models, self.seed = models, facts["seed"]
        self.rounds, self.train, self.classes = facts["rounds"], facts["train"], facts["classes"]
        self.method, self.options = facts["method"]["name"], facts["method"]["options"]
        self.clients = [Client(folder / client["data"]) for client in facts["clients"]]
        self.ids = range(len(self.clients))
        self.network = network or Network(facts["model"]["name"], facts["sample_shape"],
                                          self.classes)
        check_layout(self.network, facts["model"]["layers"])
        initial = read_safetensors(folder / "initial.safetensors")
        self.initial, self.initial_b = initial["w"].double(), initial["b"].double()
        if not torch.equal(self.initial, getattr(self.network, "initial", self.initial)):
            raise Mismatch("the run does not start from the network's own weights")
        self.start = read_safetensors(folder / "start.safetensors")
        self.end = read_safetensors(folder / "end.safetensors")
        self.taken = self.read_batches(folder / "batches.npz")

    def read_batches(self, path):
        arrays = np.load(path)
        if (arrays["part"] != 0).any():
            raise Mismatch("batches.npz: not all batches are of training rows")
        taken, begin = {}, 0
        for round_, client, size in zip(arrays["round"], arrays["client"], arrays["size"]):
            positions = arrays["position"][begin:begin + size]
            taken.setdefault((int(round_), int(client)), []).append(positions)
            begin += size
        if begin != len(arrays["position"]):
            raise Mismatch("batches.npz: sizes and positions do not fit")
        return taken

    def model_of(self, client):
        """The client's model of the headline view, flat."""
        layers = read_safetensors(self.models / f"client-{client}.safetensors")
        return torch.cat([layers[name].flatten() for name, _ in self.network.layers]).double()

    def cohort(self, round_):
        """The clients that took part, ascending."""
        return sorted(client for r, client in self.taken if r == round_)

    def batches(self, round_, client):
        return Batches(self.clients[client], self.train["batch"], self.taken[round_, client],
                       f"round {round_}, client {client}")


def check_layout(network, layers):
    """The program's manifest must be the network's own order of layers."""
    offset = 0
    for (name, shape), layer in zip(network.layers, layers):
        if (name, list(shape), offset) != (layer["name"], layer["shape"], layer["offset"]):
            raise Mismatch(f"layer {layer} where {name} {shape} at {offset} should be")
        offset += int(np.prod(shape))
    if len(layers) != len(network.layers):
        raise Mismatch(f"{len(layers)} layers instead of {len(network.layers)}")
