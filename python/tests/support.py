"""A tiny federation of tables, and safetensors files made by hand."""
import json
import pathlib
import struct

import numpy as np

FEATURES, CLASSES = 8, 3
SIZES = {"1": 20, "2": 24, "10": 28, "north": 32}  # training rows; each client has its own number


def make_data(folder):
    """Every client has its own rule, so that a model under the wrong name is noticed."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    random = np.random.default_rng(3)
    out = {}
    for client, size in SIZES.items():
        rule = random.normal(size=(FEATURES, CLASSES))
        arrays = {}
        for part, count in ("train", size), ("test", 50):
            x = random.normal(size=(count, FEATURES)).astype(np.float32)
            y = (x @ rule).argmax(1)
            y[:CLASSES] = range(CLASSES)  # nobody lacks a class
            arrays["x_" + part], arrays["y_" + part] = x, y.astype(np.int64)
        np.savez(folder / f"client-{client}.npz", **arrays)
        out[client] = arrays
    return out


def experiment(data, method="local", rounds=2):
    """Without validation data: then the saved model is the one of the headline view."""
    return {"name": "tiny", "rounds": rounds,
            "data": {"set": "own", "partition": "natural", "data_dir": data, "val": 0},
            "model": {"name": "mlp100"},
            "train": {"lr": 0.1, "batch": 5, "epochs": 3},
            "method": {"name": method}}


def logits_of(state, x):
    """mlp100 in numpy: [samples, classes]."""
    hidden = np.maximum(x @ state["fc1.weight"].T + state["fc1.bias"], 0)
    return (hidden @ state["head.weight"].T + state["head.bias"]).astype(np.float64)


def forward(state, x):
    """Probabilities [samples, classes] of a network trained with cross-entropy."""
    logits = logits_of(state, x)
    shares = np.exp(logits - logits.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


def packed(header, data=b""):
    """A safetensors file with this header (a dict, or its text as it is)."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data
