#!/usr/bin/env python3
"""Holds exported networks to what other programs make of them.

usage: check.py WRITE_MODELS torch|opencv|onnxruntime   (exit code 0 agreed, 1 not, 77 skipped)

WRITE_MODELS writes every network as ONNX and TorchScript, with samples and logits of our own code.
The named program must give the same logits to 1e-5, of the greatest one where that is above 1, for
one sample and for seven. A check that cannot fail proves nothing: with the second network's file in
the place of the first's, the logits must NOT agree.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

TOLERANCE = 1e-5


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


try:
    import numpy
except ImportError as problem:
    skip(f"{problem} (Debian: apt install python3-numpy)")


def with_torch(folder, cases):
    try:
        import torch
    except ImportError as problem:
        skip(f"{problem} (Debian: apt install python3-torch)")
    for case in cases:
        notes = {"tessera.json": ""}
        network = torch.jit.load(folder / f"{case['name']}.pt", _extra_files=notes)
        if json.loads(notes["tessera.json"])["client_name"] != "Köln":
            raise ValueError(f"{case['name']}: tessera.json is not what was written")
        if network.training or not network.state_dict():
            raise ValueError(f"{case['name']}: in training, or without parameters")
        for batch in case["batches"]:
            with torch.no_grad():
                yield case, batch, network(torch.from_numpy(batch["x"])).numpy()


def with_opencv(folder, cases):
    try:
        import cv2
    except ImportError as problem:
        skip(f"{problem} (Debian: apt install python3-opencv)")

    class Mat(numpy.ndarray):
        """Without this, cv2 takes the last of three dimensions for colours."""
        wrap_channels = False

    cv2._registerMatType(Mat)
    for case in cases:
        if not case["opencv"]:
            continue
        network = cv2.dnn.readNetFromONNX(str(folder / f"{case['name']}.onnx"))
        network.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
        for batch in case["batches"]:
            network.setInput(batch["x"].view(Mat))
            yield case, batch, network.forward()


def with_onnxruntime(folder, cases):
    node = shutil.which("node")
    if not node:
        skip("there is no node (Debian: apt install nodejs npm)")
    script = pathlib.Path(__file__).with_name("onnxruntime.js")
    done = subprocess.run([node, script, folder], check=False)
    if done.returncode == 77:
        sys.exit(77)
    if done.returncode != 0:
        raise ValueError(f"onnxruntime.js ends with {done.returncode}")
    for case in cases:
        for batch in case["batches"]:
            file = folder / (batch["file"] + ".onnxruntime")
            yield case, batch, numpy.fromfile(file, "<f4").reshape(len(batch["x"]), -1)


def read_cases(folder):
    cases = json.loads((folder / "cases.json").read_text())
    for case in cases:
        for batch in case["batches"]:
            batch["file"] = batch["y"]
            batch["x"] = numpy.fromfile(folder / batch["x"], "<f4").reshape(batch["shape"])
            batch["y"] = numpy.fromfile(folder / batch["y"], "<f4").reshape(len(batch["x"]), -1)
    return cases


def distance(got, want):
    if got.shape != want.shape or not numpy.isfinite(got).all():
        return float("inf")
    return float(abs(got - want).max() / max(1.0, abs(want).max()))


def main(writer, program):
    run = {"torch": with_torch, "opencv": with_opencv, "onnxruntime": with_onnxruntime}[program]
    bad, checked, worst = [], 0, 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([writer, folder], check=True)
        cases = read_cases(folder)
        for case, batch, got in run(folder, cases):
            error = distance(got, batch["y"])
            checked, worst = checked + 1, max(worst, error)
            if not error <= TOLERANCE:
                bad.append(f"{case['name']}, {len(batch['x'])} samples: off by {error:.2g}")
        first, other = cases[0], cases[1]
        for ending in (".onnx", ".pt"):
            shutil.copy(folder / (other["name"] + ending), folder / (first["name"] + ending))
        if all(distance(got, batch["y"]) <= TOLERANCE for _, batch, got in run(folder, [first])):
            bad.append("another network's answers pass for those of the first")
    print("\n".join(bad) or f"{program}: {checked} batches agree, the worst to {worst:.1g}")
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
