"""run, compare and predict: arguments to a command line, files to objects."""
import contextlib
import os
import pathlib
import tempfile

import numpy as np

from ._comparison import Comparison
from ._error import Error
from ._predict import parse_prediction
from ._program import call, find_program
from ._run import Run, load
from ._toml import flatten, toml, toml_value

_REPORT = "/report.html"  # the last line of run and compare says where this is


def run(config, out=None, *, sets=None, seed=None, threads=None, data_dir=None, metric=None,
        resume=False, force=False, program=None, quiet=False):
    """Runs an experiment and returns it as a Run. Same as `tessera run`.

    config: path of a TOML file, or a dict of the same structure; relative paths inside it are
        relative to the working directory.
    out: output directory (default: runs/<name>/<method>-s<seed>).
    sets: keys to change, {"train.lr": 0.1} or {"train": {"lr": 0.1}}.
    seed, data_dir: stand for the keys `seed` and `data.data_dir`.
    threads: clients at work at the same time; never changes a result.
    metric: the metric that leads tables and `best`.
    resume: continue an unfinished run. force: overwrite a former one.
    program: path of the program, see find_program(). quiet: no progress on standard error.

    Ctrl-C stops the run at the next safe point; resume=True continues it.
    """
    options = _options(out, sets, seed, threads, data_dir, metric, force, quiet)
    options += ["--resume"] if resume else []
    return _finish("run", config, options, out, program, not quiet, load)


def compare(config, methods, seeds=None, out=None, *, sets=None, threads=None, data_dir=None,
            metric=None, strict=False, force=False, program=None, quiet=False):
    """Runs methods on seeds and returns a Comparison. Same as `tessera compare`.

    methods: names, "fedavg" or "fedacs:p=0.9:train.lr=0.1", as a list or separated by commas.
    seeds: a number n for the seeds 1 … n, or a list of seeds; default: the seed of the config.
    strict: refuse to start if one of the methods cannot run, instead of leaving it out.
    The rest as in run(). What is finished in `out` is read, the rest is resumed.

    If a method fails while it runs the others go on; the Error that follows has the Comparison in
    its `result`.
    """
    names = methods.split(",") if isinstance(methods, str) else list(methods)
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise Error("methods: give names of methods, as in [\"fedavg\", \"fedper\"]")
    if any("," in name for name in names):
        raise Error("methods: a name in a list holds a comma; give one method per entry")
    many, only = _seeds(seeds)
    options = _options(out, sets, only, threads, data_dir, metric, force, quiet)
    options += ["--methods=" + ",".join(names)] + many
    options += ["--strict"] if strict else []
    return _finish("compare", config, options, out, program, not quiet, Comparison)


def predict(run, client, x, *, program=None):
    """The answers of a client's model to samples, as a Prediction.

    run: a Run or its directory. client: its name. x: an array [samples, …] as the client's own
    data are before any scaling, or the path of an .npz or .csv file.
    """
    path = run.path if isinstance(run, Run) else pathlib.Path(run)
    with contextlib.ExitStack() as stack:
        if not isinstance(x, (str, os.PathLike)):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tessera-"))
            x = _write_samples(x, pathlib.Path(folder) / "x.npz")
        answer, error = call(find_program(program),
                             ["predict", _positional(path), "--client=" + str(client),
                              "--data=" + os.fspath(x), "--proba", "--json"], show=False)
    if error:
        raise error
    return parse_prediction(answer)


def _options(out, sets, seed, threads, data_dir, metric, force, quiet):
    """The options that run and compare share."""
    options = []
    for key, value in flatten(sets or {}):
        options.append(f"--set={key}={toml_value(value, key)}")
    if seed is not None:  # later ones win
        options.append(f"--set=seed={toml_value(seed, 'seed')}")
    for name, value in (("out", out), ("data-dir", data_dir), ("threads", threads),
                        ("metric", metric)):
        if value is not None:
            options.append(f"--{name}={os.fspath(value) if name != 'threads' else value}")
    return options + ["--force"] * bool(force) + ["--quiet"] * bool(quiet)


def _seeds(seeds):
    """(flags, the only seed). `--seeds 7` means seven seeds, so a list of one goes another way."""
    if seeds is None:
        return [], None
    if np.ndim(seeds) == 0:
        return ["--seeds=" + toml_value(seeds, "seeds")], None
    chosen = [toml_value(seed, "seeds") for seed in seeds]
    if not chosen:
        raise Error("seeds: the list is empty; give seeds, or None for the seed of the config")
    return ([], seeds[0]) if len(chosen) == 1 else (["--seeds=" + ",".join(chosen)], None)


def _positional(path):
    """A name that begins with a dash would be taken for a flag."""
    text = os.fspath(path)
    return os.path.join(os.curdir, text) if text.startswith("-") else text


@contextlib.contextmanager
def _config_file(config):
    """(path of the file, what to call it in messages)."""
    if not isinstance(config, dict):
        path = _positional(config)
        yield path, (path, path)
        return
    with tempfile.TemporaryDirectory(prefix="tessera-") as folder:
        path = os.path.join(folder, "experiment.toml")
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(toml(config))
        yield path, (path, "config")


def _finish(command, config, options, out, program, show, read):
    """Runs the command and reads what it wrote."""
    found = find_program(program)
    with _config_file(config) as (path, rename):
        text, error = call(found, [command, path, *options], show=show, rename=rename)
    place = _place(text, out)
    result = read(place) if place else None
    if error:
        error.result = result
        raise error
    if result is None:
        raise Error("tessera did not say where its report is; program and package should be of "
                    "the same version")
    return result


def _place(text, out):
    """The output directory; None if the program did not get as far as a report."""
    for line in reversed(text.splitlines()):
        if line.endswith(_REPORT):
            return out if out is not None else line[:-len(_REPORT)]
    return None


def _write_samples(x, path):
    try:
        samples = np.asarray(x)
    except ValueError as error:
        raise Error(f"x: {error}") from error
    if samples.dtype == object or samples.ndim == 0:
        raise Error("x: must be an array of numbers with one row per sample")
    np.savez(path, x=samples)
    return path
