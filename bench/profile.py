#!/usr/bin/python3
"""Where a run's processor time goes: mathematics, memory, or neither.

    bench/profile.py build/release/tessera [--only fedper,gru] [--json]

Needs `perf` (Debian: linux-perf) and the sets that the examples name (TESSERA_DATA). Each line is one `tessera run` of an example with
one thread under `perf record` (self time, 499 samples a second of the processor's clock), sorted by library and function:

  mathematics   our kernels, OpenBLAS, oneDNN, libm, and what has no name in libtorch: the loops of its operators
  memory        copies, fills, cleared pages, our sums of models
  dispatch      what has a name in libtorch and libc10 (operators' way to their loops, autograd), and malloc
  start         the loader and libtorch's registration of operators: about the same for every run, however long
  unpacking     zlib and liblzma: sets as they lie on the disk
  files         SQLite, SHA-256, the kernel's reading and writing
  ours          the rest of this program: rounds, clients, metrics, JSON
  other         the rest
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUICK = "examples/quickstart.toml"
RUNS = {
    "fedavg": [QUICK, "--set", "rounds=60"],
    "fedper": [QUICK, "--method", "fedper", "--set", "model.name=mlp100", "--set", "rounds=200",
               "--set", "federation.eval_every=50"],
    "fedham": ["examples/fedham.toml", "--set", "rounds=12"],
    "fedacs": ["examples/fedacs.toml", "--set", "rounds=40"],
    "fedmetaper-maml": ["examples/mper2.toml", "--set", "rounds=40"],
    "pfedht": ["examples/pfedht.toml", "--set", "rounds=5", "--set", "federation.eval_every=5"],
    "ditto": [QUICK, "--method", "ditto"],
    "pfedgp": [QUICK, "--method", "pfedgp", "--set", "rounds=10", "--set", "federation.eval_every=10"],
    "gru": ["examples/air.toml", "--set", "rounds=3", "--set", "federation.eval_every=3"],
}
CLASSES = ["mathematics", "memory", "dispatch", "start", "unpacking", "files", "ours", "other"]
REGISTRATION = re.compile(r"OperatorEntry|Dispatcher::(register|findOrRegister|findSchema)|DispatchKeyExtractor|torch::Library|"
                          r"FunctionSchema|torch::jit|getDispatchTableIndex|OperatorName|DispatchKeySet::iterator|runtimeDispatchKeySetHas")
COPIES = re.compile(r"mem(move|cpy|set)|clear_page|page_fault|anonymous_page|handle_mm|folio_zero|zero_user|mean_into|::added|copy_page")
MALLOC = re.compile(r"malloc|_int_free|cfree|unlink_chunk|realloc|posix_memalign|operator new|operator delete|sysmalloc|memalign")


def class_of(symbol, library):
    if "openblas" in library or "dnnl" in library or "sleef" in library or library.startswith(("libm.", "[JIT]", "perf-", "libmvec")):
        return "mathematics"
    if COPIES.search(symbol):
        return "memory"
    if library.startswith("libtessera"):
        return "mathematics" if "tessera::fast::" in symbol else "ours"
    if library.startswith(("libtorch", "libc10")):
        if REGISTRATION.search(symbol):
            return "start"
        return "mathematics" if "unknown" in symbol and library.startswith("libtorch") else "dispatch"
    if library.startswith("ld-linux"):
        return "start"
    if library.startswith(("liblzma", "libz.")):
        return "unpacking"
    if library.startswith(("libsqlite3", "libcrypto")) or library.startswith("["):
        return "files"
    if library.startswith("libc.") or library.startswith("libstdc++"):
        return "dispatch" if MALLOC.search(symbol) else "other"
    return "other"


def shares(recording):
    text = subprocess.run(["perf", "script", "-i", recording, "-G", "-F", "ip,sym,dso"], capture_output=True, text=True).stdout
    counts = dict.fromkeys(CLASSES, 0)
    for line in text.splitlines():
        found = re.match(r"\s*[0-9a-f]+ (.*) \((.*)\)$", line)
        if found:
            counts[class_of(found.group(1), found.group(2).split("/")[-1])] += 1
    total = sum(counts.values())
    if total == 0:
        sys.exit(f"{recording}: perf has no samples")
    return {name: count / total for name, count in counts.items()}, total / 499


def record(program, words, place):
    recording = str(place / "perf.data")
    command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "499", "-o", recording, program, "run", *words,
               "--out", str(place / "run"), "--threads", "1", "--quiet", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return shares(recording), json.loads(done.stdout)["history_digest"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--only", default=",".join(RUNS))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    wanted = args.only.split(",")
    if unknown := [name for name in wanted if name not in RUNS]:
        sys.exit(f"--only: '{unknown[0]}' is none of {', '.join(RUNS)}")
    program = os.path.abspath(args.program)
    results = {}
    for name, words in RUNS.items():
        if name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as place:
            (share, seconds), digest = record(program, words, pathlib.Path(place))
        results[name] = {"seconds": seconds, "history_digest": digest, "shares": share}
        print(name, file=sys.stderr)
    if args.json:
        print(json.dumps(results, indent=2))
        return
    print("| run | s | " + " | ".join(f"{name} %" for name in CLASSES) + " | digest |")
    print("|---" * (len(CLASSES) + 3) + "|")
    for name, each in results.items():
        cells = " | ".join(f"{100 * each['shares'][kind]:.1f}" for kind in CLASSES)
        print(f"| {name} | {each['seconds']:.1f} | {cells} | {each['history_digest'][:8]} |")


if __name__ == "__main__":
    main()
