#!/usr/bin/env python3
"""Holds docs/protocol.md to a client that was written from it.

    test.py TESSERA        (exit code 0 passed, 1 not, 77 skipped: something for Python is missing)

Two federations over TLS on this machine, side by side: `tessera serve` with three `tessera join` and the Python client as the
fourth, and one whose only member is the Python client, which lies. The first must agree in every parameter and figure, up to
rounding, with `tessera run` of the same file: four clients of the program's own. (That `serve` and `run` agree with each other bit
for bit is federation_test's.) Every lie must be refused with a sentence and cost its upload alone.
"""
import csv
import json
import os
import pathlib
import random
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
try:
    import google.protobuf  # noqa: F401
    import grpc
    import numpy

    import wire
    from client import PROTO, Client, Refused, Server, load_messages
    from samples import Unfit
except ImportError as error:
    print(f"skipped: {error} (Debian: apt install python3-grpcio python3-protobuf python3-numpy)")
    sys.exit(77)
if shutil.which("protoc") is None:
    print("skipped: there is no protoc (Debian: apt install protobuf-compiler)")
    sys.exit(77)

NAMES = ("a", "b", "c", "d")
ROUNDS, LONGEST = 5, 60.0
# What float32 sums of another order make of the same batches in five rounds; other batches are beyond 1e-2.
NEAR = 1e-4
EXPERIMENT = """name = "{name}"
seed = 3
rounds = {rounds}
[data]
set = "own"
partition = "natural"
data_dir = "{data}"
label = "outcome"
columns = "age,ward,pulse"
categorical = "ward"
categories = "ward: ICU | ward 2 | ward 10"
class_names = "no,maybe,yes"
standardize = "client"
[model]
name = "mlp"
hidden = [16, 8]
[train]
epochs = 2
batch = 8
lr = 0.1
lr_decay = 0.9
momentum = 0.5
weight_decay = 0.001
class_weights = "balanced"
[federation]
eval_every = 2
[serve]
members = "{members}"
hold = 0.5
deadline = 40
[method]
name = "fedavg"
"""
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print(f"FAILED: {what}", flush=True)


def write_table(path, client):
    """A ward and two measurements, which say what becomes of a patient; clients measure and admit differently."""
    chance = random.Random(100 + client)
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["id", "age", "ward", "pulse", "outcome"])
        for row in range(60 + 10 * client):
            ward = ("ICU", "ward 2", "ward 10")[row % 3 if row < 3 else chance.randrange(3)]
            age, pulse = chance.gauss(50 + 5 * client, 15), chance.gauss(80, 10)
            risk = (age - 50) / 15 + (pulse - 80) / 10 + 1.5 * (ward == "ICU") + chance.gauss(0, 0.3)
            outcome = "no" if risk < 0 else "maybe" if risk < 1.5 else "yes"
            table.writerow([f"{client}-{row}", f"{age:.2f}", ward, f"{pulse:.1f}", outcome])


class Play:
    """Programs, identities and data in a directory; nobody outlives it."""

    def __init__(self, tessera, root):
        self.tessera, self.root, self.programs = tessera, pathlib.Path(root), {}

    def path(self, *parts):
        return str(self.root.joinpath(*parts))

    def write_data(self):
        os.mkdir(self.path("data"))
        for client, name in enumerate(NAMES):
            write_table(self.path("data", f"client-{name}.csv"), client)

    def pki(self, *words):
        subprocess.run([self.tessera, "pki", *words], check=True, capture_output=True, timeout=60)

    def identity(self, name, *more):
        self.pki("issue", name, "--ca", self.path("ca"), "--identity", self.path("id-" + name), *more)

    def start(self, name, *words):
        with open(self.path(name + ".log"), "wb") as log:
            env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
            self.programs[name] = subprocess.Popen(list(map(str, words)), stdout=log, stderr=log, env=env)

    def experiment(self, name, members, rounds):
        with open(self.path(name + ".toml"), "w", encoding="utf-8") as file:
            file.write(EXPERIMENT.format(name=name, rounds=rounds, members=",".join(members), data=self.path("data")))
        return file.name

    def serve(self, name, members, rounds):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        self.start(name, self.tessera, "serve", self.experiment(name, members, rounds), "--listen", address, "--state",
                   self.path(name), "--identity", self.path("id-server"), "--log-json")
        return address

    def join(self, federation, address, member):
        self.start(f"{federation}-{member}", self.tessera, "join", "--server", address, "--identity",
                   self.path("id-" + member), "--data", self.path("data", f"client-{member}.csv"), "--state",
                   self.path(f"{federation}-{member}"), "--log-json")

    def log(self, name):
        return pathlib.Path(self.path(name + ".log")).read_text(encoding="utf-8", errors="replace")

    def finish(self, until):
        """All exit codes; whoever is late is ended."""
        for name, program in self.programs.items():
            try:
                code = program.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                code = "none in time"
            check(code == 0, f"{name} ends with exit code {code}:\n{self.log(name)[-2000:]}")

    def end(self):
        for program in self.programs.values():
            if program.poll() is None:
                program.kill()
                program.wait()

    def rows(self, name, query):
        database = sqlite3.connect(f"file:{self.path(name, 'history.sqlite')}?mode=ro", uri=True)
        with database:
            out = database.execute(query).fetchall()
        database.close()
        return out

    def model(self, name):
        """The server's parameters after the last round."""
        database = sqlite3.connect(f"file:{self.path(name, 'checkpoint', 'state.sqlite')}?mode=ro", uri=True)
        pieces = database.execute("SELECT data FROM states WHERE owner = 0 ORDER BY client, piece").fetchall()
        database.close()
        return wire.decode(b"".join(data for data, in pieces))[0]["g.w"]


