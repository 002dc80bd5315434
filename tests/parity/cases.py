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
    rounds: int = 3
    note: str = ""
    personal: bool = False  # also the models of an evaluation that trains; needs whole batches
    data: str = "data"      # a folder that federation.py writes
    network: object = None  # makes the reference's network (own.py); none: by the model's name
    tolerance: float = 1e-4  # on the absolute difference of a parameter

    @property
    def label(self):
        return " ".join([self.method, self.note]).strip()


PLAIN = {"lr": 0.05, "batch": BATCH}
TWICE = PLAIN | {"epochs": 2, "momentum": 0.9, "weight_decay": 0.01, "lr_decay": 0.9}
WHOLE = {"lr": 0.05, "batch": 64}  # more than any client has: the order within it does not matter
SMALL = {"lr": 0.05, "batch": 4}   # several steps of three batches each
HALF = {"participation": 0.5, "note": "half"}

LR = {"train.lr": 0.0505}
DECAYED = PLAIN | {"epochs": 2, "lr_decay": 0.9}
SCAFFOLD_WRONG = [LR, {"option": "without c"}]
FEDOPT = {"eta": 0.05, "beta1": 0.8, "beta2": 0.9, "tau": 0.05}
DITTO = {"lambda": 0.5, "personal_epochs": 2, "personal_lr": 0.04}
DITTO_WRONG = [{"lambda": 0.0}, {"target": "trained w"}]
PFEDME = {"lambda": 15.0, "K": 3, "R": 6, "eta": 0.02, "eta_p": 0.05, "beta": 0.8}
PFEDME_WRONG = [{"beta": 1.0}, {"theta": "restarted"}]
APFL = {"alpha0": 0.4, "eta_a": 0.5}
APFL_WRONG = [{"eta_a": 0.0}, {"gradient": "at v"}]
FEDAMP = {"mode": "heur", "x0": 0.3, "s": 5.0, "prox": 0.5}
FEDAMP_WRONG = [{"prox": 0.0}, {"s": 0.0}]
ACS_WRONG = [{"p": 0.0}, {"alpha": 0.77}]
FO = {"mode": "fo", "alpha": 0.05, "beta": 0.05}
HF = {"mode": "hf", "alpha": 0.01, "beta": 0.05}
GAN = {"gan_lr": 0.0003, "gan_batch": 12}
GAN_WRONG = [{"gan_lr": 0.00033}, {"beta1": 0.9}, {"z": "drawn once"},
             {"generator": "against the old D"}, {"average": "of equals"}]
MOSAIC = {"train": {"lr": 0.003, "batch": BATCH}, "model": "mlp100", "rounds": 12,
          "data": "hard"}
MOSAIC_WRONG = [{"k": 19.0}, {"temperature": "1"}, {"held": "read after training on them"},
                {"ridge": "none"}]

CASES = [
    Case("fedavg", wrong=[LR]),
    Case("fedavg", wrong=[{"train.momentum": 0.89}, {"train.lr_decay": 1.0}], train=TWICE,
         model="mlp100", note="mlp100 momentum"),
    Case("fedavg", wrong=[LR], **HALF),
    Case("prior", wrong=[LR]),
    Case("prior", wrong=[LR, {"counted": "everybody"}], **HALF),
    Case("mosaic", wrong=MOSAIC_WRONG, **MOSAIC),
    Case("mosaic", {"experts": "pri,loc,g", "cov": "diag"}, MOSAIC_WRONG[1:3], participation=0.5,
         note="three, half", **MOSAIC),
    Case("mosaic", {"balanced": "always"}, [{"balanced": "never"}, {"balanced": "but not ft"}],
         note="balanced", **MOSAIC),
    Case("mosaic", {"balanced": "partial"}, [{"balanced": "never"}], participation=0.5,
         note="balanced, half", **MOSAIC),
    Case("mosaic-groups", {"experts": "g,pri,ft,loc,lda", "most_held": 3},
         [MOSAIC_WRONG[0], {"centre": "of equals"}], **MOSAIC | {"data": "kinds"}),
    Case("scaffold", wrong=SCAFFOLD_WRONG),
    Case("scaffold", {"server_lr": 0.7}, SCAFFOLD_WRONG + [{"server_lr": 1.0}, {"N": "the cohort"}],
         train=DECAYED, participation=0.5, note="half"),
    Case("feddyn", {"alpha": 0.3}, [LR, {"alpha": 0.31}]),
    Case("feddyn", {"alpha": 0.3}, [LR, {"N": "the cohort"}], **HALF),
    Case("fedopt", FEDOPT, [LR, {"tau": 0.06}]),
    Case("fedopt", FEDOPT | {"rule": "yogi"}, [{"rule": "adam"}], **HALF),
    Case("fedopt", FEDOPT | {"rule": "adagrad"}, [{"rule": "adam"}], note="adagrad"),
    Case("fedopt", FEDOPT | {"rule": "momentum"}, [{"beta1": 0.7}], note="momentum"),
    Case("ifca", wrong=[LR, {"choice": "the worst"}]),
    Case("ifca", {"clusters": 3}, [LR], **HALF),
    Case("fedper", wrong=[LR]),
    Case("fedper", wrong=[LR], **HALF),
    Case("fedper", {"head": "mean", "mean_over": "last_round"}, [LR, {"mean_over": "all"}],
         participation=0.5, note="mean of the last"),
    Case("ditto", DITTO, DITTO_WRONG),
    Case("ditto", DITTO, DITTO_WRONG, **HALF),
    Case("pfedme", PFEDME, PFEDME_WRONG),
    Case("pfedme", PFEDME, PFEDME_WRONG, **HALF),
    Case("apfl", APFL, APFL_WRONG),
    Case("apfl", APFL, APFL_WRONG, **HALF),
    Case("fedamp", FEDAMP, FEDAMP_WRONG),
    Case("fedamp", {"mode": "heur"}, [{"prox": 0.0}, {"s": 0.0}], **HALF),
    Case("fedacs", {"min_group": 1, "p": 0.6}, ACS_WRONG),
    Case("fedacs", {"min_group": 1, "p": 0.6, "alpha": 0.4}, ACS_WRONG + [{"alpha": 1.0}], note="alpha"),
    Case("fedacs", {"min_group": 1, "p": 0.6, "alpha": 0.4}, [{"alpha": 1.0}], **HALF),
    Case("fedbabu", wrong=[LR, {"head": "trained"}]),
    Case("fedbabu", {"ft_epochs": 3}, [{"ft_epochs": 2}], train=WHOLE, personal=True,
         note="whole batches"),
    Case("fedbabu", wrong=[LR], **HALF),
    Case("peravg", FO, [{"alpha": 0.04}], train=SMALL, note="fo"),
    Case("peravg", FO, [{"alpha": 0.04}], train=WHOLE, personal=True, note="fo whole batches"),
    Case("fedavg-gan", GAN, GAN_WRONG + [{"classes": "as at the client"},
                                         {"pictures": "of the generator just trained"}]),
    Case("fedavg-gan", GAN | {"gan_classes": "own", "gan_ratio": 0.7, "gan_epochs": 2},
         [LR, {"gan_classes": "all"}, {"gan_ratio": 0.6}], participation=0.5, note="own, half"),
    Case("fedavg-gan", GAN | {"gan_use": "replace", "gan_warmup": 0.0},
         [LR, {"gan_use": "augment"}], model="mlp100", note="replace mlp100"),
    Case("fedavg-gan", GAN | {"gan_noise_std": 0.5, "gan_clip": 0.3},
         [{"gan_noise_std": 0.45}, {"clipped": "after the sum"}], note="noise"),
]
