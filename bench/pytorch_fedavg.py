#!/usr/bin/python3
"""FedAvg with an evaluation every round: Tessera against PyTorch, on the same files, one thread each, in turn.

    bench/pytorch_fedavg.py build/release/tessera [--clients 20] [--samples 300] [--rounds 10] [--repeat 3] [--json]

Needs PyTorch and NumPy (Debian: python3-torch) and Fashion-MNIST (dataset-fashion-mnist). Network facnn, batch 10, one local
epoch, every client in every round. Three competitors:

  simulator   as PyTorch simulators of federated learning do it, PFLlib above all: a module for each client, parameters cloned one
              by one, a client's file read and a DataLoader made for every pass, autograd and torch.optim.SGD; before each round
              the global model is tested on every client's test part and its loss taken on every client's training part.
              Not measured, though PFLlib does it: an AUC by scikit-learn.
  careful     what a skilled user would write: one module, channels-last, all tensors in memory, batches by index, evaluation in
              large batches under inference mode.
  tessera     reads the same files; measures both views of every client's model on the test part, which takes the place of the
              loss on the training part.

Each competitor is a process of its own. "a round" is the time within rounds (training and evaluation; the first round warms up
and does not count); "whole run" is the process from start to end, imports, data, models and reports included. Times of the
processor (user + system) tell the truth also beside other work; wall times only on an idle machine.
"""
import argparse
import copy
import ctypes
import gzip
import json
import os
import pathlib
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

FILE = """name = "pytorch-fedavg"
rounds = {rounds}
[data]
set = "npz"
partition = "natural"
data_dir = "{data}"
val = 0
[model]
name = "facnn"
init = "torch"
[train]
lr = 0.05
epochs = 1
batch = 10
[federation]
eval_every = 1
[method]
name = "fedavg"
"""
PICTURES = pathlib.Path("/usr/share/datasets/fashion-mnist")
BATCH, LR = 10, 0.05


# ---- What PyTorch does; these run in processes of their own.

def network(torch):
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 10))


