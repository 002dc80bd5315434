"""What is compared: methods with settings, and per case what must be noticed if it were wrong."""
import dataclasses

from federation import BATCH


@dataclasses.dataclass
class Case:
    method: str
    options: dict = dataclasses.field(default_factory=dict)
    wrong: list = dataclasses.field(default_factory=list)  # {option or train.key: wrong value}
    train: dict = dataclasses.field(default_factory=lambda: PLAIN)
    participation: float = 1.0
    model: str = "lenet"
    note: str = ""

    @property
    def label(self):
        return " ".join([self.method, self.note]).strip()


PLAIN = {"lr": 0.05, "batch": BATCH}
HALF = {"participation": 0.5, "note": "half"}

CASES = [
    Case("fedavg", wrong=[{"train.lr": 0.0505}]),
    Case("fedavg", wrong=[{"train.momentum": 0.89}, {"train.lr_decay": 1.0}],
         train=PLAIN | {"epochs": 2, "momentum": 0.9, "weight_decay": 0.01, "lr_decay": 0.9},
         model="mlp100", note="mlp100 momentum"),
    Case("fedavg", wrong=[{"train.lr": 0.0505}], **HALF),
    Case("fedper", wrong=[{"train.lr": 0.0505}]),
    Case("fedper", wrong=[{"train.lr": 0.0505}], **HALF),
]