class Liar(Client):
    """Answers each round's task with the next lie, then honestly."""

    def __init__(self, server, data, lies):
        super().__init__(server, data)
        self.lies = list(lies)

    def train(self, task, down):
        reply = super().train(task, down)
        if not self.lies:
            return reply
        tensors, metadata = wire.decode(reply)
        self.lies.pop(0)(tensors)
        return wire.encode(tensors, metadata)

    def handle(self, ticket, size):
        if not self.tasks:
            self.misuse(ticket)
        super().handle(ticket, size)

    def misuse(self, ticket):
        """Calls that the server must refuse; none of them touches the task."""
        messages, server = self.messages, self.server
        damaged = messages.Chunk(ticket=ticket, offset=0, data=b"abc", crc32c=wire.crc32c(b"abd"))
        expect("a damaged chunk", grpc.StatusCode.INVALID_ARGUMENT, "",
               lambda: server.once("Deliver", iter([damaged]), messages.StoredReply, 10.0, stream_up=True))
        expect("somebody else's ticket", grpc.StatusCode.NOT_FOUND, "not this member's",
               lambda: server.deliver("0" * 64, b"reply"))
        expect("a task that nobody posted", grpc.StatusCode.NOT_FOUND, "",
               lambda: server.fetch("0" * 64, 10))


def expect(what, code, words, call):
    """The server refuses the call in its own words."""
    try:
        call()
        check(False, f"{what} is not refused")
    except Refused as refused:
        check(refused.code == code and words in str(refused) and len(str(refused)) > 10,
              f"{what} is refused with {refused.code}: {refused}")


def not_welcome(liar, what, words, **changes):
    try:
        liar.enroll(**(liar.claims() | changes))
        check(False, f"{what} is welcome")
    except Unfit as reason:
        check(words in str(reason), f"{what} is refused with another sentence: {reason}")


def renamed(tensors):
    tensors["up/w"] = tensors.pop("up/value.w")


def longer(tensors):
    tensors["up/value.w"] = numpy.append(tensors["up/value.w"], numpy.float32(0))


def not_a_number(tensors):
    tensors["up/value.w"] = tensors["up/value.w"] * numpy.float32("nan")


LIES = {renamed: "'value.w'", longer: "'value.w'", not_a_number: "not finite"}


def lie(play, address, messages):
    """A federation of one, round by round another lie."""
    liar = Liar(Server(address, play.path("id-d"), messages), play.path("data", "client-d.csv"), LIES)
    liar.understand()
    expect("another protocol", grpc.StatusCode.INVALID_ARGUMENT, "version", lambda: liar.server.describe(2))
    check(liar.server.poll().kind == messages.PollReply.ENROLL, "who has not enrolled is told to")
    not_welcome(liar, "a layout of other tensors", "other tensors", layout_digest="0" * 64)
    not_welcome(liar, "another experiment", "another experiment", config_digest="0" * 64)
    claims = liar.claims()
    _, greeting = wire.decode(claims["hello"])
    for what, words, change in [("no training rows", "training", {"train": "0"}), ("a count below 0", "'train'", {"train": "-1"}),
                                ("another kind", "kind", {"kind": "Hello"})]:
        bad = wire.encode({"numbers": numpy.zeros((1, 2), "<f8")}, greeting | change)
        not_welcome(liar, what, words, hello=bad)
    liar.enroll(**claims)
    liar.work()
    liar.server.close()
    check(liar.tasks == {"train": 4, "evaluate": 2, "settle": 4}, f"the liar was asked {liar.tasks}")


