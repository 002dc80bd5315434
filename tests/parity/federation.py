"""A small federation of images, written as own data (client-NAME.npz), and an experiment on it."""
import numpy as np

SIDE, CLASSES, BATCH = 16, 4, 8
SIZES = [30, 40, 33, 36, 31, 38]  # unequal: weights by size must matter, and last batches be smaller


def write(folder, noise=1.0, kinds=0.0, times=1):
    """Each class is a pattern of its own; clients see different classes, shifted differently. Every
    second client's pictures are `kinds` brighter; `times` as many as SIZES say."""
    random = np.random.default_rng(7)
    patterns = random.normal(size=(CLASSES, 1, SIDE, SIDE))
    folder.mkdir()
    for client, size in enumerate(SIZES):
        arrays = {}
        for part, count in ("train", times * size), ("test", 8):
            y = (client + random.integers(0, 3, count)) % CLASSES
            x = patterns[y] + 0.3 * client + kinds * (client % 2) + noise * random.normal(size=(count, 1, SIDE, SIDE))
            arrays["x_" + part], arrays["y_" + part] = x.astype(np.float32), y.astype(np.int64)
        np.savez(folder / f"client-{client}.npz", **arrays)


def write_series(folder, images):
    """The same numbers as sequences: a row of an image is a step."""
    folder.mkdir()
    for client in range(len(SIZES)):
        arrays = dict(np.load(images / f"client-{client}.npz"))
        for name in "x_train", "x_test":
            arrays[name] = arrays[name][:, 0]
        np.savez(folder / f"client-{client}.npz", **arrays)


def experiment(data, method, options, train, participation, model, rounds):
    """The experiment as TOML; `options` are the method's own, `model` is a name or all of [model]."""
    def lines(values):
        return "".join(f"{key} = {toml(value)}\n" for key, value in values.items())

    def toml(value):
        if isinstance(value, bool):
            return "true" if value else "false"
        return f'"{value}"' if isinstance(value, str) else repr(value)

    return (f'name = "parity"\nseed = 5\nrounds = {rounds}\n'
            f'[data]\nset = "npz"\npartition = "natural"\ndata_dir = "{data}"\n'
            "[model]\n" + lines(model if isinstance(model, dict) else {"name": model}) +
            "[train]\n" + lines(train) +
            f'[federation]\nparticipation = {participation}\neval_every = {rounds}\n[output]\nmodel = "headline"\n'
            f'[method]\nname = "{method}"\n' + lines(options))
