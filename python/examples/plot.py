#!/usr/bin/env python3
"""From tables of twelve hospitals to three pictures. Needs numpy and matplotlib.

    PYTHONPATH=python python3 python/examples/plot.py        (writes hospitals.png)

Every `# %%` begins a cell for editors that know them; pasted into a notebook it works as well.
"""
# %% Data: every hospital has its own patients; what makes them ill differs by kind of hospital
import pathlib
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import tessera

work = pathlib.Path(tempfile.mkdtemp(prefix="hospitals-"))
random = np.random.default_rng(1)
rules = random.normal(size=(2, 8))
for hospital in range(1, 13):
    shift = random.normal(scale=0.3, size=8)
    parts = {}
    for part, patients in ("train", 40), ("test", 200):
        x = random.normal(size=(patients, 8)) + shift
        y = x @ rules[hospital % 2] + random.normal(scale=0.5, size=patients) > 0
        parts[f"x_{part}"], parts[f"y_{part}"] = x.astype(np.float32), y.astype(np.int64)
    np.savez(work / f"client-{hospital}.npz", **parts)

# %% Four methods on three seeds; progress appears below the cell
config = {
    "name": "hospitals", "rounds": 20,
    "data": {"set": "npz", "partition": "natural", "data_dir": work},
    "model": {"name": "mlp100"},
    "train": {"lr": 0.05, "batch": 10},
    "federation": {"eval_every": 2},
}
comparison = tessera.compare(config, ["local", "fedavg", "fedper", "fedacs"], seeds=3,
                             out=work / "compare")
for row in comparison.table:
    print(f"{row['method']:<14} {100 * row['accuracy_mean']:.1f} %")

# %% How fast they learn, who gains by it, and who is like whom
figure, (curves, gains, alike) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
for method in "local", "fedavg", "fedper", "fedacs":
    runs = [comparison.runs[f"{method}-s{seed}"] for seed in (1, 2, 3)]
    evals = [run.evals() for run in runs]
    curves.plot(evals[0]["round"], 100 * np.mean([e["mean"] for e in evals], axis=0), label=method)
curves.set(title="Accuracy over hospitals", xlabel="round", ylabel="%")
curves.xaxis.get_major_locator().set_params(integer=True)
curves.legend()

alone = comparison.runs["local-s1"].client_metrics()
together = comparison.runs["fedacs-s1"].client_metrics()
gains.bar(together["client"], 100 * (together["accuracy"] - alone["accuracy"]))
gains.set(title="What FedACS adds to training alone", xlabel="hospital", ylabel="points")

similarity = comparison.runs["fedacs-s1"].exhibits["similarity"][-1]
image = alike.imshow(similarity.value)
alike.set(title=similarity.title, xticks=range(len(similarity.columns)),
          yticks=range(len(similarity.rows)))
alike.set_xticklabels(similarity.columns)
alike.set_yticklabels(similarity.rows)
figure.colorbar(image, ax=alike)
figure.savefig("hospitals.png", dpi=120)

# %% The personal model of hospital 7, as numpy arrays
state = comparison.runs["fedacs-s1"].models["7"]
print({name: array.shape for name, array in state.items()})