def judge_lies(play):
    reasons = play.rows("lies", "SELECT round, reason FROM problems ORDER BY round")
    check([round_ for round_, _ in reasons] == [1, 2, 3], f"the rounds of the lies: {reasons}")
    for (_, reason), words in zip(reasons, LIES.values()):
        check(words in reason, f"a lie is refused with {reason!r}")
    check(play.rows("lies", "SELECT rejected, counted FROM rounds") == [(1, 0)] * 3 + [(0, 1)], "each lie costs its round")


def compare(play):
    """The federation with the Python client against the one without."""
    for name in ("mixed", "reference"):
        rounds = play.rows(name, "SELECT cohort, dropped, rejected, counted FROM rounds")
        check(rounds == [(4, 0, 0, 1)] * ROUNDS, f"{name}: rounds are {rounds}")
        check(play.rows(name, "SELECT * FROM problems") == [], f"{name}: there are problems")
    print(f"parameters differ by {gap(play.model('mixed'), play.model('reference')):.1e} after {ROUNDS} rounds")
    check(gap(play.model("mixed"), play.model("reference")) < NEAR, "the global models differ")
    for what, query in {
            "sizes": "SELECT name, train, val, test FROM clients ORDER BY id",
            "confusions": "SELECT client, view, truth, predicted, n FROM confusions ORDER BY 1, 2, 3, 4",
            "correct answers": "SELECT round, client, view, part, n, correct FROM client_evals ORDER BY 1, 2, 3, 4"}.items():
        one, other = play.rows("mixed", query), play.rows("reference", query)
        check(one == other and one, f"{what} differ:\n{one}\n{other}")
    for what, query in {
            "training losses": "SELECT loss FROM rounds ORDER BY round",
            "figures": "SELECT loss, precision_macro, f1_macro, f1_remap, balanced_accuracy, auroc, ece FROM client_evals "
                       "ORDER BY round, client, view, part"}.items():
        one, other = (numpy.array(play.rows(name, query), float) for name in ("mixed", "reference"))
        check(gap(one, other) < NEAR, f"{what} differ by {gap(one, other):.1e}")
    told = json.loads(play.log("mixed-d").splitlines()[-1])
    n, correct = told["evaluation"][0][:2]
    print(f"the Python client's accuracy is {correct / n:.3f} on {n:.0f} test rows; its tasks: {told['tasks']}")
    check(correct / n > 0.6, "the Python client has learned nothing")


def gap(one, other):
    return numpy.abs(one.astype(float) - other).max() if one.shape == other.shape else numpy.inf


def main():
    start, messages = time.monotonic(), load_messages()
    with tempfile.TemporaryDirectory(prefix="tessera python ") as root:
        play = Play(sys.argv[1], root)
        play.write_data()
        try:
            play.start("reference", play.tessera, "run", play.experiment("reference", NAMES, ROUNDS), "--out",
                       play.path("reference"), "--quiet")
            play.pki("init", play.path("ca"))
            play.identity("server", "--server", "127.0.0.1,localhost")
            mixed = play.serve("mixed", NAMES, ROUNDS)
            lies = play.serve("lies", ["d"], len(LIES) + 1)
            play.identity("d")
            play.start("mixed-d", sys.executable, "-B", HERE / "client.py", "--server", mixed, "--identity",
                       play.path("id-d"), "--data", play.path("data", "client-d.csv"), "--proto", PROTO)
            for member in NAMES[:3]:
                play.identity(member)
                play.join("mixed", mixed, member)
            lie(play, lies, messages)
            play.finish(start + LONGEST)
            if not failures:
                judge_lies(play)
                compare(play)
        finally:
            play.end()
    print(f"{'FAILED' if failures else 'passed'} in {time.monotonic() - start:.1f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
