#!/usr/bin/env python3
"""Holds the program to a second implementation that shares no code with it.

usage: parity.py TESSERA        (exit code 0 agreed, 1 not, 77 skipped: no torch for this Python)

For every case the program runs some rounds on a small federation and writes down what it did
(debug.dump). methods.py repeats the run from the same data, initial model and order of batches; all
parameters of the final state must agree. A test that cannot fail proves nothing: every case is
also computed with something wrong on purpose, and then the parameters must NOT agree.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy  # noqa: F401
    import torch
except ImportError as error:
    print(f"skipped: {error} (Debian: apt install python3-torch python3-numpy)")
    sys.exit(77)

import federation
from cases import CASES
from dump import Dump, Mismatch
from gan import fedavg_gan
from methods import METHODS, PERSONAL
from mosaic import mosaic, mosaic_groups
from own import OWN_CASES

METHODS |= {"fedavg-gan": fedavg_gan, "mosaic": mosaic, "mosaic-groups": mosaic_groups}


def run_program(program, case, folder):
    """The dump of a run of the case."""
    folder.mkdir()
    file, dump = folder / "experiment.toml", folder / "dump"
    network = case.network(folder) if case.network else None
    file.write_text(federation.experiment(folder.parent / case.data, case.method, case.options,
                                          case.train, case.participation, case.model,
                                          case.rounds))
    done = subprocess.run([program, "run", file, "--out", folder / "out", "--quiet",
                           "--threads", "2", "--set", f"debug.dump={dump}"],
                          env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}, timeout=300,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Mismatch(f"exit code {done.returncode}: {done.stderr.strip()}")
    return Dump(dump, folder / "out" / "models", network)


def differences(case, run, changes):
    """{what: greatest |difference|}, those of all clients together; of numbers beyond 1 relative."""
    options, right = run.options | changes, run.train
    run.train = right | {k[6:]: v for k, v in changes.items() if k.startswith("train.")}
    try:
        expected = getattr(run.network, "reference", METHODS[run.method])(run, options)
        personal = {i: PERSONAL[run.method](run, options, i, expected)
                    for i in run.ids if case.personal}
    finally:
        run.train = right
    # Who never trained has no state.
    trained = {f"client/{i}/" for _, i in run.taken}
    expected = {name: value for name, value in expected.items()
                if not name.startswith("client/") or name[:name.index("/", 7) + 1] in trained}
    actual = {name: tensor.double() for name, tensor in run.end.items()
              if tensor.is_floating_point() and tensor.numel() > 0}
    if set(actual) != set(expected):
        raise Mismatch(f"the final state has {sorted(actual)}, expected {sorted(expected)}")
    pairs = [("*".join(re.split(r"(?<=client/)\d+|(?<=latest@)\d+", name)), actual[name], expected[name])
             for name in expected]
    pairs += [("personal models", run.model_of(i), w) for i, w in personal.items()]
    out = {}
    for what, is_, should in pairs:
        if is_.shape != should.shape:
            raise Mismatch(f"{what}: shape {list(is_.shape)}, not {list(should.shape)}")
        absent = should.isnan()
        if not torch.equal(is_.isnan(), absent):
            raise Mismatch(f"{what}: not the same numbers are missing")
        is_, should = is_[~absent], should[~absent]
        size = max(1.0, should.abs().max().item())  # sums of squares are large
        out[what] = max(out.get(what, 0.0), (is_ - should).abs().max().item() / size)
    return out


class Table:
    def __init__(self):
        self.passed = self.failed = 0
        print(f"{'method':<30} {'what':<34} {'max|difference|':>15}  ok")

    def row(self, label, what, difference, ok):
        self.passed, self.failed = self.passed + ok, self.failed + (not ok)
        shown = f"{difference:15.1e}" if isinstance(difference, float) else difference
        print(f"{label:<30} {what:<34} {shown}  {'ok' if ok else 'FAILED'}", flush=True)


def check(program, case, folder, table):
    try:
        run = run_program(program, case, folder)
        for what, difference in differences(case, run, {}).items():
            table.row(case.label, what, difference, difference <= case.tolerance)
        for changes in case.wrong:
            what = "wrong: " + ", ".join(f"{key} = {value}" for key, value in changes.items())
            difference = max(differences(case, run, changes).values())
            table.row(case.label, what, difference, difference > case.tolerance)
    except Mismatch as problem:
        table.row(case.label, str(problem), "", False)


def main(program):
    torch.set_num_threads(1)
    table = Table()
    with tempfile.TemporaryDirectory(prefix="tessera-parity-") as name:
        root = pathlib.Path(name)
        federation.write(root / "data")
        federation.write(root / "hard", noise=8.0)
        federation.write(root / "kinds", noise=8.0, kinds=6.0, times=6)
        federation.write_series(root / "series", root / "data")
        for number, case in enumerate(CASES + OWN_CASES):
            check(program, case, root / str(number), table)
    print("differences are absolute, beyond 1 relative to the largest number; at most 1e-4, of own networks 1e-5, is agreement, and `wrong` "
          "must exceed it")
    print(f"{table.passed} passed, {table.failed} failed")
    return 1 if table.failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(os.path.abspath(sys.argv[1])))
