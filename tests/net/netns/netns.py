#!/usr/bin/env python3
"""A federation over bad links: a server and four clients, each in a network namespace of its own.

    netns.py TESSERA [--partition SECONDS] [--rounds N]

Every packet takes 200 ms, one in twenty is lost, and in the middle of a round two clients are cut off for 60 s.
The federation must end, count everything, and have the numbers of `tessera run` with the same file.

The links are TUN devices, and this program carries the packets between them: kernels without `tc netem` (many
virtual machines) can run it too, and what is lost follows from a seed. Nothing leaves the namespaces. Exit code 77:
namespaces cannot be made here; the reason is printed.
"""
import argparse
import ctypes
import fcntl
import heapq
import json
import os
import pathlib
import random
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

HOSTS = {"server": "10.77.0.1", "a": "10.77.0.2", "b": "10.77.0.3", "c": "10.77.0.4", "d": "10.77.0.5"}
LATENCY, LOSS = 0.2, 0.05
CUT_OFF = ("c", "d")
LONGEST = 600  # seconds, for all of it
TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 0x0001, 0x1000, 0x40000000


class Impossible(Exception):
    """Namespaces cannot be made here."""


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise Impossible(f"`{' '.join(words)}` failed: {done.stderr.strip() or done.stdout.strip()}")


class Network:
    """The namespaces, and the thread that carries packets between them."""

    def __init__(self):
        self.names = {host: f"tessera-{os.getpid()}-{host}" for host in HOSTS}
        self.made, self.files = [], {}
        self.cut = set()  # hosts nobody reaches
        self.carried = self.lost = self.refused = 0
        self.stop = threading.Event()
        self.thread = None

    def __enter__(self):
        try:
            for host, address in HOSTS.items():
                run("ip", "netns", "add", self.names[host])
                self.made.append(self.names[host])
                self.files[address] = self.open_tun(self.names[host])
                inside = ("ip", "-n", self.names[host])
                run(*inside, "link", "set", "lo", "up")
                run(*inside, "addr", "add", f"{address}/24", "dev", "wire")
                run(*inside, "link", "set", "wire", "up", "mtu", "1400")
        except BaseException:
            self.__exit__()
            raise
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        if self.thread:
            self.thread.join(5)
        for file in self.files.values():
            os.close(file)
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], timeout=30)

    @staticmethod
    def open_tun(namespace):
        """A device belongs to the namespace in which it is opened; this thread goes there and back."""
        libc = ctypes.CDLL(None, use_errno=True)

        def enter(file):
            if libc.setns(file, CLONE_NEWNET):
                raise Impossible(f"setns: {os.strerror(ctypes.get_errno())}")

        with open("/proc/self/ns/net") as home, open(f"/run/netns/{namespace}") as there:
            enter(there.fileno())
            try:
                file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
                fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH", b"wire", IFF_TUN | IFF_NO_PI))
            except OSError as error:
                raise Impossible(f"/dev/net/tun: {error}") from error
            finally:
                enter(home.fileno())
        return file

    def carry(self):
        chance = random.Random(2026)
        addresses = {file: address for address, file in self.files.items()}
        hosts = {address: host for host, address in HOSTS.items()}
        waiting, number = [], 0  # (when, number, to, packet)
        while not self.stop.is_set():
            pause = min(0.1, max(0, waiting[0][0] - time.monotonic())) if waiting else 0.1
            for file in select.select(list(addresses), [], [], pause)[0]:
                packet = os.read(file, 65536)
                target = ".".join(str(byte) for byte in packet[16:20]) if packet[0] >> 4 == 4 else ""
                if target not in self.files:
                    continue
                if self.cut & {hosts[addresses[file]], hosts[target]}:
                    self.refused += 1
                elif chance.random() < LOSS:
                    self.lost += 1
                else:
                    number += 1
                    heapq.heappush(waiting, (time.monotonic() + LATENCY, number, target, packet))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, target, packet = heapq.heappop(waiting)
                try:
                    os.write(self.files[target], packet)
                    self.carried += 1
                except OSError:  # the device's queue is full: one more that is lost
                    self.lost += 1


