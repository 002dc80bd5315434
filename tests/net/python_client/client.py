#!/usr/bin/env python3
"""A client of a federation that shares no code with Tessera: fedavg and fedprox of an mlp, by numpy.

    client.py --server HOST:PORT --identity DIR --data FILE [--proto DIR]

Written from docs/protocol.md alone: where the two differ, one of them is wrong. It does what `tessera join` does, but keeps
nothing on a disk, asks nobody for consent and refuses every guard: it is a test of the document, not a program for data.
"""
import argparse
import contextlib
import importlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import tomllib

import grpc
import numpy

import wire
from network import Network, figures, trained
from samples import Samples, Unfit

PROTOCOL = 1
FEDERATION = "/tessera.v1.Federation/"
PROTO = pathlib.Path(__file__).resolve().parents[3] / "src/engine/grpc"
LAST = 4  # of `flags`: the last evaluation


class Refused(Exception):
    """What the server does not want, in its own words."""

    def __init__(self, code, sentence):
        super().__init__(sentence)
        self.code = code


def load_messages(folder=PROTO):
    """The messages of federation.proto, as protoc makes them."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(["protoc", f"--proto_path={folder}", f"--python_out={out}", "federation.proto"], check=True)
        sys.path.insert(0, out)
        try:
            return importlib.import_module("federation_pb2")
        finally:
            sys.path.remove(out)


class Server:
    """Calls, tried again on a new connection when they fail in passing."""

    def __init__(self, address, identity, messages):
        self.address, self.identity, self.messages = address, pathlib.Path(identity), messages
        self.channel, self.retry = None, messages.Retry(hold_ms=20000, first_wait_ms=200, longest_wait_ms=5000,
                                                        give_up_ms=20000, chunk_bytes=1 << 18)

    def connection(self):
        if self.channel is None:
            read = lambda name: (self.identity / name).read_bytes()
            self.channel = grpc.secure_channel(
                self.address, grpc.ssl_channel_credentials(read("ca.pem"), read("key.pem"), read("cert.pem")),
                [("grpc.max_receive_message_length", (4 << 20) + (64 << 10)), ("grpc.enable_http_proxy", 0),
                 ("grpc.use_local_subchannel_pool", 1)])
        return self.channel

    def close(self):
        if self.channel is not None:
            self.channel.close()
        self.channel = None

    def once(self, name, request, answer, deadline, stream_up=False, stream_down=False):
        """One attempt. Refused, or grpc.RpcError where the connection failed."""
        kinds = {(0, 0): "unary_unary", (0, 1): "unary_stream", (1, 0): "stream_unary"}
        call = getattr(self.connection(), kinds[stream_up, stream_down])(
            FEDERATION + name, request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString)
        try:
            out = call(request, timeout=deadline)
            return list(out) if stream_down else out
        except grpc.RpcError as error:
            ours = ("grpc-status-details-bin", b"tessera") in [tuple(pair) for pair in error.trailing_metadata() or ()]
            passing = error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED)
            if ours and not passing:
                raise Refused(error.code(), error.details()) from None
            raise

    def patiently(self, attempt):
        """What it returns in the end; the waits double from failure to failure."""
        bound, since = self.retry.first_wait_ms, time.monotonic()
        while True:
            try:
                return attempt()
            except grpc.RpcError as error:
                if self.retry.give_up_ms and time.monotonic() - since > self.retry.give_up_ms / 1000:
                    raise Unfit(f"{self.address}: no answer; given up ({error.details()})") from None
                self.close()
                time.sleep(random.uniform(0, bound) / 1000)
                bound = min(2 * bound, self.retry.longest_wait_ms)

    def call(self, name, request, answer, deadline=30.0):
        return self.patiently(lambda: self.once(name, request, answer, deadline))

    def describe(self, protocol=PROTOCOL):
        request = self.messages.DescribeRequest(protocol=protocol, software="docs/protocol.md in Python")
        facts = self.call("Describe", request, self.messages.DescribeReply)
        self.retry = facts.retry
        return facts

    def poll(self):
        answer = self.call("Poll", self.messages.PollRequest(), self.messages.PollReply, 30 + self.retry.hold_ms / 1000)
        if answer.kind == self.messages.PollReply.NOTHING:
            time.sleep(answer.again_ms / 1000)
        return answer

    def fetch(self, ticket, size):
        """The task's bytes."""
        got = b""

        def rest():
            nonlocal got
            request = self.messages.FetchRequest(ticket=ticket, offset=len(got))
            for chunk in self.once("Fetch", request, self.messages.Chunk, 600.0, stream_down=True):
                if chunk.offset != len(got) or chunk.crc32c != wire.crc32c(chunk.data):
                    raise Unfit("a chunk is damaged")
                got += chunk.data
            return got

        self.patiently(rest)
        if len(got) != size or wire.sha256(got) != ticket:
            raise Unfit("the task is not the one that was offered")
        return got

    def chunks(self, ticket, reply, begin):
        step = self.retry.chunk_bytes
        for at in range(begin, len(reply), step):
            data = reply[at:at + step]
            yield self.messages.Chunk(ticket=ticket if at == begin else "", offset=at, data=data, crc32c=wire.crc32c(data))

    def deliver(self, ticket, reply):
        def rest():
            stored = self.once("Stored", self.messages.StoredRequest(ticket=ticket), self.messages.StoredReply, 30.0)
            if stored.size < len(reply):
                self.once("Deliver", self.chunks(ticket, reply, stored.size), self.messages.StoredReply, 600.0,
                          stream_up=True)
            whole = self.messages.CompleteRequest(ticket=ticket, size=len(reply), sha256=wire.sha256(reply))
            self.once("Complete", whole, self.messages.CompleteReply, 30.0 + len(reply) // 20_000_000)

        for again in (True, True, False):
            try:
                return self.patiently(rest)
            except Refused as refused:
                if refused.code != grpc.StatusCode.INVALID_ARGUMENT or not again:
                    raise


def config_digest(text):
    """Of an experiment, without the lines that do not make it another one."""
    section, kept = "", []
    for line in text.splitlines(keepends=True):
        if line.startswith("["):
            section = line.strip()
        place = line.startswith("data_dir ") or (section == "[model]" and line.startswith(("file ", "start ")))
        if not place and not (section == "[eval]" and line.startswith("metric ")):
            kept.append(line)
    return wire.sha256("".join(kept).encode())


class Client:
    """One client, from its identity to its figures."""

    def __init__(self, server, data):
        self.server, self.messages, self.data = server, server.messages, data
        self.evaluation, self.tasks = None, {}
        self.trained, self.replies = 0, {}  # the last round, and the reply to the last ticket

    def understand(self):
        """Reads the experiment and the data; Unfit: what this client cannot do, which the server is told."""
        self.facts = facts = self.server.describe()
        if config_digest(facts.experiment) != facts.config_digest:
            raise Unfit("the experiment's text is not the one of its digest")
        try:
            self.prepare(tomllib.loads(facts.experiment))
        except Unfit as trouble:
            with contextlib.suppress(Unfit):
                self.enroll(trouble=str(trouble))
            raise

    def prepare(self, experiment):
        self.experiment, method = experiment, experiment["method"]
        if method["name"] not in ("fedavg", "fedprox"):
            raise Unfit(f"method {method['name']} is not implemented here")
        if experiment.get("guard"):
            raise Unfit("guards are not implemented here")
        if experiment["data"]["set"] not in ("own", "npz"):
            raise Unfit(f"set {experiment['data']['set']} is not the client's own files")
        if experiment["train"]["optimizer"] != "sgd" or experiment["train"]["loss"] == "multilabel":
            raise Unfit("adam and the multi-label loss are not implemented here")
        self.mu = method.get("mu", 0.0)
        self.samples = Samples(self.data, experiment["data"], self.facts.name)
        inputs = int(numpy.prod(self.samples.x.shape[1:]))
        self.network = Network(experiment["model"], inputs, len(self.samples.classes))

    def hello(self, task):
        samples = self.samples
        return wire.reply(task, name=self.facts.name, train=str(len(samples.train)), val=str(len(samples.val)),
                          test=str(len(samples.test)), support="0")

    def claims(self):
        greeting = {"client": str(self.facts.client), "kind": "hello", "round": "0", "attempt": "0"}
        return {"config_digest": self.facts.config_digest, "sample_shape": self.samples.x.shape[1:],
                "classes": len(self.samples.classes), "class_names": self.samples.classes,
                "layout_digest": self.network.layout_digest(), "data_digest": self.samples.digest,
                "hello": self.hello(greeting), "multi_label": False, "columns": self.samples.columns}

    def enroll(self, **fields):
        answer = self.server.call("Enroll", self.messages.EnrollRequest(**fields), self.messages.EnrollReply)
        if not answer.welcome:
            raise Unfit(answer.reason)

    def work(self):
        """Answers tasks until the federation has ended."""
        kinds = self.messages.PollReply
        while True:
            polled = self.server.poll()
            if polled.kind == kinds.FINISHED:
                return
            if polled.kind == kinds.GONE:
                raise Unfit(f"the server has no more work for this client: {polled.reason}")
            if polled.kind == kinds.ENROLL:
                self.enroll(**self.claims())
            if polled.kind == kinds.TASK:
                self.handle(polled.ticket, polled.size)

    def handle(self, ticket, size):
        try:
            tensors, task = wire.decode(self.server.fetch(ticket, size))
            if ticket not in self.replies:
                self.replies = {ticket: self.answer(task, tensors)}
            self.server.deliver(ticket, self.replies[ticket])
            self.tasks[task["kind"]] = self.tasks.get(task["kind"], 0) + 1
        except Refused as refused:
            if refused.code != grpc.StatusCode.NOT_FOUND:
                raise

    def answer(self, task, tensors):
        answers = {"hello": lambda: self.hello(task), "settle": lambda: wire.reply(task),
                   "train": lambda: self.train(task, wire.below("down/", tensors)),
                   "evaluate": lambda: self.evaluate(task, wire.below("down/", tensors), wire.below("global/", tensors))}
        try:
            self.judge(task)
            return answers[task["kind"]]()
        except Unfit as wrong:
            return wire.refusal(task, str(wrong))

    def judge(self, task):
        """Whether the experiment has such a task for this client; Unfit says why not."""
        rounds, round_, flags = self.experiment["rounds"], int(task["round"]), int(task["flags"])
        if int(task["client"]) != self.facts.client or task["kind"] not in ("hello", "train", "evaluate", "settle"):
            raise Unfit("this client does no such task")
        if task["kind"] == "train":
            if self.facts.client >= self.facts.clients or not self.trained < round_ <= rounds or task["attempt"] != "1":
                raise Unfit("this client trains once in every round, if it is no newcomer")
        if task["kind"] == "evaluate" and (not 1 <= round_ <= rounds + 1 or (flags & LAST and round_ <= rounds)):
            raise Unfit("there is no such evaluation")

    def step(self, task, down):
        if set(down) != {"w", "b"} or down["w"].shape != (self.network.size,) or down["b"].shape != (0,):
            raise Unfit("the download is not the model of the experiment")
        return trained(self.network, self.samples, self.experiment["train"], self.experiment["seed"],
                       self.facts.client, int(task["round"]), down["w"], self.mu)

    def train(self, task, down):
        start = time.process_time()
        w, loss = self.step(task, down)
        self.trained = int(task["round"])
        upload = {"up/value.w": w, "up/value.b": down["b"],
                  "up/weight": numpy.array(float(len(self.samples.train)), "<f8")}
        return wire.reply(task, upload, (loss, time.process_time() - start))

    def evaluate(self, task, down, common):
        views = [down["w"], self.step(task, down)[0]]
        test, val = self.samples.part(self.samples.test), self.samples.part(self.samples.val)
        tested = [figures(self.network, w, *test) for w in views]
        rows = [row for row, _ in tested] + [figures(self.network, w, *val)[0] for w in views]
        if common:
            rows += [figures(self.network, common["w"], *part)[0] for part in (test, val)]
        out = {"metrics": numpy.array(rows, "<f8")}
        if int(task["flags"]) & LAST:
            self.evaluation = rows
            if self.network.classes <= 100:
                out |= {"confusion/pre": tested[0][1], "confusion/post": tested[1][1]}
        return wire.reply(task, out)


def main():
    parser = argparse.ArgumentParser()
    for option in ("--server", "--identity", "--data"):
        parser.add_argument(option, required=True)
    parser.add_argument("--proto", default=PROTO)
    options = parser.parse_args()
    client = Client(Server(options.server, options.identity, load_messages(options.proto)), options.data)
    try:
        client.understand()
        client.enroll(**client.claims())
        client.work()
    except (Unfit, Refused, wire.Damaged) as problem:
        sys.exit(f"client.py: {problem}")
    finally:
        client.server.close()
    print(json.dumps({"tasks": client.tasks, "evaluation": client.evaluation}))


if __name__ == "__main__":
    main()
