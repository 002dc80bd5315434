"""Networks of the user's own: written in [model], or brought from PyTorch as TorchScript.

The reference is an nn.Module whose parameters have the names that the program gives them; it knows
nothing of the program's layers or of how it takes TorchScript apart.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.stateless import functional_call

from cases import FO, HF, LR, PFEDME, PFEDME_WRONG, SMALL, Case
from methods import Sgd, rounds_of

TOLERANCE = 1e-5
NINES = {"lr": 0.05, "batch": 9}   # no client is left with a batch of one sample
EIGHTS = {"lr": 0.02, "batch": 8}  # one is: 33 = 4 · 8 + 1


class OwnNetwork:
    """A module as a function of one flat vector: its parameters in order, the head's last."""

    def __init__(self, module, head="head"):
        self.module = module.double()
        named = [(name, tuple(p.shape)) for name, p in module.named_parameters()]
        ends = [item for item in named if item[0].startswith(head + ".")]
        self.layers = [item for item in named if item not in ends] + ends
        self.size = sum(math.prod(shape) for _, shape in self.layers)
        last = sum(math.prod(shape) for _, shape in ends)
        self.body, self.head = slice(0, self.size - last), slice(self.size - last, self.size)
        self.statistics = [name for name, b in module.named_buffers() if b.is_floating_point()]
        if self.statistics:
            self.reference = fedavg_with_statistics

    def named(self, w):
        pieces = w.split([math.prod(shape) for _, shape in self.layers])
        return {name: piece.view(shape) for piece, (name, shape) in zip(pieces, self.layers)}

    def gradient(self, w, batch):
        w = w.detach().requires_grad_(True)
        loss = F.cross_entropy(functional_call(self.module, self.named(w), (batch[0],)), batch[1])
        return torch.autograd.grad(loss, w)[0]


def fedavg_with_statistics(run, _):
    """FedAvg of parameters and running statistics; PyTorch moves the statistics itself."""
    net, module = run.network, run.network.module
    buffers = dict(module.named_buffers())

    def load(b):
        sizes = [buffers[name].numel() for name in net.statistics]
        for name, piece in zip(net.statistics, b.split(sizes)):
            buffers[name].copy_(piece.view_as(buffers[name]))

    def trained(t, batches, w, b):
        load(b)
        sgd = Sgd(run, t)
        for batch in batches.epochs(run.train["epochs"]):
            module.train(len(batch[1]) > 1)  # one sample has no variance
            w = sgd.step(w, net.gradient(w, batch))
        return w, torch.cat([buffers[name].flatten() for name in net.statistics]).clone()

    w, b = run.initial, run.initial_b
    for t, taken in rounds_of(run):
        total = sum(run.clients[i].size for i in taken)
        done = [(run.clients[i].size / total, *trained(t, batches, w, b))
                for i, batches in taken.items()]
        w = sum(share * one for share, one, _ in done)
        b = sum(share * one for share, _, one in done)
    return {"server/g.w": w, "server/g.b": b}


class Plain(nn.Module):
    """What a user may bring: the head is not the last module that is registered."""

    def __init__(self):
        super().__init__()
        self.score = nn.Linear(24, 4)
        self.features = nn.Sequential(nn.Conv2d(1, 5, 3, stride=2, padding=1), nn.ELU(),
                                      nn.Conv2d(5, 8, 3, bias=False), nn.ReLU())
        self.squeeze = nn.Linear(8 * 3 * 3, 24)
        self.scale = nn.Parameter(torch.ones(24))

    def forward(self, x):
        x = F.avg_pool2d(self.features(x), 2)
        return self.score(torch.tanh(self.squeeze(x.flatten(1)) * self.scale))


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 5)
        self.bn = nn.BatchNorm2d(6)
        self.fc1 = nn.Linear(6 * 6 * 6, 20)
        self.bn1 = nn.BatchNorm1d(20)
        self.fc2 = nn.Linear(20, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.conv(x))), 2)
        return self.fc2(F.relu(self.bn1(self.fc1(x.flatten(1)))))


class Cnn(nn.Module):
    """layers = ["conv 4 3 pad 1", "pool 3 2", "conv 6 5", "linear 12"]"""

    def __init__(self, activation):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 6, 5)
        self.fc1, self.head = nn.Linear(6 * 3 * 3, 12), nn.Linear(12, 4)
        self.activation = activation

    def forward(self, x):
        x = F.max_pool2d(self.activation(self.conv1(x)), 3, 2)
        x = self.activation(self.conv2(x))
        return self.head(self.activation(self.fc1(x.flatten(1))))


class Mlp(nn.Module):
    def __init__(self, widths, norm=False):
        super().__init__()
        for i in range(len(widths) - 1):
            self.add_module(f"fc{i + 1}", nn.Linear(widths[i], widths[i + 1]))
            if norm:
                self.add_module(f"bn{i + 1}", nn.BatchNorm1d(widths[i + 1]))
        self.head, self.hidden, self.norm = nn.Linear(widths[-1], 4), len(widths) - 1, norm

    def forward(self, x):
        x = x.flatten(1)
        for i in range(1, self.hidden + 1):
            x = getattr(self, f"fc{i}")(x)
            x = torch.tanh(getattr(self, f"bn{i}")(x) if self.norm else x)
        return self.head(x)