class Federation:
    def __init__(self, program, place, rounds):
        self.program, self.place, self.rounds = program, place, rounds
        self.processes = {}

    def tessera(self, *words):
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, timeout=120)
        if done.returncode:
            sys.exit(f"tessera {words[0]}: {done.stderr}")

    def prepare(self):
        members = [host for host in HOSTS if host != "server"]
        (self.place / "data").mkdir()
        for client in members:
            chance = random.Random(client)
            rows = ["one,two,three,outcome"]
            for i in range(60):
                inputs = [chance.gauss(1.5 * (k == i % 3), 1) for k in range(3)]
                rows.append(",".join(f"{x:.4f}" for x in inputs) + f",{'xyz'[i % 3]}")
            (self.place / "data" / f"client-{client}.csv").write_text("\n".join(rows) + "\n")
        (self.place / "e.toml").write_text(f"""
name = "bad links"
rounds = {self.rounds}
[data]
set = "own"
partition = "natural"
data_dir = "{self.place}/data"
label = "outcome"
class_names = "x,y,z"
standardize = "client"
[model]
name = "mlp100"
[train]
lr = 0.1
[federation]
eval_every = {max(1, self.rounds // 2)}
[serve]
members = "{','.join(members)}"
hold = 5
[method]
name = "fedper"
""")
        ca = self.place / "ca"
        self.tessera("pki", "init", ca)
        self.tessera("pki", "issue", "server", "--ca", ca, "--identity", self.place / "id-server",
                     "--server", HOSTS["server"])
        for client in members:
            self.tessera("pki", "issue", client, "--ca", ca, "--identity", self.place / f"id-{client}")

    def start(self, host, namespace, *words):
        log = open(self.place / f"{host}.log", "w")
        self.processes[host] = subprocess.Popen(
            ["ip", "netns", "exec", namespace, self.program, *map(str, words), "--identity",
             self.place / f"id-{host}", "--log-json"], stdout=subprocess.DEVNULL, stderr=log)

    def start_all(self, names):
        address = HOSTS["server"] + ":7443"
        self.start("server", names["server"], "serve", self.place / "e.toml", "--listen", address,
                   "--state", self.place / "state")
        for client in HOSTS:
            if client != "server":
                self.start(client, names[client], "join", "--server", address, "--data",
                           self.place / "data" / f"client-{client}.csv", "--state", self.place / f"state-{client}")

    def rounds_played(self):
        played = 0
        for line in (self.place / "server.log").read_text().splitlines():
            entry = json.loads(line) if line.startswith("{") else {}
            if entry.get("event") == "round":
                played = entry["round"]
        return played

    def wait(self, until, happened):
        """True once it has happened; ends the test if the server has ended badly or time is up."""
        while not happened():
            if time.monotonic() > until:
                self.give_up(f"no end after {LONGEST} s: it hangs")
            if self.processes["server"].poll() not in (None, 0):
                self.give_up("the server ended")
            time.sleep(0.1)

    def give_up(self, why):
        for host in self.processes:
            print(f"--- {host}", (self.place / f"{host}.log").read_text()[-3000:], sep="\n")
        sys.exit(f"FAILED: {why}")

    def kill(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait(10)

    def digest(self, out):
        return json.loads((self.place / out / "summary.json").read_text())


def play(options, place):
    federation = Federation(options.program, place, options.rounds)
    federation.prepare()
    begun = time.monotonic()
    until = begun + LONGEST
    try:
        with Network() as network:
            federation.start_all(network.names)
            federation.wait(until, lambda: federation.rounds_played() >= 2)
            network.cut.update(CUT_OFF)
            print(f"{time.monotonic() - begun:.0f} s: {federation.rounds_played()} rounds; "
                  f"{' and '.join(CUT_OFF)} are cut off for {options.partition:.0f} s")
            healed = time.monotonic() + options.partition
            federation.wait(until, lambda: time.monotonic() >= healed)
            at_the_end = federation.rounds_played()
            network.cut.clear()
            federation.wait(until, lambda: federation.processes["server"].poll() is not None)
            for host, process in federation.processes.items():
                if process.wait(60):
                    federation.give_up(f"{host} ended with {process.returncode}")
            seconds = time.monotonic() - begun
            print(f"{seconds:.0f} s, {options.rounds} rounds ({at_the_end} until the links were mended), "
                  f"packets: {network.carried} carried, {network.lost} lost, {network.refused} cut off")
    finally:
        federation.kill()
    federation.tessera("run", place / "e.toml", "--out", place / "simulated", "--quiet")
    real, simulated = federation.digest("state"), federation.digest("simulated")
    if real["rejected"] or real["rounds_counted"] != options.rounds:
        federation.give_up(f"{real['rounds_counted']} rounds counted, {real['rejected']} uploads were rejected")
    if real["rounds_digest"] != simulated["rounds_digest"]:
        federation.give_up(f"digest {real['rounds_digest']}, simulated {simulated['rounds_digest']}")
    if options.partition >= 5 and at_the_end >= options.rounds:
        federation.give_up("it was over before the partition ended; more rounds are needed")
    print(f"digests are equal: {real['rounds_digest']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--partition", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    options.program = str(pathlib.Path(options.program).resolve())
    place = pathlib.Path(tempfile.mkdtemp(prefix="tessera netns "))
    try:
        if os.geteuid() != 0:
            raise Impossible("only root makes network namespaces")
        if not shutil.which("ip"):
            raise Impossible("there is no program `ip` (apt install iproute2)")
        play(options, place)
    except Impossible as reason:
        print(f"skipped: {reason}")
        return 77
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
