"""Run Tessera, personalized federated learning, from Python and read what it learned.

    run = tessera.run("experiment.toml")
    run.summary["accuracy"]["mean"]
    run.models["7"]                      # a state_dict of numpy arrays
    tessera.predict(run, "7", x).predicted

The work is done by the program `tessera`; this package starts it and reads its files.
"""
from ._commands import compare, predict, run
from ._comparison import Comparison, load_comparison
from ._error import Error
from ._models import Models
from ._predict import Prediction
from ._program import find_program
from ._run import Exhibit, Run, load
from ._safetensors import StateDict
from ._version import __version__

__all__ = ["Comparison", "Error", "Exhibit", "Models", "Prediction", "Run", "StateDict",
           "__version__", "compare", "find_program", "load", "load_comparison", "predict", "run"]
