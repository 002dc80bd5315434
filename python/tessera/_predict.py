"""The answer of `tessera predict --json`."""
import json
from typing import NamedTuple

import numpy as np

from ._error import Error


class Prediction(NamedTuple):
    """Answers of one client's model, one for every sample."""
    client: str
    view: str  # pre or post: which of the client's models answered
    classes: list  # names, by label
    predicted: np.ndarray  # names
    labels: np.ndarray  # int64
    probabilities: np.ndarray  # [samples, classes]; NaN: withheld by a guard of answers


def parse_prediction(text):
    try:
        answer = json.loads(text)
        classes = [str(name) for name in answer["classes"]]
        labels = np.array(answer["labels"], dtype=np.int64)
        shares = np.array(answer["probabilities"], dtype=np.float64)
        names = np.array([str(name) for name in answer["predicted"]], dtype=str)
        client, view = str(answer["client"]), str(answer["view"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise Error(f"tessera predict gave an answer that this package does not know ({error}); "
                    "program and package should be of the same version") from error
    shares = shares.reshape(len(labels), len(classes)) if shares.size == 0 else shares
    if shares.shape != (len(labels), len(classes)) or len(names) != len(labels):
        raise Error(f"tessera predict gave {len(names)} names, {len(labels)} labels and "
                    f"probabilities of shape {shares.shape} for {len(classes)} classes; program "
                    "and package should be of the same version")
    return Prediction(client, view, classes, names, labels, shares)