class Gru(nn.Module):
    def __init__(self, inputs, units, depth):
        super().__init__()
        for i in range(depth):
            self.add_module(f"gru{i + 1}", nn.GRU(units if i else inputs, units, batch_first=True))
        self.head, self.depth = nn.Linear(units, 4), depth

    def forward(self, x):
        for i in range(self.depth):
            layer = getattr(self, f"gru{i + 1}")
            # Not layer(x): nn.GRU keeps a list of its weights, which functional_call does not see.
            weights = [layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0]
            state = x.new_zeros(1, x.shape[0], layer.hidden_size)
            x, _ = torch.gru(x, state, weights, True, 1, 0.0, True, False, True)
        return self.head(x[:, -1])


class Series(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(16, 6, 2, batch_first=True)
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        y, _ = self.gru(x)
        return self.fc(y[:, -1])


class SeriesTwin(Series):
    def forward(self, x):
        weights = [getattr(self.gru, f"{kind}_l{i}") for i in range(2)
                   for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        state = x.new_zeros(2, x.shape[0], 6)
        return self.fc(torch.gru(x, state, weights, True, 2, 0.0, True, False, True)[0][:, -1])


def script(make, head, reference=None):
    """Saves a network as TorchScript beside the experiment; the reference is its twin."""
    def network(folder):
        torch.manual_seed(3)
        module = make()
        torch.jit.script(module).save(str(folder / "net.pt"))
        if reference:
            same = reference()
            same.load_state_dict(module.state_dict())
            module = same
        out = OwnNetwork(module, head)
        values = dict(module.named_parameters())
        out.initial = torch.cat([values[name].detach().flatten() for name, _ in out.layers])
        return out
    return network


def twin(make):
    return lambda folder: OwnNetwork(make())


def own(method, note, network, model, wrong, **more):
    return Case(method, more.pop("options", {}), wrong, note=note, network=network, model=model,
                tolerance=TOLERANCE, **more)


LAYERS = {"name": "cnn", "layers": ["conv 4 3 pad 1", "pool 3 2", "conv 6 5", "linear 12"]}
FILE = {"file": "net.pt"}
PLAIN_NET = script(Plain, "score")
DEEP = {"name": "mlp", "hidden": [20, 11], "activation": "tanh"}

OWN_CASES = [
    own("fedavg", "cnn by hand", twin(lambda: Cnn(torch.relu)), LAYERS, [LR]),
    own("fedavg", "cnn gelu", twin(lambda: Cnn(F.gelu)), LAYERS | {"activation": "gelu"}, [LR]),
    own("fedavg", "mlp tanh", twin(lambda: Mlp([256, 20, 11])), DEEP, [LR]),
    own("fedavg", "mlp linear", twin(lambda: Mlp([256])), {"name": "mlp", "hidden": []}, [LR]),
    own("fedavg", "mlp norm", twin(lambda: Mlp([256, 20, 11], True)), DEEP | {"norm": "batch"},
        [LR], train=NINES),
    own("fedavg", "gru", twin(lambda: Gru(16, 7, 3)), {"name": "gru", "units": 7, "depth": 3}, [LR],
        data="series"),
    # Differences of gradients: where a ReLU or a pool is just about to switch, float32 and float64
    # need not agree, and the difference is divided by a small step. Hence a smooth network.
    own("peravg", "hf", twin(lambda: Mlp([256, 20, 11])), DEEP,
        [{"alpha": 0.009}, {"curvature": "dropped"}], options=HF, train=SMALL),
    own("peravg", "hf half", twin(lambda: Mlp([256, 20, 11])), DEEP, [{"curvature": "dropped"}],
        options=HF, train=SMALL, participation=0.5),
    own("fedavg", "torchscript", PLAIN_NET, FILE, [LR]),
    own("fedper", "torchscript head", PLAIN_NET, FILE, [LR]),
    own("fedper", "torchscript named", script(Plain, "squeeze"), FILE | {"head": "squeeze"}, [LR]),
    own("pfedme", "torchscript", PLAIN_NET, FILE, PFEDME_WRONG, options=PFEDME),
    own("peravg", "torchscript fo", PLAIN_NET, FILE, [{"alpha": 0.04}], options=FO, train=SMALL),
    own("peravg", "torchscript hf", PLAIN_NET, FILE, [{"curvature": "dropped"}], options=HF,
        train=SMALL),
    own("fedavg", "torchscript gru", script(Series, "fc", SeriesTwin), FILE, [LR], data="series"),
    own("fedavg", "torchscript norm", script(Normed, "fc2"), FILE, [LR], train=NINES),
    own("fedavg", "torchscript one sample", script(Normed, "fc2"), FILE, [LR], train=EIGHTS),
]