class Simulator:
    """The habit of PyTorch simulators."""

    def __init__(self, torch, files):
        self.torch, self.files = torch, files
        self.server = network(torch)
        self.clients = [copy.deepcopy(self.server) for _ in files]
        self.optimizers = [torch.optim.SGD(module.parameters(), lr=LR) for module in self.clients]
        self.loss = torch.nn.CrossEntropyLoss()
        self.sizes = [len(self.read(file, "train")) for file in files]

    def read(self, file, part):
        import numpy
        with numpy.load(file) as arrays:
            x = self.torch.tensor(arrays["x_" + part])
            y = self.torch.tensor(arrays["y_" + part])
        return list(zip(x, y))

    def loader(self, file, part):
        return self.torch.utils.data.DataLoader(self.read(file, part), BATCH, shuffle=True)

    def send(self):
        for module in self.clients:
            for theirs, ours in zip(module.parameters(), self.server.parameters()):
                theirs.data = ours.data.clone()

    def evaluate(self):
        right = tested = seen = 0
        lost = 0.0
        with self.torch.no_grad():
            for module, file in zip(self.clients, self.files):
                module.eval()
                for x, y in self.loader(file, "test"):
                    right += (module(x).argmax(dim=1) == y).sum().item()
                    tested += len(y)
                for x, y in self.loader(file, "train"):
                    lost += self.loss(module(x), y).item() * len(y)
                    seen += len(y)
        return right / tested, lost / seen

    def train(self):
        for module, optimizer, file in zip(self.clients, self.optimizers, self.files):
            module.train()
            for x, y in self.loader(file, "train"):
                loss = self.loss(module(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    def average(self):
        for parameter in self.server.parameters():
            parameter.data.zero_()
        for module, size in zip(self.clients, self.sizes):
            for ours, theirs in zip(self.server.parameters(), module.parameters()):
                ours.data += theirs.data * (size / sum(self.sizes))

    def round(self):
        self.send()
        shown = self.evaluate()
        self.train()
        self.average()
        return shown


class Careful:
    """Nothing that PyTorch could be spared."""

    def __init__(self, torch, files):
        import numpy
        self.torch, self.last = torch, torch.channels_last
        self.module = network(torch).to(memory_format=self.last)
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=LR)
        self.loss = torch.nn.functional.cross_entropy
        self.data = []
        for file in files:
            with numpy.load(file) as arrays:
                self.data.append({part: (torch.tensor(arrays["x_" + part]).contiguous(memory_format=self.last),
                                         torch.tensor(arrays["y_" + part])) for part in ("train", "test")})
        self.everybody = sum(len(each["train"][1]) for each in self.data)
        self.server = [parameter.detach().clone() for parameter in self.module.parameters()]

    def load(self):
        with self.torch.no_grad():
            for theirs, ours in zip(self.module.parameters(), self.server):
                theirs.copy_(ours)

    def evaluate(self):
        self.load()  # one model for all
        right = tested = seen = 0
        lost = 0.0
        with self.torch.inference_mode():
            for each in self.data:
                x, y = each["test"]
                right += (self.module(x).argmax(dim=1) == y).sum().item()
                tested += len(y)
                x, y = each["train"]
                for begin in range(0, len(y), 256):
                    part = slice(begin, begin + 256)
                    lost += self.loss(self.module(x[part]), y[part], reduction="sum").item()
                seen += len(y)
        return right / tested, lost / seen

    def round(self):
        shown = self.evaluate()
        sums = [self.torch.zeros_like(parameter) for parameter in self.server]
        for each in self.data:
            self.load()
            x, y = each["train"]
            for rows in self.torch.randperm(len(y)).split(BATCH):
                self.optimizer.zero_grad(set_to_none=True)
                self.loss(self.module(x[rows]), y[rows]).backward()
                self.optimizer.step()
            with self.torch.no_grad():
                self.torch._foreach_add_(sums, list(self.module.parameters()), alpha=len(y) / self.everybody)
        self.server = sums
        return shown


def play(kind, data, rounds):
    """One competitor of PyTorch: its rounds, as JSON on standard output."""
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(1)
    files = sorted(pathlib.Path(data).glob("client-*.npz"))
    competitor = {"simulator": Simulator, "careful": Careful}[kind](torch, files)
    wall, cpu = [], []
    for _ in range(rounds):
        began, worked = time.perf_counter(), time.process_time()
        competitor.round()
        wall.append(time.perf_counter() - began), cpu.append(time.process_time() - worked)
    if kind == "simulator":
        competitor.send()
    print(json.dumps({"round_wall": wall, "round_cpu": cpu, "accuracy": competitor.evaluate()[0], "version": torch.__version__}))


# ---- Data, and the competition.

def pictures(part):
    import numpy
    with gzip.open(PICTURES / f"{part}-images-idx3-ubyte.gz") as file:
        x = numpy.frombuffer(file.read(), numpy.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(PICTURES / f"{part}-labels-idx1-ubyte.gz") as file:
        y = numpy.frombuffer(file.read(), numpy.uint8, offset=8).astype(numpy.int64)
    return x, y


def write_clients(directory, clients, samples):
    """Three quarters of each client's samples for training, as PFLlib has it."""
    import numpy
    x, y = pictures("train")
    if clients * samples > len(y):
        sys.exit(f"Fashion-MNIST has {len(y)} training pictures, fewer than {clients} x {samples}")
    rows = numpy.random.default_rng(1).permutation(len(y))[:clients * samples].reshape(clients, samples)
    cut = 3 * samples // 4
    for client, mine in enumerate(rows):
        images = ((x[mine] / 255.0 - 0.5) / 0.5).astype(numpy.float32)
        numpy.savez(directory / f"client-{client:03}.npz", x_train=images[:cut], y_train=y[mine[:cut]],
                    x_test=images[cut:], y_test=y[mine[cut:]])


def process(words, environment):
    """What it printed, its wall time and its time of the processor."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(words, stdout=out, env=environment)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            sys.exit(f"{' '.join(words)} ended with {child.returncode}")
        out.seek(0)
        return out.read(), time.perf_counter() - began, usage.ru_utime + usage.ru_stime


def play_torch(kind, root, args, environment):
    words = [sys.executable, __file__, "--play", kind, str(root / "data"), "--rounds", str(args.rounds)]
    text, wall, cpu = process(words, environment)
    inside = json.loads(text)
    return {"whole_wall": wall, "whole_cpu": cpu, "round_wall": statistics.mean(inside["round_wall"][1:]),
            "round_cpu": statistics.mean(inside["round_cpu"][1:]), "accuracy": inside["accuracy"],
            "version": inside["version"]}


def play_tessera(root, args, environment):
    """Rounds by the history's clock; their processor time is the process's beyond that of a run of one round."""
    def run(rounds):
        shutil.rmtree(root / "out", ignore_errors=True)
        (root / "e.toml").write_text(FILE.format(rounds=rounds, data=root / "data"))
        return process([args.tessera, "run", str(root / "e.toml"), "--out", str(root / "out"), "--threads", "1", "--quiet",
                        "--json"], environment)
    _, _, one = run(1)
    text, wall, cpu = run(args.rounds)
    summary = json.loads(text)
    rows = sqlite3.connect(root / "out/history.sqlite").execute("SELECT wall_seconds FROM rounds ORDER BY round")
    inside = [row[0] for row in rows]
    return {"whole_wall": wall, "whole_cpu": cpu, "round_wall": statistics.mean(inside[1:]),
            "round_cpu": (cpu - one) / (args.rounds - 1), "accuracy": summary["accuracy_pre"]["micro"],
            "kernels": summary["kernels"],
            "blas": summary["blas"], "processor": summary["processor"]}


def blas_core():
    """OpenBLAS's own word for the processor, as PyTorch finds it; nothing if it is another BLAS."""
    try:
        name = ctypes.CDLL("libopenblas.so.0").openblas_get_corename
    except (OSError, AttributeError):
        return "not OpenBLAS"
    name.restype = ctypes.c_char_p
    return "OpenBLAS " + name().decode()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera", nargs="?", help="the program")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--samples", type=int, default=300, help="of each client, a quarter of them for the test")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--play", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.play:
        return play(*args.play, args.rounds)
    if not args.tessera or args.rounds < 3:
        parser.error("name the program (build/release/tessera); --rounds is 3 at least")
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    results = {"simulator": [], "careful": [], "tessera": []}
    with tempfile.TemporaryDirectory() as place:
        root = pathlib.Path(place)
        (root / "data").mkdir()
        write_clients(root / "data", args.clients, args.samples)
        for _ in range(args.repeat):
            for kind in ("simulator", "careful"):
                results[kind].append(play_torch(kind, root, args, environment))
            results["tessera"].append(play_tessera(root, args, environment))
    median = {kind: {key: statistics.median(run[key] for run in runs) for key in
                     ("round_wall", "round_cpu", "whole_wall", "whole_cpu", "accuracy")} for kind, runs in results.items()}
    ours = results["tessera"][0]
    facts = {"processor": ours["processor"], "blas_of_pytorch": blas_core(), "blas_of_tessera": ours["blas"],
             "kernels": ours["kernels"], "pytorch": results["careful"][0]["version"], "load": os.getloadavg()[2],
             "clients": args.clients, "samples": args.samples, "rounds": args.rounds, "repeat": args.repeat}
    if args.json:
        print(json.dumps({"facts": facts, "medians": median, "runs": results}, indent=2))
        return
    print(f"{facts['processor']}; PyTorch {facts['pytorch']} on {facts['blas_of_pytorch']}; Tessera's kernels {facts['kernels']} "
          f"on {facts['blas_of_tessera']}; load of the last 15 min {facts['load']:.1f}\n"
          f"FedAvg, facnn, batch 10, {args.clients} clients of {3 * args.samples // 4} + {args.samples - 3 * args.samples // 4} "
          f"samples, {args.rounds} rounds, medians of {args.repeat}, one thread\n")
    print("| | a round, s of wall (ratio) | a round, s of the processor (ratio) | whole run, s of wall (ratio) | "
          "whole run, s of the processor (ratio) | accuracy after the last round |")
    print("|---" * 6 + "|")
    for kind, each in median.items():
        cells = [f"{each[key]:.2f} ({each[key] / median['tessera'][key]:.2f})" for key in
                 ("round_wall", "round_cpu", "whole_wall", "whole_cpu")]
        print(f"| {kind} | {' | '.join(cells)} | {100 * each['accuracy']:.1f} % |")


main()
