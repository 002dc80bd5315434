#!/usr/bin/env python3
"""100,000 clients on one machine: runs examples/large.toml at several sizes and prints the bars.

    bench/scale.py build/release/tessera             all of it: about five minutes on two cores
    bench/scale.py build/release/tessera --sizes 1000,10000 --million 0 --kills 0

Every run is a process of its own, so that its peak memory is its own. Nothing but Python is needed.
"""
import argparse
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COHORT = 1000
missed = []


def command(args, out, clients, rounds, more=()):
    words = [args.tessera, "run", os.path.join(ROOT, "examples/large.toml"), "--out", out, "--quiet",
             "--threads", str(args.threads)]
    sets = {"data.clients": clients, "federation.participation": COHORT / clients, "rounds": rounds}
    for key, value in sets.items():
        words += ["--set", f"{key}={value}"]
    return words + list(more)


def play(words):
    """Peak memory, processor time and bytes written of a run that has ended well."""
    start = time.time()
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    with open(f"/proc/{child.pid}/io") as file:
        io = dict(line.split(": ") for line in file.read().splitlines())
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{' '.join(words)} ended with {child.returncode}")
    return {"peak": usage.ru_maxrss * 1024, "written": int(io["wchar"]), "seconds": time.time() - start,
            "cpu": usage.ru_utime + usage.ru_stime}


def rounds_of(out):
    """Seconds of every round without its evaluation."""
    with sqlite3.connect(f"file:{out}/history.sqlite?mode=ro", uri=True) as history:
        return [row[0] for row in history.execute(
            "SELECT wall_seconds - coalesce((SELECT rounds.wall_seconds - wall_before FROM eval_traffic "
            "WHERE eval_traffic.round = rounds.round), 0) FROM rounds ORDER BY round")]


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def bar(text, value, most):
    fine = value <= most
    if not fine:
        missed.append(text)
    print(f"  {text}: {value:.3g} (at most {most:.3g}) {'ok' if fine else 'MISSED'}", flush=True)


def done(out):
    try:
        with sqlite3.connect(f"file:{out}/history.sqlite?mode=ro", uri=True) as history:
            return history.execute("SELECT count(*) FROM rounds").fetchone()[0]
    except sqlite3.Error:
        return -1


def sizes(args, root):
    print(f"fedper, mlp100, cohort {COHORT}, {args.rounds} rounds, {args.threads} threads")
    print(f"{'clients':>9} {'s/round':>8} {'CPU s':>6} {'MB/round':>9} {'peak MB':>8} {'start s':>8} {'report kB':>9}")
    rows = {clients: {"bytes": [], "cpu": [], "rounds": []} for clients in args.sizes}
    # Sizes take turns, so that what else the machine does meets all of them alike.
    for turn in range(args.repeats):
        for clients, row in rows.items():
            few_out, out = f"{root}/few", f"{root}/plain"
            no_evaluation = ["--force", "--set", "federation.eval_every=100"]
            few = play(command(args, few_out, clients, 2, no_evaluation))
            plain = play(command(args, out, clients, args.rounds, no_evaluation))
            # What two rounds and the start take is known: the rest is that of further rounds.
            row["bytes"].append((plain["written"] - few["written"]) / (args.rounds - 2))
            row["cpu"].append((plain["cpu"] - few["cpu"]) / (args.rounds - 2))
            row["rounds"] += rounds_of(out)
            row["start"] = few["seconds"] - sum(rounds_of(few_out))
    for clients, row in rows.items():
        out = f"{root}/n{clients}"
        row.update(peak=play(command(args, out, clients, args.rounds))["peak"],
                   report=os.path.getsize(f"{out}/report.html"), round=median(row["rounds"]),
                   cpu=median(row["cpu"]), bytes=median(row["bytes"]))
        print(f"{clients:>9} {row['round']:>8.2f} {row['cpu']:>6.2f} {row['bytes'] / 1e6:>9.2f} "
              f"{row['peak'] / 1e6:>8.0f} {row['start']:>8.1f} {row['report'] / 1e3:>9.0f}", flush=True)
    times, written = [r["round"] for r in rows.values()], [r["bytes"] for r in rows.values()]
    work = [r["cpu"] for r in rows.values()]
    bar("slowest round / fastest round over sizes, wall time", max(times) / min(times), 1.3)
    bar("the same in processor time", max(work) / min(work), 1.3)
    # Of a few clients, states of neighbours share a page of the database; of many, each has its own.
    bar("most bytes written in a round / fewest over sizes", max(written) / min(written), 2)
    bar("peak memory, GB", max(r["peak"] for r in rows.values()) / 1e9, 1.5)
    bar("largest report, MB", max(r["report"] for r in rows.values()) / 1e6, 2)


def kills(args, root):
    clients, whole, cut = max(args.sizes), f"{root}/n{max(args.sizes)}", f"{root}/cut"
    more = []
    for at in range(args.kills):
        child = subprocess.Popen(command(args, cut, clients, args.rounds, more), stdout=subprocess.DEVNULL)
        target = (at + 1) * args.rounds // (args.kills + 1)
        while child.poll() is None and done(cut) < target:
            time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        child.wait()
        print(f"  killed after round {done(cut)}", flush=True)
        more = ["--resume"]
    row = play(command(args, cut, clients, args.rounds, more))
    digests = [json.load(open(f"{out}/summary.json"))["history_digest"] for out in (whole, cut)]
    bar(f"{args.kills} kills at {clients} clients: different digests", float(digests[0] != digests[1]), 0)
    bar("peak memory of the resumed run, GB", row["peak"] / 1e9, 1.5)


def million(args, root):
    out = f"{root}/million"
    row = play(command(args, out, args.million, 3, ["--set", "method.name=fedavg"]))
    print(f"fedavg, {args.million} clients: {median(rounds_of(out)):.2f} s/round, peak "
          f"{row['peak'] / 1e6:.0f} MB, {row['seconds']:.0f} s in all, report "
          f"{os.path.getsize(out + '/report.html') / 1e3:.0f} kB", flush=True)
    bar("rounds missing", 3 - len(rounds_of(out)), 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tessera", help="the program")
    parser.add_argument("--sizes", default="1000,10000,100000", help="numbers of clients")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5, help="of each size, in turn; medians count")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--kills", type=int, default=3, help="of a run at the largest size; 0: none")
    parser.add_argument("--million", type=int, default=1_000_000, help="clients of FedAvg; 0: none")
    args = parser.parse_args()
    args.sizes = [int(n) for n in args.sizes.split(",")]
    args.tessera = os.path.abspath(args.tessera)
    root = tempfile.mkdtemp(prefix="tessera-scale-")
    try:
        sizes(args, root)
        if args.kills:
            kills(args, root)
        if args.million:
            million(args, root)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
